"""Noise that is halved, reused or missing, and prices that leave something out."""

from __future__ import annotations

from .edits import (
    argument,
    assigned,
    called,
    chosen,
    condition,
    divided,
    entry,
    returned,
    subtracted,
)
from .mutant import Mutant, killed_by

_PRICES = "perturb/test_gaussian.py::test_prices"
_FRESH = "perturb/test_gaussian.py::test_noise_is_fresh_for_every_client_and_round_and_repeats_by_seed"
_SERVER_FRESH = "perturb/test_gaussian.py::test_the_servers_noise_is_fresh_in_every_round_and_repeats_by_seed"

LOCAL = (
    *killed_by(
        "perturb/test_gaussian.py::test_what_leaves_a_client_carries_its_noise",
        "perturb/gaussian.py",
        ("local: halve the noise", "LocalGaussian.shield", argument("noisy", 2, "_ / 2")),
        ("local: sensitivity ignored", "LocalGaussian.shield", argument("noisy", 1, "1.0")),
    ),
    *killed_by(
        _FRESH,
        "perturb/gaussian.py",
        ("local: the same noise every round", "LocalGaussian.shield", argument("keys", 1, "0")),
        ("local: the same noise for all", "LocalGaussian.shield", argument("keys", 2, "_ * 0")),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_the_servers_noise_is_on_the_sum_and_told_on_the_mean",
        "perturb/gaussian.py",
        ("central: halve the noise", "CentralGaussian.release", argument("noisy_sums", 2, "_ / 2")),
        ("central: sensitivity ignored", "CentralGaussian.release", argument("noisy_sums", 1, "1.0")),
    ),
    *killed_by(
        _SERVER_FRESH,
        "perturb/gaussian.py",
        ("central: the same noise every round", "CentralGaussian.release", argument("keys", 1, "0")),
    ),
    *killed_by(
        _PRICES,
        "perturb/gaussian.py",
        ("local: charge half", "LocalGaussian.price", argument("prices", 3, "2 * _")),
        ("central: charge half", "CentralGaussian.price", argument("prices", 3, "2 * _")),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_laplace_noise_has_its_scale",
        "perturb/laplace.py",
        ("halve the noise", "LocalLaplace.shield", argument("noisy", 2, "_ / 2")),
        ("sensitivity ignored", "LocalLaplace.shield", argument("noisy", 1, "1.0")),
    ),
    *killed_by(
        _FRESH,
        "perturb/laplace.py",
        ("the same noise every round", "LocalLaplace.shield", argument("keys", 1, "0")),
        ("the same noise for all", "LocalLaplace.shield", argument("keys", 2, "_ * 0")),
    ),
    *killed_by(
        _PRICES,
        "perturb/laplace.py",
        ("charge half", "LocalLaplace.price", argument("prices", 3, "2 * _")),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_quantile_noise_splits_one_gaussian_over_update_and_bit",
        "perturb/quantile.py",
        ("halve the update's noise", "QuantileGaussian.release", argument("noisy_sums", 2, "_ / 2")),
        ("sensitivity ignored", "QuantileGaussian.release", argument("noisy_sums", 1, "1.0")),
        ("halve the bit's noise", "QuantileGaussian.release", argument("noisy_counts", 1, "_ / 2")),
        ("the bit for free", "QuantileGaussian.release", assigned("multiplier", "turn.knobs.noise_multiplier")),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_halves_are_added_up_exactly_however_many_there_are",
        "aggregate/plain.py",
        ("counts without halves", "PlainSum.add", assigned("columns", "((n, c.float()) for n, c in _)")),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_the_bit_means_not_clipped",
        "perturb/quantile.py",
        ("the bit means clipped", "QuantileGaussian.shield", subtracted("_right - _left")),
    ),
    *killed_by(
        _SERVER_FRESH,
        "perturb/quantile.py",
        ("the same noise every round", "QuantileGaussian.release", argument("keys", 1, "0")),
    ),
    *killed_by(
        _PRICES,
        "perturb/quantile.py",
        ("charge half", "QuantileGaussian.price", argument("prices", 3, "2 * _")),
    ),
    *killed_by(
        _PRICES,
        "perturb/no_noise.py",
        ("drop the server's charge", "NoNoise.price", returned("_[1:]")),
    ),
    *killed_by(
        _PRICES,
        "perturb/price.py",
        ("`replace` priced as `zero_out`", "prices", assigned("halves", "1")),
        ("a trusted server sees nothing", "prices", assigned("seen", "event(noise_multiplier / halves)")),
        (
            "credit selection under local trust",
            "prices",
            returned("(_0, (Guarantee(unit, 'outsider', 'add_remove'), seen))", "summed"),
        ),
        ("local: drop the outsider's charge", "prices", returned("_[:1]", "summed")),
        ("drop the outsider's charge", "prices", returned("_[:1]", "hidden")),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_the_price_is_the_skellam_event_of_the_rounded_vector",
        "perturb/price.py",
        ("credit a batch twice", "sampled", argument("PoissonSampledDpEvent", 0, "_ ** 2")),
    ),
    *killed_by(
        "contracts/test_composition.py::test_a_price_for_no_noise_is_unbounded",
        "perturb/price.py",
        ("less noise at the quoted price", "realised", condition("True", "_ROUNDING")),
    ),
)

