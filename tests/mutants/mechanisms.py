"""Mechanisms that are put together wrongly: noise calibrated for less, charges left out, private denominators."""

from __future__ import annotations

from .mutant import Mutant, killed_by

_LEDGER = "mechanisms/test_baselines.py::test_the_ledger_equals_the_quote_and_the_budget_is_met"
_BOUNDED = "mechanisms/test_baselines.py::test_what_a_client_contributes_is_bounded_in_the_norm_of_its_noise"
_DENOMINATOR = "mechanisms/test_baselines.py::test_sums_are_divided_by_a_public_constant"

BASELINES = (
    *killed_by(
        _LEDGER,
        "mechanisms/fed_ldp.py",
        ("halve the noise", "setting.calibrate(options, price))", "setting.calibrate(options, price) / 2)"),
        ("`replace` priced as `zero_out`", "LocalGaussian(adjacency=options.adjacency)", "LocalGaussian()"),
    ),
    *killed_by(
        _BOUNDED, "mechanisms/fed_ldp.py", ("clip in the wrong norm", "bounder=Clip()", "bounder=Clip(order=9.0)")
    ),
    *killed_by(
        _DENOMINATOR,
        "mechanisms/fed_ldp.py",
        ("divide by whoever came", "PlainSum(setting.expected)", "PlainSum(None)"),
    ),
    *killed_by(
        _LEDGER,
        "mechanisms/laplace.py",
        ("halve the noise", "setting.calibrate(options, price))", "setting.calibrate(options, price) / 2)"),
        ("`replace` priced as `zero_out`", "LocalLaplace(adjacency=options.adjacency)", "LocalLaplace()"),
        ("calibrate as Gaussian noise", "event=LaplaceDpEvent)", "event=lambda z: LaplaceDpEvent(z * 2))"),
    ),
    *killed_by(_BOUNDED, "mechanisms/laplace.py", ("clip in L2", "Clip(order=1.0)", "Clip()")),
    *killed_by(
        _DENOMINATOR,
        "mechanisms/laplace.py",
        ("divide by whoever came", "PlainSum(setting.expected)", "PlainSum(None)"),
    ),
    *killed_by(
        _LEDGER,
        "mechanisms/dp_fedavg.py",
        ("halve the noise", "setting.calibrate(options, price))", "setting.calibrate(options, price) / 2)"),
    ),
    *killed_by(
        _DENOMINATOR,
        "mechanisms/dp_fedavg.py",
        ("divide by whoever came", "PlainSum(setting.expected)", "PlainSum(None)"),
    ),
    *killed_by(
        _LEDGER,
        "mechanisms/dp_fedavg_adaptive.py",
        (
            "halve the noise",
            "QuantileClip(options.clip_norm, multiplier,",
            "QuantileClip(options.clip_norm, multiplier / 2,",
        ),
    ),
    *killed_by(
        _DENOMINATOR,
        "mechanisms/dp_fedavg_adaptive.py",
        ("divide by whoever came", "PlainSum(setting.expected)", "PlainSum(None)"),
    ),
    *killed_by(
        "bound/test_presummed.py::test_the_sum_and_the_clipped_are_the_same",
        "train/local.py",
        ("sums: skip the clip", "data, limit, turn.randomness", "data, 1e9, turn.randomness"),
    ),
    *killed_by(
        "train/test_sums.py::test_clipped_sum_is_the_sum_of_clipped_updates",
        "train/sums.py",
        ("one step: skip the clip", "clip_norm / self.learning_rate,", "1e9,"),
    ),
    *killed_by(
        "train/test_sums.py::test_clipped_sum_is_the_sum_of_clipped_updates",
        "train/gradients.py",
        ("rows: skip the clip", "clip_factors(norms, bound) @ kept", "torch.ones_like(norms) @ kept"),
    ),
    *killed_by(
        _LEDGER,
        "mechanisms/dp_sgd.py",
        (
            "halve the noise",
            "Steady(options.clip_norm, noise.multiplier)",
            "Steady(options.clip_norm, noise.multiplier / 2)",
        ),
        (
            "central: charge half",
            'return self.prices(turn.knob("noise_multiplier"))',
            'return self.prices(2 * turn.knob("noise_multiplier"))',
        ),
    ),
    *killed_by(
        _BOUNDED,
        "train/local.py",
        (
            "examples: skip the clip",
            'turn.weights, data, turn.knob("clip_norm"), rate',
            "turn.weights, data, 1e9, rate",
        ),
    ),
    *killed_by(
        "mechanisms/test_baselines.py::test_a_batch_holds_the_share_of_records_that_is_credited",
        "train/local.py",
        ("examples: forget the coin", "rate = self.sampling_rate if self.sampling_rate < 1 else None", "rate = None"),
    ),
    *killed_by(
        "mechanisms/test_baselines.py::test_a_batch_holds_the_share_of_records_that_is_credited",
        "mechanisms/dp_sgd.py",
        (
            "central: credit the batch twice",
            "sampled(GaussianDpEvent(z), self.sampling_rate)",
            "sampled(GaussianDpEvent(z), self.sampling_rate**2)",
        ),
        (
            "draw more than is credited",
            "ExampleGradients(options.sampling_rate)",
            "ExampleGradients(options.sampling_rate**0.5)",
        ),
    ),
)

