"""Mechanisms that are put together wrongly: noise calibrated for less, charges left out, private denominators."""

from __future__ import annotations

from .edits import argument, assigned, called, condition, divided, listed
from .mutant import Mutant, killed_by

_LEDGER = "mechanisms/test_baselines.py::test_the_ledger_equals_the_quote_and_the_budget_is_met"
_BOUNDED = "mechanisms/test_baselines.py::test_what_a_client_contributes_is_bounded_in_the_norm_of_its_noise"
_DENOMINATOR = "mechanisms/test_baselines.py::test_sums_are_divided_by_a_public_constant"
_BATCH = "mechanisms/test_baselines.py::test_a_batch_holds_the_share_of_records_that_is_credited"

_HALVED = argument("Steady", 1, "_ / 2")
_WHOEVER_CAME = argument("PlainSum", 0, "None")

BASELINES = (
    *killed_by(
        _LEDGER,
        "mechanisms/fed_ldp.py",
        ("halve the noise", "compose", _HALVED),
        ("`replace` priced as `zero_out`", "compose", argument("LocalGaussian", "adjacency", "'zero_out'")),
    ),
    *killed_by(_DENOMINATOR, "mechanisms/fed_ldp.py", ("divide by whoever came", "compose", _WHOEVER_CAME)),
    *killed_by(
        _LEDGER,
        "mechanisms/laplace.py",
        ("halve the noise", "compose", _HALVED),
        ("`replace` priced as `zero_out`", "compose", argument("LocalLaplace", "adjacency", "'zero_out'")),
    ),
    *killed_by(_DENOMINATOR, "mechanisms/laplace.py", ("divide by whoever came", "compose", _WHOEVER_CAME)),
    *killed_by(_LEDGER, "mechanisms/dp_fedavg.py", ("halve the noise", "compose", _HALVED)),
    *killed_by(_DENOMINATOR, "mechanisms/dp_fedavg.py", ("divide by whoever came", "compose", _WHOEVER_CAME)),
    *killed_by(
        _LEDGER,
        "mechanisms/dp_fedavg_adaptive.py",
        ("halve the noise", "compose", argument("QuantileClip", 1, "_ / 2")),
    ),
    *killed_by(_DENOMINATOR, "mechanisms/dp_fedavg_adaptive.py", ("divide by whoever came", "compose", _WHOEVER_CAME)),
    *killed_by(
        "bound/test_presummed.py::test_the_sum_and_the_clipped_are_the_same",
        "train/local.py",
        ("sums: skip the clip", "SummedSteps.train", argument("clipped_sum", 2, "1e9")),
    ),
    *killed_by(
        "train/test_sums.py::test_clipped_sum_is_the_sum_of_clipped_updates",
        "train/sums.py",
        ("one step: skip the clip", "StepSum.__call__", divided("1e9", "clip_norm")),
    ),
    *killed_by(
        "train/test_sums.py::test_clipped_sum_is_the_sum_of_clipped_updates",
        "train/gradients.py",
        ("rows: skip the clip", "_clipped_sum", called("clip_factors", "torch.ones_like(norms)")),
    ),
    *killed_by(_LEDGER, "mechanisms/dp_sgd.py", ("halve the noise", "compose", _HALVED)),
    *killed_by(
        _BOUNDED,
        "train/local.py",
        ("examples: skip the clip", "ExampleGradients.train", argument("example_sum", 2, "1e9")),
    ),
    *killed_by(
        _BATCH,
        "train/local.py",
        ("examples: forget the coin", "ExampleGradients.train", assigned("rate", "None")),
    ),
    *killed_by(
        _BATCH,
        "perturb/gaussian.py",
        ("central: credit the batch twice", "CentralGaussian._event", argument("sampled", 1, "_ ** 2")),
    ),
    *killed_by(
        _BATCH,
        "mechanisms/dp_sgd.py",
        ("draw more than is credited", "compose", argument("ExampleGradients", 0, "_ ** 0.5")),
    ),
    *killed_by(
        _LEDGER,
        "mechanisms/facts.py",
        ("calibrate without the selection's payers", "PublicFacts.releases", assigned("count", "1")),
        ("the cheapest guarantee decides", "PublicFacts.calibrate", called("max", "min(_0)")),
    ),
)