ADAPTIVE = (
    *killed_by(
        "perturb/test_scaled.py::test_each_component_of_the_release_carries_noise_of_its_own_scale",
        "perturb/scaled.py",
        ("no scaling back", "Scaled.release", argument("replace", "mean", "released.mean")),
    ),
    *killed_by(
        "perturb/test_scaled.py::test_price_and_noise_are_the_inner_parts",
        "perturb/scaled.py",
        ("drop the outsider's charge", "Scaled.price", returned("_[:1]")),
    ),
    *killed_by(
        "perturb/test_weighted.py::test_a_public_level_times_the_weight_leaves_each_client",
        "perturb/weighted.py",
        ("halve the noise", "WeightedGaussian.shield", argument("noisy", 2, "_ / 2")),
        ("drop the weight", "WeightedGaussian.shield", called("mul_", "_on", "noisy")),
        ("sensitivity ignored", "WeightedGaussian.shield", argument("noisy", 1, "1.0")),
    ),
    *killed_by(
        "perturb/test_weighted.py::test_a_private_level_is_each_entrys_own",
        "perturb/weighted.py",
        (
            "one level for all components",
            "WeightedGaussian._level",
            returned("_.mean(dim=1, keepdim=True)", "spread"),
        ),
    ),
    *killed_by(
        "perturb/test_weighted.py::test_noise_is_fresh_repeats_by_seed_and_inputs_are_left_alone",
        "perturb/weighted.py",
        ("the same noise every round", "WeightedGaussian.shield", argument("keys", 1, "0")),
        ("the same noise for all", "WeightedGaussian.shield", argument("keys", 2, "_ * 0")),
    ),
    *killed_by(
        "perturb/test_weighted.py::test_prices",
        "perturb/weighted.py",
        ("drop `Unbounded`", "WeightedGaussian._event", chosen("_then")),
        ("charge half", "WeightedGaussian.price", argument("prices", 3, "2 * _")),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_what_leaves_a_client_has_the_recursions_variance_and_its_correlation",
        "perturb/correlated.py",
        ("halve the fresh noise", "_on_grid", argument("noisy", 2, "_ / 2")),
        ("sensitivity ignored", "_on_grid", argument("noisy", 1, "scale")),
        ("reuse none", "_on_grid", called("add_", "_on")),
        ("the same noise every round", "_on_grid", argument("keys", 1, "0")),
        ("forget the noise", "CorrelatedNoise.shield", argument("remembered", 2, "bounded.rows")),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_clients_have_noise_of_their_own_and_repeat_by_seed",
        "perturb/correlated.py",
        ("the same noise for all", "_on_grid", argument("keys", 2, "_ * 0")),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_fresh_noise_covers_the_innovation_on_any_path_of_differences",
        "perturb/correlated.py",
        ("r above 1", "recursion", chosen("_else", "clamp")),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_the_recursion_is_the_papers_closed_form",
        "perturb/correlated.py",
        ("newcomers send too little", "recursion", called("where", "_on")),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_the_gap_estimates_the_distance_of_updates_without_bias",
        "perturb/correlated.py",
        ("no debias", "CorrelatedNoise._gap", subtracted("_left", "change")),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_prices",
        "perturb/correlated.py",
        ("drop `Unbounded`", "CorrelatedNoise._event", chosen("_else")),
        ("charge half", "CorrelatedNoise.price", argument("prices", 3, "2 * _")),
    ),
    *killed_by(
        "bound/test_near.py::test_memory_goes_through_the_store_and_back",
        "client_state.py",
        ("newcomers' variance 0", "NoiseMemory.recall", called("ones", "torch.zeros((), dtype=torch.float64)")),
    ),
)