PAPERS = (
    *killed_by(
        "mechanisms/test_component_adaptive.py::test_the_papers_stop_rule",
        "mechanisms/component_adaptive.py",
        (
            "a claim that does not grow",
            "lambda n, d: xue_epsilon(n, sigma0, d)",
            "lambda n, d: xue_epsilon(1, sigma0, d)",
        ),
    ),
    *killed_by(
        "mechanisms/test_component_adaptive.py::test_the_certificate_shows_the_claim_and_why_nothing_is_certified",
        "mechanisms/component_adaptive.py",
        (
            "drop `Unbounded`",
            "WeightedGaussian(PRIVATE_SCALES, options.adjacency)",
            "WeightedGaussian(None, options.adjacency)",
        ),
    ),
    *killed_by(
        "mechanisms/test_component_adaptive.py::test_the_ledger_equals_the_quote_and_the_budget_is_met_to_a_millionth",
        "mechanisms/component_adaptive.py",
        ("halve the noise", "setting.calibrate(options, noise.price),", "setting.calibrate(options, noise.price) / 2,"),
    ),
    *killed_by(
        "mechanisms/test_component_adaptive.py::test_replacing_a_client_is_hidden_by_half_the_multiplier",
        "mechanisms/trusted.py",
        ("`replace` priced as `zero_out`", "else LocalGaussian(unit, adjacency)", "else LocalGaussian(unit)"),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_the_denominator_is_a_public_constant",
        "mechanisms/distributed.py",
        (
            "divide by the survivors' weight",
            "PlainSum(denominator, setting.tolerance)",
            "PlainSum(None, setting.tolerance)",
        ),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_the_denominator_is_a_public_constant",
        "mechanisms/dropout_robust.py",
        (
            "ignore data sizes",
            "bounder=WeightedClip(options.record_limit),\n        perturber=noise.perturber",
            "bounder=WeightedClip(),\n        perturber=noise.perturber",
        ),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_the_realised_ledger_equals_the_quoted_plan",
        "mechanisms/dropout_robust.py",
        (
            "halve the noise",
            "Steady(options.clip_norm, noise.multiplier)",
            "Steady(options.clip_norm, noise.multiplier / 2)",
        ),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_integer_noise_is_calibrated_on_its_own_event",
        "mechanisms/distributed.py",
        (
            "calibrate integers as Gaussians",
            "setting.calibrate(options, integers.prices)",
            "setting.calibrate(options, GaussianShares(unit, adjacency, 0.0, sampling_rate).prices)",
        ),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_the_claim_is_the_papers_table",
        "mechanisms/dropout_robust.py",
        ("a claim that does not grow", "price({event: rounds},", "price({event: 1},"),
        ("a claim that ignores dropouts", 'if options.form == "uncalibrated" else 1.0', "if False else 1.0"),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_typical_clients_are_asked_and_skewed_ones_are_not",
        "mechanisms/a_dpfl.py",
        (
            "more noise on histograms than planned",
            "LabelHistograms(setting.classes, histogram,",
            "LabelHistograms(setting.classes, histogram and 30 * histogram,",
        ),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_the_filter_holds_and_the_certificate_is_its_promise",
        "mechanisms/a_dpfl.py",
        ("no filter", "adaptive=not faithful,", "adaptive=False,"),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_the_printed_form_claims_its_formula_and_proves_nothing",
        "mechanisms/a_dpfl.py",
        ("drop `Unbounded`", "_unproved(count) if faithful else None", "None"),
        (
            "certified histograms for printed ones",
            "histogram = None if faithful else",
            "histogram = 1.0 if faithful else",
        ),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_noise_is_calibrated_so_that_the_expected_decays_spend_the_budget",
        "mechanisms/a_dpfl.py",
        (
            "halve the noise on histograms",
            "LabelHistograms(setting.classes, histogram,",
            "LabelHistograms(setting.classes, histogram and histogram / 2,",
        ),
    ),
    *killed_by(
        "mechanisms/test_a_dpfl.py::test_noise_is_calibrated_so_that_the_expected_decays_spend_the_budget",
        "mechanisms/decay.py",
        (
            "drop the histogram's charge from the plan",
            "[] if self.histogram is None else [GaussianDpEvent(self.histogram)]",
            "[]",
        ),
        (
            "drop the counts' charge from the plan",
            "if self.count is not None and self.count.noise_multiplier > 0:",
            "if False:",
        ),
        ("plan without decay", "noise = noise_multiplier * self.factor**level", "noise = noise_multiplier"),
    ),
    *killed_by(
        "mechanisms/test_fed_cad.py::test_printed_with_a_private_difference_certifies_nothing",
        "mechanisms/fed_cad.py",
        (
            "drop `Unbounded`",
            "CorrelatedNoise(options.adjacency, private,",
            "CorrelatedNoise(options.adjacency, False,",
        ),
    ),
    *killed_by(
        "mechanisms/test_fed_cad.py::test_the_budget_is_met_to_a_millionth",
        "mechanisms/fed_cad.py",
        (
            "halve the noise",
            "            options.clip_norm,\n            multiplier,\n",
            "            options.clip_norm,\n            multiplier / 2,\n",
        ),
    ),
    *killed_by(
        "mechanisms/test_fed_cad.py::test_certified_epsilon_of_the_papers_settings",
        "mechanisms/fed_cad.py",
        (
            "`replace` priced as `zero_out`",
            "CorrelatedNoise(options.adjacency, private,",
            'CorrelatedNoise("zero_out", private,',
        ),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_the_ledger_equals_the_schedule_and_the_budget_is_met_to_a_millionth",
        "mechanisms/schedule.py",
        ("one round many times", "[z * part for part in self.shape]", "[z for part in self.shape]"),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_the_accountant_prices_the_whole_schedule_under_sampling_too",
        "mechanisms/schedule.py",
        ("missing payers", 'rounds if charge(guarantee, event).payers == "eligible" else often', "often"),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_the_strictest_of_two_guarantees_decides_the_noise",
        "mechanisms/schedule.py",
        ("the cheapest guarantee decides", "return max(map(least, self.lines))", "return min(map(least, self.lines))"),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_the_bound_is_equation_forty_one_by_recurrence",
        "mechanisms/convergence.py",
        ("constant noise", "else (theta**m - a**m) / (theta - a)", "else (1 - a**m) / (1 - a)"),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_refinement_ends_early_and_stays_within_the_budget",
        "mechanisms/geometric.py",
        ("no filter", "adaptive=options.refine,", "adaptive=False,"),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_printed_refinement_is_claimed_only",
        "mechanisms/geometric.py",
        ("refinement that is not charged", "UNFILTERED if options.refine else None", "None"),
    ),
)

MUTANTS: tuple[Mutant, ...] = (*BASELINES, *PAPERS)
