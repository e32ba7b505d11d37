"""What lies around the noise: who is asked, what is summed, and what is written into the books."""

from __future__ import annotations

from .edits import argument, assigned, called, compared, condition, entry, listed, masked, returned
from .mutant import Mutant, killed_by

_COMPOSED = "contracts/test_composition.py::"
_CHEATED = f"{_COMPOSED}test_a_release_with_less_noise_than_quoted_fails_at_settlement_and_no_model_comes_out"

MUTANTS: tuple[Mutant, ...] = (
    *killed_by(
        "select/test_by_score.py::test_the_best_of_those_who_are_there",
        "select/by_score.py",
        ("ask who cannot pay", "ByScore.select", masked("_right", "eligible")),
    ),
    *killed_by(
        "select/test_by_score.py::test_low_scores_are_refused_even_when_places_are_left",
        "select/by_score.py",
        ("refuse nobody", "ByScore.select", masked("_left", "eligible")),
    ),
    *killed_by(
        "select/test_by_score.py::test_the_best_are_asked",
        "select/by_score.py",
        ("the worst first", "ByScore.select", argument("lexsort", 0, "(coins, merit[ids])")),
    ),
    *killed_by(
        "select/test_select.py::test_only_eligible_clients_are_asked_and_draws_repeat_by_seed",
        "select/poisson.py",
        ("ask who cannot pay", "Poisson.select", assigned("ids", "np.arange(len(eligible))")),
    ),
    *killed_by(
        "select/test_select.py::test_amplification_is_the_outsiders_alone",
        "select/poisson.py",
        ("amplify every outsider", "Poisson.charge", assigned("amplified", "guarantee.observer == 'outsider'")),
        ("amplify the server", "Poisson.charge", assigned("amplified", "guarantee.unit == 'client'")),
        ("charge participants for the coin", "Poisson.charge", returned("Charge(_0, _1)", "rate")),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_selection_amplifies_against_the_outsider_alone",
        "mechanism.py",
        ("drop the last charge", "Mechanism.charges", returned("_[:1]")),
    ),
    *killed_by(
        f"{_COMPOSED}test_a_bounder_that_exceeds_what_it_states_is_caught_before_anything_is_sent",
        "client/side.py",
        ("rows are not measured", "ClientSide.contribute", called("_measure", "None")),
        ("rows that are not numbers pass", "_measure", condition("longest > stated.norm", "longest")),
    ),
    *killed_by(
        f"{_COMPOSED}test_parts_that_do_not_fit_are_refused_with_a_sentence",
        "mechanism.py",
        ("noise for another norm", "needs", condition("False", "order")),
        ("noise that refuses nothing", "Mechanism._misfits", condition("False", "refuses")),
    ),
    *killed_by(
        f"{_COMPOSED}test_a_bound_on_clients_is_refused_where_records_are_promised",
        "mechanism.py",
        ("a bound of another unit", "Mechanism._misfits", compared("False", "unit")),
    ),
    *killed_by(
        "contracts/test_two_sides.py::test_all_rows_at_once_and_one_client_at_a_time_release_the_same",
        "runs/round.py",
        ("subtract what was never revealed", "_answering", condition("True", "lost")),
    ),
    *killed_by(
        "perturb/test_shares.py::test_fewer_survivors_than_the_shares_were_drawn_for_abort",
        "aggregate/plain.py",
        ("accept any survivors", "require", condition("False", "survivors")),
    ),
    *killed_by(
        "aggregate/test_plain.py::test_what_is_revealed_is_taken_from_the_stated_noise",
        "aggregate/plain.py",
        ("revealed noise still counts", "StatedNoise.minus", returned("self")),
        ("revealed noise is not told to the sum", "PlainSum.subtract", argument("replace", "noise", "partial.noise")),
    ),
    *killed_by(
        "aggregate/test_plain.py::test_what_is_revealed_is_taken_from_the_stated_noise",
        "aggregate/secure_sum.py",
        ("revealed noise still counts", "SecureSum.subtract", assigned("noise", "partial.noise")),
    ),
    *killed_by(
        f"{_COMPOSED}test_a_message_that_was_bounded_by_more_than_the_terms_say_is_refused_by_the_server",
        "aggregate/plain.py",
        ("accept messages of a larger bound", "StatedNoise.plus", condition("False", "norm")),
    ),
    *killed_by(
        f"{_COMPOSED}test_one_message_with_too_little_noise_is_found_among_many",
        "aggregate/plain.py",
        ("the noisiest message counts", "StatedNoise.plus", called("min", "max(_0, _1)", "self")),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_every_fidelity_gives_the_same_sum",
        "aggregate/secure_sum.py",
        ("everybody unmasks", "SecureSum._play", entry("unmask", "set()")),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_too_few_survivors_or_answers_abort",
        "aggregate/secure_sum.py",
        ("unmask without a majority", "SecureSum._add", condition("False", "majority")),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_records_are_rounded_without_a_norm_to_hold_to",
        "aggregate/dither.py",
        ("no dither", "Dither.round_rows", called("floor", "np.round(values)")),
    ),
    *killed_by(
        "aggregate/test_dither.py::test_a_record_moves_the_rounded_row_by_at_most_the_sensitivities",
        "aggregate/dither.py",
        ("sensitivity before rounding", "Dither.event", assigned("l2", "length")),
    ),
    *killed_by(
        "aggregate/test_integers.py::test_the_norm_is_bounded_whatever_comes_in",
        "aggregate/integers.py",
        ("accept any rounding", "Grid.round_rows", assigned("fits", "np.ones(len(left), bool)")),
        ("skip the clip", "Grid.round_rows", assigned("factors", "peaks")),
    ),
    *killed_by(
        "aggregate/test_integers.py::test_sensitivities_are_those_of_the_rounded_vector",
        "aggregate/integers.py",
        ("sensitivity before rounding", "Grid.l2_sensitivity", called("sqrt", "self.clip_norm * self.scale")),
    ),
    *killed_by(
        "runs/test_run.py::test_the_ledger_is_the_plan",
        "server/side.py",
        ("settle nobody", "ServerSide.settle", argument("settle", 1, "_[:0]")),
    ),
    *killed_by(
        _CHEATED,
        "server/side.py",
        (
            "settle the quote",
            "ServerSide.settle",
            argument("settle", 2, "asked.charges"),
        ),
    ),
    *killed_by(
        _CHEATED,
        "account/ledger/settlement.py",
        ("settlement not compared", "refuse_dearer", condition("True", "quoted")),
    ),
    *killed_by(
        "runs/test_run.py::test_the_budget_stops_the_run_before_the_release_and_keeps_the_model",
        "server/charging.py",
        ("let everybody pay", "Charging.eligible", masked("_right", "claim_allows")),
    ),
    *killed_by(
        "mechanisms/test_component_adaptive.py::test_nobody_uploads_more_often_than_the_claim_allows",
        "server/charging.py",
        ("hold no claim to the budget", "Charging.eligible", masked("_left", "claim_allows")),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_the_opening_is_charged_to_everybody_exactly_once",
        "runs/loop.py",
        ("drop the opening's charge", "opened", argument("settle", 1, "_[:0]")),
    ),
    *killed_by(
        "runs/test_run.py::test_aborted_rounds_are_told_and_paid_for_and_the_next_one_works",
        "runs/loop.py",
        ("hide aborted rounds", "_one", assigned("about", "{}", "aborted")),
    ),
    *killed_by(
        "review/test_early_end.py::test_one_client_of_larger_means_does_not_keep_a_run_of_coins_going_unseen",
        "server/early_end.py",
        ("what all pay alike ends nothing", "chance_of_early_end", assigned("alike", "{}")),
    ),
    *killed_by(
        "review/test_runs_on_one_ledger.py::test_scores_do_not_decide_how_much_a_client_pays_where_no_filter_holds_it",
        "runs/books.py",
        ("let scores decide who pays how much", "_require_one_price", condition("False", "all_can_pay")),
    ),
    *killed_by(
        "review/test_runs_on_one_ledger.py::test_a_filter_adds_up_what_other_runs_released_by_other_noise",
        "server/filters.py",
        ("one filter for every noise", "held", condition("False", "GaussianFilter")),
    ),
    *killed_by(
        "review/test_runs_on_one_ledger.py::test_a_promise_that_adaptive_charges_only_imply_is_a_filters_too",
        "server/filters.py",
        ("no filter for what is only implied", "held", condition("False", "mine")),
    ),
    *killed_by(
        "train/test_rounding.py::test_factors_of_few_digits_add_nothing",
        "train/gradients.py",
        ("factors of few digits", "clip_factors", returned("factors.where(torch.isfinite(norms), 0.0)")),
    ),
    *killed_by(
        "train/test_groups.py::test_a_client_who_leaves_changes_the_sums_of_few_others",
        "train/groups.py",
        ("groups cut by place", "dealt", returned("np.arange(0, len(numbers), most)", "same")),
    ),
    *killed_by(
        "train/test_groups.py::test_no_stretch_of_a_cohort_divides_a_group_and_halves_are_alike",
        "train/engine.py",
        ("groups that are divided", "stretches", condition("False", "groups")),
    ),
    *killed_by(
        "train/test_rounding.py::test_a_client_does_not_change_what_others_add",
        "train/trainer.py",
        ("one client sends all the other way", "Trainer.clipped_sum", assigned("single", "_ & (counts == 1).all()")),
    ),
    *killed_by(
        "train/test_rounding.py::test_a_client_does_not_change_what_others_add",
        "train/batches.py",
        ("rows as long as the longest batch", "rectangles", assigned("below", "int(0.75 * lengths[0]) - 1")),
    ),
    *killed_by(
        "train/test_rounding.py::test_a_client_alone_is_computed_by_the_product_that_it_has_beside_others",
        "train/layers/linear.py",
        ("a client alone is computed otherwise", "Linear.forward", condition("len(rows) == 1", "rows")),
    ),
    *killed_by(
        "review/test_places.py::test_products_are_of_wide_matrices_with_even_rows",
        "products.py",
        ("thin matrices as they are", "wide", returned("tensor")),
    ),
    *killed_by(
        "review/test_places.py::test_products_are_of_wide_matrices_with_even_rows",
        "products.py",
        ("odd numbers of rows as they are", "inner", assigned("filled", "rows")),
    ),
    *killed_by(
        "review/test_places.py::test_what_a_map_makes_of_a_record_follows_from_that_record",
        "products.py",
        ("few rows as they are", "few_or_many", assigned("filled", "x")),
    ),
    *killed_by(
        "review/test_places.py::test_few_rows_are_computed_as_many_are",
        "products.py",
        ("few rows of products", "filled", returned("x")),
    ),
    *killed_by(
        "review/test_places.py::test_a_record_changes_a_count_by_one_also_where_a_model_looks_at_its_batch",
        "train/tapped.py",
        (
            "answers of a whole batch",
            "TappedGradients.outputs",
            assigned("found", "scores(functional_call(self._model, state, (flat,)))"),
        ),
    ),
    *killed_by(
        "review/test_places.py::test_an_engine_that_follows_places_is_found_and_not_used",
        "train/agreement.py",
        ("places are not tried", "_alike", returned("True")),
    ),
    *killed_by(
        "train/test_own_networks.py::test_what_a_model_keeps_of_a_record_is_gone_before_the_next",
        "train/stateless.py",
        ("attributes stay as a pass left them", "Stateless.__call__", called("restore", "None")),
    ),
    *killed_by(
        "models/test_models.py::test_models_whose_gradients_tell_of_other_records_are_found",
        "models/probing.py",
        ("what a model kept does not count in gradients", "probe", condition("False", "alone")),
        ("others of a batch do not count in gradients", "probe", condition("False", "among")),
    ),
    *killed_by(
        "review/test_how_many_heads.py::test_the_heads_of_a_second_run_do_not_tell_whether_somebody_joined[dp_fedavg]",
        "account/ledger/ledger.py",
        ("rows only where somebody is new", "Ledger.open", argument("_admit", "begins", "False")),
        ("who holds what only where that is new", "Ledger._admit", condition("len(held) > 0", "held")),
    ),
    *killed_by(
        "flower/test_strategy.py::test_heads_do_not_tell_whether_a_node_came_late",
        "flower/session.py",
        ("a row only for nodes that come", "PrivateSession.admit", called("nobody_joins", "None")),
    ),
    *killed_by(
        "review/test_what_was_published.py::test_fewer_releases_in_the_public_certificate_are_found",
        "account/certificate/published.py",
        ("believe what a document lists", "_no_better", returned("True", "honest")),
    ),
    *killed_by(
        "review/test_what_was_published.py::test_a_certificate_from_before_a_runs_last_releases_is_an_old_one",
        "account/certificate/verify.py",
        ("accept an old certificate", "_require_newest", condition("False", "later")),
    ),
    *killed_by(
        "review/test_what_was_published.py::test_a_private_certificate_is_held_to_what_the_rows_say",
        "account/certificate/verify.py",
        ("seeded noise without its stamp", "_require_stamp", condition("False", "seeded")),
        ("leave a promise out", "_compare", condition("False", "unsaid")),
    ),
    *killed_by(
        "federation/test_untold.py::test_a_plan_that_invents_members_does_not_lower_what_a_node_pays",
        "federation/limits.py",
        ("credit others' noise to an outsider", "_uncredited", assigned("shown", "event")),
    ),
    *killed_by(
        "federation/test_hostile_member.py::test_a_member_that_states_more_noise_than_it_can_have_ends_nobodys_run",
        "federation/collect.py",
        ("believe what a member says of its noise", "_believed", listed("one")),
    ),
    *killed_by(
        "federation/test_hostile_member.py::test_numbers_beside_a_message_that_no_member_has_are_left_out",
        "federation/collect.py",
        ("count what stands beside a message as it comes", "_beyond", assigned("allowed", "{}")),
    ),
    *killed_by(
        "federation/test_muted.py::test_a_muted_node_does_not_look_at_its_records",
        "federation/contribution.py",
        ("train on records that are not paid for", "contribution", condition("False", "mute")),
    ),
    *killed_by(
        "account/test_edited_certificates.py::test_nothing_is_put_into_delta_instead_of_taken_out",
        "account/certificate/proof.py",
        ("less than nothing taken out of delta", "curve_of", compared("True", "taken_out")),
    ),
    *killed_by(
        "aggregate/test_dither.py::test_entries_that_doubles_cannot_tell_apart_stay_below_the_largest",
        "aggregate/dither.py",
        ("entries of any size", "Dither.round_rows", called("clip", "_0")),
    ),
    *killed_by(
        "review/test_noise_used_twice.py::test_two_copies_of_a_folder_do_not_both_show_what_their_noise_remembers",
        "account/ledger/writing.py",
        ("a round once more of noise that remembers", "LedgerWriter.reserve", condition("False", "once")),
    ),
    *killed_by(
        "review/test_early_end.py::test_a_round_that_was_paid_for_again_is_one_more_to_pay_for",
        "server/early_end.py",
        ("forget rounds that were paid for again", "with_rounds_paid_again", condition("True", "again")),
    ),
    *killed_by(
        "review/test_forged_private_files.py::test_an_old_certificate_does_not_pass_where_the_runs_name_is_gone",
        "account/certificate/verify.py",
        ("a run that the ledger does not know", "_require_run", condition("False", "run")),
    ),
    *killed_by(
        "review/test_ledger_variants.py::test_a_ledger_of_two_names_is_not_written_under_both",
        "account/ledger/sqlite.py",
        ("write under any name of the file", "require_one_name", condition("False", "st_nlink")),
    ),
    *killed_by(
        "review/test_what_was_published.py::test_a_page_shows_no_certificate_that_nobody_signed",
        "account/certificate/check.py",
        ("show what nobody signed", "signed_document", condition("False", "signed")),
    ),
)