SHARED = (
    *killed_by(
        "perturb/test_shares.py::test_the_sum_carries_exactly_the_target_whoever_drops_out",
        "perturb/shares.py",
        ("halve the shares", "GaussianShares.shield", assigned("share", "_ / 2")),
        ("sensitivity ignored", "GaussianShares.shield", argument("mul_", 0, "share")),
        (
            "shares as if nobody vanished",
            "GaussianShares.shield",
            argument("sqrt", 0, "len(turn.cohort)"),
        ),
        ("thin with the share's own noise", "GaussianShares.reveal", argument("normals", 0, "'shield'")),
        ("thin without fresh noise", "GaussianShares.reveal", argument("mul_", 0, "0.0")),
    ),
    *killed_by(
        "perturb/test_shares.py::test_what_is_revealed_says_nothing_of_what_stays",
        "perturb/shares.py",
        (
            "the printed calibration",
            "GaussianShares.reveal",
            assigned("rows", "kept.noise - fresh.mul_(final)"),
        ),
    ),
    *killed_by(
        "perturb/test_shares.py::test_shares_and_thinning_are_fresh_for_every_client_and_round",
        "perturb/shares.py",
        ("the same shares every round", "GaussianShares.shield", argument("normals", 1, "0")),
        ("the same share for all", "GaussianShares.shield", argument("normals", 2, "_ * 0")),
        ("the same thinning every round", "GaussianShares.reveal", argument("normals", 1, "0")),
        ("the same thinning for all", "GaussianShares.reveal", argument("normals", 2, "_ * 0")),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_selection_amplifies_against_the_outsider_alone",
        "perturb/shares.py",
        ("charge half", "GaussianShares.price", argument("prices", 3, "2 * _")),
    ),
    *killed_by(
        "perturb/test_empty_cohort.py::test_an_empty_cohort_releases_the_noise_that_is_charged",
        "perturb/shares.py",
        ("an empty cohort without noise", "GaussianShares._completed", condition("True", "empty")),
        ("an empty cohort: halve the noise", "GaussianShares._completed", argument("mul_", 0, "_ / 2")),
    ),
    *killed_by(
        "perturb/test_empty_cohort.py::test_an_empty_cohort_releases_the_noise_that_is_charged",
        "perturb/integer_shares.py",
        ("an empty cohort without noise", "IntegerShares._completed", condition("True", "empty")),
        ("an empty cohort: halve the noise", "IntegerShares._completed", argument("skellam", 0, "_ / 4")),
    ),
    *killed_by(
        "perturb/test_printed.py::test_what_leaves_a_client_carries_its_share_of_the_first_noise",
        "perturb/printed.py",
        ("halve the noise", "PrintedShares.shield", assigned("noise", "_ / 2", "norm")),
    ),
    *killed_by(
        "perturb/test_printed.py::test_the_server_predicts_the_noise_that_stays_from_what_is_sent",
        "perturb/printed.py",
        ("reuse the first noise", "PrintedShares.reveal", argument("normals", 0, "'shield'")),
        ("price without the leak", "PrintedShares._prices", entry("plain", "alive")),
    ),
    *killed_by(
        "perturb/test_printed.py::test_prices_are_for_the_fewest_survivors",
        "perturb/printed.py",
        ("drop the unbounded charge", "PrintedShares._prices", called("Unbounded", "gaussian(outsider)", "MOVING")),
        ("ignore dropouts while calibrating", "PrintedShares._prices", assigned("alive", "1.0")),
    ),
    *killed_by(
        "perturb/test_printed.py::test_too_little_weight_aborts",
        "perturb/printed.py",
        ("accept any survivors", "PrintedShares._require", condition("weight <= 0")),
    ),
    *killed_by(
        "perturb/test_printed.py::test_both_draws_are_fresh_for_every_client_round_and_stage",
        "perturb/printed.py",
        ("the same first noise every round", "PrintedShares.shield", argument("normals", 1, "0")),
        ("the same correction every round", "PrintedShares.reveal", argument("normals", 1, "0")),
        ("the same correction for all", "PrintedShares.reveal", argument("normals", 2, "_ * 0")),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_the_sum_carries_exactly_the_target_whoever_drops_out",
        "perturb/integer_shares.py",
        ("halve the noise", "IntegerShares._shares", assigned("stddev", "_ / 2")),
        ("no noise", "IntegerShares.shield", argument("skellam_rows", 0, "_ * 0")),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_rounding_noise_and_splitting_never_share_a_stream",
        "perturb/integer_shares.py",
        ("the same split for every client", "IntegerShares.reveal", argument("random_bits", 3, "0")),
        ("split with the noise's own bits", "IntegerShares.reveal", argument("random_bits", 1, "'shield'")),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_every_draw_is_fresh_and_repeats_by_seed",
        "perturb/integer_shares.py",
        ("the same noise every round", "IntegerShares.shield", argument("keys", 1, "0")),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_the_price_is_the_skellam_event_of_the_rounded_vector",
        "perturb/integer_shares.py",
        ("charge half", "IntegerShares._event", argument("event", 0, "2 * _")),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_with_colluders_the_honest_alone_carry_the_target",
        "perturb/integer_shares.py",
        ("count on colluders", "IntegerShares._shares", assigned("colluders", "0")),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_the_modulus_holds_what_is_left_if_nobody_reveals",
        "perturb/integer_shares.py",
        ("modulus without noise", "IntegerShares.modulus_bits", assigned("drawn", "0.0")),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_a_clip_norm_that_grew_is_refused",
        "perturb/integer_shares.py",
        ("accept a larger clip", "IntegerShares._shares", condition("False")),
    ),
)

