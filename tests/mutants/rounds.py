"""What lies around the noise: who is asked, what is summed, and what is written into the books."""

from __future__ import annotations

from .mutant import Mutant, killed_by

MUTANTS: tuple[Mutant, ...] = (
    *killed_by(
        "select/test_nearest.py::test_the_best_of_those_who_are_there",
        "select/nearest.py",
        ("ask who cannot pay", "eligible & (merit >= self.refuse_below)", "merit >= self.refuse_below"),
    ),
    *killed_by(
        "select/test_nearest.py::test_low_scores_are_refused_even_when_places_are_left",
        "select/nearest.py",
        ("refuse nobody", "eligible & (merit >= self.refuse_below)", "eligible"),
    ),
    *killed_by(
        "select/test_nearest.py::test_the_best_are_asked",
        "select/nearest.py",
        ("the worst first", "np.lexsort((coins, -merit[ids]))", "np.lexsort((coins, merit[ids]))"),
    ),
    *killed_by(
        "select/test_select.py::test_only_eligible_clients_are_asked_and_draws_repeat_by_seed",
        "select/poisson.py",
        ("ask who cannot pay", "ids = np.flatnonzero(eligible)", "ids = np.arange(len(eligible))"),
    ),
    *killed_by(
        "select/test_select.py::test_amplification_is_the_outsiders_alone",
        "select/poisson.py",
        (
            "amplify every outsider",
            'guarantee == Guarantee("client", "outsider", "add_remove")',
            'guarantee.observer == "outsider"',
        ),
        (
            "amplify the server",
            'guarantee == Guarantee("client", "outsider", "add_remove")',
            'guarantee.unit == "client"',
        ),
        (
            "charge participants for the coin",
            'PoissonSampledDpEvent(self.rate, event), "eligible")',
            "PoissonSampledDpEvent(self.rate, event))",
        ),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_selection_amplifies_against_the_outsider_alone",
        "mechanism.py",
        (
            "drop the last charge",
            "for guarantee, event in self.perturber.price(turn))",
            "for guarantee, event in self.perturber.price(turn)[:1])",
        ),
    ),
    *killed_by(
        "perturb/test_shares.py::test_a_client_that_vanishes_before_it_reveals_leaves_more_noise",
        "aggregate/plain.py",
        ("subtract what was never revealed", "revealed[present].sum(0", "revealed.sum(0"),
    ),
    *killed_by(
        "perturb/test_shares.py::test_fewer_survivors_than_the_shares_were_drawn_for_abort",
        "aggregate/plain.py",
        ("accept any survivors", "if survivors < least:", "if False:"),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_every_fidelity_gives_the_same_sum",
        "aggregate/secure_sum.py",
        ("everybody unmasks", '"unmask": set(vanished.unmask.tolist()),', '"unmask": set(),'),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_too_few_survivors_or_answers_abort",
        "aggregate/secure_sum.py",
        ("unmask without a majority", "if asked - gone < majority:", "if False:"),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_records_are_rounded_without_a_norm_to_hold_to",
        "aggregate/dither.py",
        ("no dither", "np.floor(values + generator.random(self.width))", "np.round(values)"),
    ),
    *killed_by(
        "aggregate/test_dither.py::test_a_record_moves_the_rounded_row_by_at_most_the_sensitivities",
        "aggregate/dither.py",
        ("sensitivity before rounding", "l2 = length + root", "l2 = length"),
    ),
    *killed_by(
        "aggregate/test_integers.py::test_the_norm_is_bounded_whatever_comes_in",
        "aggregate/integers.py",
        (
            "accept any rounding",
            "if _squared(rounded) <= self.squared_norm:\n                return rounded",
            "if True:\n                return rounded",
        ),
        ("skip the clip", "(min(1.0, self.clip_norm / norm) if norm > 0 else 0.0)", "1.0"),
    ),
    *killed_by(
        "aggregate/test_integers.py::test_sensitivities_are_those_of_the_rounded_vector",
        "aggregate/integers.py",
        ("sensitivity before rounding", "* math.sqrt(self.squared_norm)\n", "* self.clip_norm * self.scale\n"),
    ),
    *killed_by(
        "run/test_run.py::test_the_ledger_is_the_plan",
        "round.py",
        ("settle nobody", "stage.books.settle(reservation, senders,", "stage.books.settle(reservation, senders[:0],"),
    ),
    *killed_by(
        "run/test_run.py::test_the_budget_stops_the_run_before_the_release_and_keeps_the_model",
        "books.py",
        ("let everybody pay", "allowed &= payers.allowed & self._claim_allows()", "allowed &= self._claim_allows()"),
    ),
    *killed_by(
        "mechanisms/test_component_adaptive.py::test_nobody_uploads_more_often_than_the_claim_allows",
        "books.py",
        (
            "hold no claim to the budget",
            "allowed &= payers.allowed & self._claim_allows()",
            "allowed &= payers.allowed",
        ),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_the_opening_is_charged_to_everybody_exactly_once",
        "runner.py",
        (
            "drop the opening's charge",
            "stage.books.settle(reservation, everyone, charges, None)",
            "stage.books.settle(reservation, everyone[:0], charges, None)",
        ),
    ),
    *killed_by(
        "run/test_run.py::test_aborted_rounds_are_told_and_paid_for_and_the_next_one_works",
        "runner.py",
        (
            "hide aborted rounds",
            'about: dict[str, Any] = {"round": turn.round_, "aborted": str(abort)}',
            'about: dict[str, Any] = {"round": turn.round_}',
        ),
    ),
)