PAPERS = (
    *killed_by(
        "mechanisms/test_component_adaptive.py::test_the_papers_stop_rule",
        "mechanisms/component_adaptive.py",
        ("a claim that does not grow", "_faithful", argument("xue_epsilon", 0, "1")),
    ),
    *killed_by(
        "mechanisms/test_component_adaptive.py::test_the_ledger_equals_the_quote_and_the_budget_is_met_to_a_millionth",
        "mechanisms/component_adaptive.py",
        ("halve the noise", "_certified", argument("Movement", 2, "_ / 2")),
    ),
    *killed_by(
        "mechanisms/test_component_adaptive.py::test_replacing_a_client_is_hidden_by_half_the_multiplier",
        "mechanisms/noise.py",
        ("`replace` priced as `zero_out`", "noise_for", argument("LocalGaussian", 1, "'zero_out'")),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_the_denominator_is_a_public_constant",
        "mechanisms/noise.py",
        ("divide by the survivors' weight", "_shared", argument("PlainSum", 0, "None")),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_the_denominator_is_a_public_constant",
        "mechanisms/dropout_robust.py",
        ("ignore data sizes", "_certified", argument("WeightedClip", 0, "None")),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_the_realised_ledger_equals_the_quoted_plan",
        "mechanisms/dropout_robust.py",
        ("halve the noise", "_certified", _HALVED),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_integer_noise_is_calibrated_on_its_own_event",
        "mechanisms/dropout_robust.py",
        (
            "calibrate integers as Gaussians",
            "_certified",
            argument("calibrate", 1, "__import__('sordino.perturb.shares').perturb.shares.GaussianShares()"),
        ),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_the_claim_is_the_papers_table",
        "mechanisms/dropout_robust.py",
        ("a claim that does not grow", "_claim", argument("price", 0, "{event: 1}")),
        ("a claim that ignores dropouts", "_claimed_event", assigned("kept", "1.0")),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_typical_clients_are_asked_and_skewed_ones_are_not",
        "mechanisms/a_dpfl.py",
        (
            "more noise on histograms than planned",
            "compose",
            argument("LabelHistograms", 1, "histogram and 30 * histogram"),
        ),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_the_filter_holds_and_the_certificate_is_its_promise",
        "mechanisms/a_dpfl.py",
        ("no filter", "compose", argument("Mechanism", "adaptive", "False")),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_the_printed_form_claims_its_formula_and_proves_nothing",
        "mechanisms/a_dpfl.py",
        ("certified histograms for printed ones", "compose", assigned("histogram", "1.0")),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_noise_is_calibrated_so_that_the_expected_decays_spend_the_budget",
        "mechanisms/a_dpfl.py",
        ("halve the noise on histograms", "compose", argument("LabelHistograms", 1, "histogram and histogram / 2")),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_noise_is_calibrated_so_that_the_expected_decays_spend_the_budget",
        "mechanisms/decay.py",
        ("drop the histogram's charge from the plan", "Decay.plan", assigned("events", "[]")),
        ("drop the counts' charge from the plan", "Decay.plan", condition("False", "count")),
        ("plan without decay", "Decay.plan", assigned("noise", "noise_multiplier")),
    ),
    *killed_by(
        "mechanisms/test_fed_cad.py::test_printed_with_a_private_difference_certifies_nothing",
        "mechanisms/fed_cad.py",
        ("drop `Unbounded`", "compose", argument("CorrelatedNoise", 1, "False")),
    ),
    *killed_by(
        "mechanisms/test_fed_cad.py::test_the_budget_is_met_to_a_millionth",
        "mechanisms/fed_cad.py",
        ("halve the noise", "compose", argument("ReleasedDifference", 1, "_ / 2")),
    ),
    *killed_by(
        "mechanisms/test_fed_cad.py::test_certified_epsilon_of_the_papers_settings",
        "mechanisms/fed_cad.py",
        ("`replace` priced as `zero_out`", "compose", argument("CorrelatedNoise", 0, "'zero_out'")),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_the_ledger_equals_the_schedule_and_the_budget_is_met_to_a_millionth",
        "mechanisms/schedule.py",
        ("one round many times", "SchedulePlan.priced", listed("z")),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_the_accountant_prices_the_whole_schedule_under_sampling_too",
        "mechanisms/facts.py",
        ("missing payers", "PublicFacts.releases", assigned("everybody", "False")),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_the_strictest_of_two_guarantees_decides_the_noise",
        "mechanisms/schedule.py",
        ("the cheapest guarantee decides", "SchedulePlan.priced", called("max", "min(_0)")),
    ),
    *killed_by(
        "account/test_convergence.py::test_the_bound_is_the_recursion_it_comes_from",
        "account/plan/convergence.py",
        ("noise that does not add up", "ConvergenceBound.value", called("carried", "1.0")),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_refinement_ends_early_and_stays_within_the_budget",
        "mechanisms/geometric.py",
        ("no filter", "_certified", argument("Mechanism", "adaptive", "False")),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_printed_refinement_is_claimed_only",
        "mechanisms/geometric.py",
        ("refinement that is not charged", "_faithful", argument("WeightedGaussian", 0, "None")),
    ),
)

MUTANTS: tuple[Mutant, ...] = (*BASELINES, *PAPERS)