STEPS = (
    *killed_by(
        "perturb/test_steps.py::test_prices_compose_the_steps_and_the_count_when_it_is_due",
        "perturb/steps.py",
        ("drop the count's charge", "StepNoise.price", condition("False", "count")),
        ("charge one step", "step_event", argument("SelfComposedDpEvent", 1, "1")),
        ("drop `Unbounded`", "StepNoise.price", condition("False", "unproved")),
    ),
    *killed_by(
        "perturb/test_steps.py::test_counts_leave_with_the_noise_that_is_charged_and_only_when_due",
        "perturb/steps.py",
        ("halve the count's noise", "StepNoise.shield", argument("noisy_counts", 1, "_ / 2")),
        ("the same count's noise every round", "StepNoise.shield", argument("keys", 1, "0")),
        ("the same count's noise for all", "StepNoise.shield", argument("keys", 2, "_ * 0")),
    ),
    *killed_by(
        "perturb/test_steps.py::test_what_leaves_a_client_carries_the_noise_of_every_step",
        "train/private.py",
        ("halve the step noise", "PrivateDescent._noisy", argument("noisy_sums", 2, "_ / 2")),
    ),
    *killed_by(
        "perturb/test_steps.py::test_steps_and_rounds_draw_fresh_noise",
        "train/private.py",
        ("the same noise every step", "PrivateDescent.__call__", argument("_noisy", 5, "('local noise', round_)")),
        ("the same noise every round", "PrivateDescent.__call__", argument("_noisy", 5, "(f'local noise/{step}', 0)")),
    ),
    *killed_by(
        "perturb/test_steps.py::test_one_record_moves_a_noiseless_step_by_at_most_the_clip_norm",
        "train/private.py",
        ("skip the clip of examples", "PrivateDescent._noisy", argument("example_sums", 4, "1e9")),
    ),
    *killed_by(
        "perturb/test_steps.py::test_updates_that_nobody_vouches_for_are_refused",
        "train/noisy.py",
        ("vouch for the printed order", "PrivateSteps.train", condition("True", "order")),
    ),
)

OPENING = (
    *killed_by(
        "opening/test_histograms.py::test_what_leaves_a_client_carries_exactly_the_noise_that_is_charged",
        "opening/histograms.py",
        ("halve the noise", "LabelHistograms.tell", argument("noisy_counts", 1, "_ / 2")),
        ("the same noise for all", "LabelHistograms.tell", argument("keys", 2, "_ * 0")),
    ),
    *killed_by(
        "opening/test_histograms.py::test_both_observers_are_charged_for_the_record_unit",
        "opening/histograms.py",
        ("drop the outsider's charge", "LabelHistograms.price", returned("_[:1]")),
    ),
    *killed_by(
        "opening/test_histograms.py::test_exact_histograms_are_unbounded",
        "opening/histograms.py",
        ("drop `Unbounded`", "LabelHistograms.price", called("Unbounded", "GaussianDpEvent(1.0)")),
    ),
    *killed_by(
        "opening/test_wasserstein.py::test_distances_are_the_cheapest_transport",
        "opening/wasserstein.py",
        ("twice the distance", "distances", divided("_left")),
    ),
)

MUTANTS: tuple[Mutant, ...] = (*LOCAL, *ADAPTIVE, *SHARED, *STEPS, *OPENING)
