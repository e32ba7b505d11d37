"""Noise that is halved, reused or missing, and prices that leave something out."""

from __future__ import annotations

from .mutant import Mutant, killed_by

LOCAL = (
    *killed_by(
        "perturb/test_gaussian.py::test_what_leaves_a_client_carries_its_noise",
        "perturb/gaussian.py",
        ("local: halve the noise", "bounded.rows + noise.mul_(stddev)", "bounded.rows + noise.mul_(stddev / 2)"),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_noise_is_fresh_for_every_client_and_round_and_repeats_by_seed",
        "perturb/gaussian.py",
        ("local: the same noise every round", '("shield", turn.round_,', '("shield", 0,'),
        (
            "local: the same noise for all",
            '"shield", turn.round_, bounded.clients,',
            '"shield", turn.round_, bounded.clients * 0,',
        ),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_the_servers_noise_is_on_the_sum_and_told_on_the_mean",
        "perturb/gaussian.py",
        ("central: halve the noise", "summed.total + noise.mul_(stddev)", "summed.total + noise.mul_(stddev / 2)"),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_the_servers_noise_is_fresh_in_every_round_and_repeats_by_seed",
        "perturb/gaussian.py",
        ("central: the same noise every round", '("release", turn.round_,', '("release", 0,'),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_prices",
        "perturb/gaussian.py",
        (
            "local: charge half",
            '"local", self.adjacency, turn.knob("noise_multiplier")',
            '"local", self.adjacency, 2 * turn.knob("noise_multiplier")',
        ),
        (
            "central: charge half",
            '"central", self.adjacency, turn.knob("noise_multiplier")',
            '"central", self.adjacency, 2 * turn.knob("noise_multiplier")',
        ),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_laplace_noise_has_its_scale",
        "perturb/laplace.py",
        (
            "halve the noise",
            'scale = turn.knob("noise_multiplier") * turn.knob("clip_norm")',
            'scale = turn.knob("noise_multiplier") * turn.knob("clip_norm") / 2',
        ),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_noise_is_fresh_for_every_client_and_round_and_repeats_by_seed",
        "perturb/laplace.py",
        ("the same noise every round", 'generator("shield", turn.round_, int(c))', 'generator("shield", 0, int(c))'),
        ("the same noise for all", 'generator("shield", turn.round_, int(c))', 'generator("shield", turn.round_, 0)'),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_prices",
        "perturb/laplace.py",
        (
            "charge half",
            'self.adjacency, turn.knob("noise_multiplier")',
            'self.adjacency, 2 * turn.knob("noise_multiplier")',
        ),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_quantile_noise_splits_one_gaussian_over_update_and_bit",
        "perturb/quantile.py",
        (
            "halve the update's noise",
            'stddev = multiplier * turn.knob("clip_norm")',
            'stddev = multiplier * turn.knob("clip_norm") / 2',
        ),
        ("halve the bit's noise", "noise[-1:] * self.bit_stddev", "noise[-1:] * self.bit_stddev / 2"),
        (
            "the bit for free",
            '(turn.knob("noise_multiplier") ** -2 - (2 * self.bit_stddev) ** -2) ** -0.5',
            'turn.knob("noise_multiplier")',
        ),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_the_bit_means_not_clipped",
        "perturb/quantile.py",
        ("the bit means clipped", "0.5 - bounded.clipped.to(", "-0.5 + bounded.clipped.to("),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_the_servers_noise_is_fresh_in_every_round_and_repeats_by_seed",
        "perturb/quantile.py",
        ("the same noise every round", '("release", turn.round_,', '("release", 0,'),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_prices",
        "perturb/quantile.py",
        ("charge half", '"zero_out", turn.knob("noise_multiplier")', '"zero_out", 2 * turn.knob("noise_multiplier")'),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_prices",
        "perturb/silent.py",
        ("drop the server's charge", '(Guarantee(self.unit, "server", "zero_out"), event),', ""),
    ),
    *killed_by(
        "perturb/test_gaussian.py::test_prices",
        "perturb/price.py",
        ("`replace` priced as `zero_out`", 'halves = 2 if adjacency == "replace" else 1', "halves = 1"),
        ("a trusted server sees nothing", 'Unbounded(TRUSTED) if trust == "central" else event', "event"),
        (
            "credit selection under local trust",
            '(Guarantee(unit, "outsider", adjacency), seen)',
            '(Guarantee(unit, "outsider", "add_remove"), seen)',
        ),
        (
            "local: drop the outsider's charge",
            '(Guarantee(unit, "server", adjacency), seen), (Guarantee(unit, "outsider", adjacency), seen)',
            '((Guarantee(unit, "server", adjacency), seen),)',
        ),
        ("drop the outsider's charge", '(Guarantee(unit, "outsider", "add_remove"), event(noise_multiplier)),', ""),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_the_price_is_the_skellam_event_of_the_rounded_vector",
        "perturb/price.py",
        (
            "credit a batch twice",
            "else PoissonSampledDpEvent(rate, event)",
            "else PoissonSampledDpEvent(rate**2, event)",
        ),
    ),
)

ADAPTIVE = (
    *killed_by(
        "perturb/test_scaled.py::test_each_component_of_the_release_carries_noise_of_its_own_scale",
        "perturb/scaled.py",
        ("no scaling back", "mean=released.mean * scales.to(released.mean.dtype)", "mean=released.mean"),
    ),
    *killed_by(
        "perturb/test_scaled.py::test_price_and_noise_are_the_inner_parts",
        "perturb/scaled.py",
        ("drop the outsider's charge", "return self.inner.price(turn)", "return self.inner.price(turn)[:1]"),
    ),
    *killed_by(
        "perturb/test_weighted.py::test_a_public_level_times_the_weight_leaves_each_client",
        "perturb/weighted.py",
        ("halve the noise", "noise.mul_(level).mul_(weights)", "noise.mul_(level / 2).mul_(weights)"),
        ("drop the weight", "noise.mul_(level).mul_(weights)", "noise.mul_(level)"),
    ),
    *killed_by(
        "perturb/test_weighted.py::test_a_private_level_is_each_entrys_own",
        "perturb/weighted.py",
        (
            "one level for all components",
            "            return bounded.spread\n",
            "            return bounded.spread.mean(dim=1, keepdim=True)\n",
        ),
    ),
    *killed_by(
        "perturb/test_weighted.py::test_noise_is_fresh_repeats_by_seed_and_inputs_are_left_alone",
        "perturb/weighted.py",
        ("the same noise every round", '("shield", turn.round_,', '("shield", 0,'),
        ("the same noise for all", "turn.round_, bounded.clients,", "turn.round_, bounded.clients * 0,"),
    ),
    *killed_by(
        "perturb/test_weighted.py::test_prices",
        "perturb/weighted.py",
        (
            "drop `Unbounded`",
            "if self.proves_nothing is None else Unbounded(self.proves_nothing)",
            "if True else Unbounded('')",
        ),
        (
            "charge half",
            'self.adjacency, turn.knob("noise_multiplier")',
            'self.adjacency, 2 * turn.knob("noise_multiplier")',
        ),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_what_leaves_a_client_has_the_recursions_variance_and_its_correlation",
        "perturb/correlated.py",
        ("halve the fresh noise", "(fresh * stddev).float()", "(fresh * stddev / 2).float()"),
        ("reuse none", ".add_(memory.noise * reuse.float()[:, None])", ""),
        ("the same noise every round", '("shield", turn.round_,', '("shield", 0,'),
        ("forget the noise", "bounded.rows, noise, numbers)", "bounded.rows, noise * 0, numbers)"),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_clients_have_noise_of_their_own_and_repeat_by_seed",
        "perturb/correlated.py",
        (
            "the same noise for all",
            '"shield", turn.round_, bounded.clients,',
            '"shield", turn.round_, bounded.clients * 0,',
        ),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_fresh_noise_covers_the_innovation_on_any_path_of_differences",
        "perturb/correlated.py",
        ("r above 1", "reuse.clamp(max=1.0) if clamp else reuse", "reuse"),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_the_recursion_is_the_papers_closed_form",
        "perturb/correlated.py",
        ("newcomers send too little", "reuse = reuse.where(known, torch.zeros_like(reuse))", "reuse = reuse.clone()"),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_the_gap_estimates_the_distance_of_updates_without_bias",
        "perturb/correlated.py",
        ("no debias", " - rows.shape[1] * change", ""),
    ),
    *killed_by(
        "perturb/test_correlated.py::test_prices",
        "perturb/correlated.py",
        ("drop `Unbounded`", "Unbounded(ADAPTED) if self.private else CorrelatedGaussian(z)", "CorrelatedGaussian(z)"),
        (
            "charge half",
            'self.adjacency, turn.knob("noise_multiplier")',
            'self.adjacency, 2 * turn.knob("noise_multiplier")',
        ),
    ),
    *killed_by(
        "bound/test_near.py::test_memory_goes_through_the_store_and_back",
        "memory.py",
        ("newcomers' variance 0", "torch.ones((), dtype=torch.float64)", "torch.zeros((), dtype=torch.float64)"),
    ),
)

SHARED = (
    *killed_by(
        "perturb/test_shares.py::test_the_sum_carries_exactly_the_target_whoever_drops_out",
        "perturb/shares.py",
        ("halve the shares", "share = self._stddev(turn) / math.sqrt(", "share = self._stddev(turn) / 2 / math.sqrt("),
        (
            "shares as if nobody vanished",
            "math.sqrt(admissible(len(turn.cohort), self.tolerance))",
            "math.sqrt(len(turn.cohort))",
        ),
        ("thin with the share's own noise", 'normals("thin",', 'normals("shield",'),
        ("thin without fresh noise", "final * math.sqrt(1 - stays)", "final * 0"),
    ),
    *killed_by(
        "perturb/test_shares.py::test_what_is_revealed_says_nothing_of_what_stays",
        "perturb/shares.py",
        (
            "the printed calibration",
            "return message.kept * (1 - stays) - fresh.mul_(final * math.sqrt(1 - stays))",
            "return message.kept - fresh.mul_(final)",
        ),
    ),
    *killed_by(
        "perturb/test_shares.py::test_shares_and_thinning_are_fresh_for_every_client_and_round",
        "perturb/shares.py",
        ("the same shares every round", '"shield", turn.round_,', '"shield", 0,'),
        (
            "the same share for all",
            '"shield", turn.round_, bounded.clients,',
            '"shield", turn.round_, bounded.clients * 0,',
        ),
        ("the same thinning every round", '"thin", turn.round_,', '"thin", 0,'),
        (
            "the same thinning for all",
            '"thin", turn.round_, message.clients,',
            '"thin", turn.round_, message.clients * 0,',
        ),
    ),
    *killed_by(
        "mechanisms/test_dropout_robust.py::test_selection_amplifies_against_the_outsider_alone",
        "perturb/shares.py",
        ("charge half", 'self.prices(turn.knob("noise_multiplier"))', 'self.prices(2 * turn.knob("noise_multiplier"))'),
    ),
    *killed_by(
        "perturb/test_printed.py::test_what_leaves_a_client_carries_its_share_of_the_first_noise",
        "perturb/printed.py",
        ("halve the noise", "noise *= self._stddev(turn) *", "noise *= self._stddev(turn) / 2 *"),
    ),
    *killed_by(
        "perturb/test_printed.py::test_the_server_predicts_the_noise_that_stays_from_what_is_sent",
        "perturb/printed.py",
        ("reuse the first noise", 'normals("calibrate",', 'normals("shield",'),
        ("price without the leak", '"plain": alive / (1 + alive), "extended": 0.5', '"plain": alive, "extended": 1.0'),
    ),
    *killed_by(
        "perturb/test_printed.py::test_prices_are_for_the_fewest_survivors",
        "perturb/printed.py",
        ("drop the unbounded charge", '"add_remove"), Unbounded(MOVING)', '"add_remove"), gaussian(outsider)'),
        ("ignore dropouts while calibrating", "alive = 1 - tolerance", "alive = 1.0"),
    ),
    *killed_by(
        "perturb/test_printed.py::test_too_little_weight_aborts",
        "perturb/printed.py",
        ("accept any survivors", "if weight < least * (1 - 1e-9) or weight <= 0:", "if weight <= 0:"),
    ),
    *killed_by(
        "perturb/test_printed.py::test_both_draws_are_fresh_for_every_client_round_and_stage",
        "perturb/printed.py",
        ("the same first noise every round", '"shield", turn.round_,', '"shield", 0,'),
        ("the same correction every round", '"calibrate", turn.round_,', '"calibrate", 0,'),
        (
            "the same correction for all",
            '"calibrate", turn.round_, message.clients,',
            '"calibrate", turn.round_, message.clients * 0,',
        ),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_the_sum_carries_exactly_the_target_whoever_drops_out",
        "perturb/integer_shares.py",
        ("halve the noise", "* clip_norm * self.rounding.scale", "* clip_norm * self.rounding.scale / 2"),
        (
            "no noise",
            "self.rounding.round_row(row, generator) + noise.values",
            "self.rounding.round_row(row, generator)",
        ),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_rounding_noise_and_splitting_never_share_a_stream",
        "perturb/integer_shares.py",
        ("the same split for every client", '"thin", turn.round_, client)', '"thin", turn.round_, 0)'),
        ("split with the noise's own bits", '"thin", turn.round_, client)', '"shield", turn.round_, client)'),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_every_draw_is_fresh_and_repeats_by_seed",
        "perturb/integer_shares.py",
        ("the same noise every round", '"shield", turn.round_, client)', '"shield", 0, client)'),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_the_price_is_the_skellam_event_of_the_rounded_vector",
        "perturb/integer_shares.py",
        ("charge half", "(z * unit) ** 2", "2 * (z * unit) ** 2"),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_with_colluders_the_honest_alone_carry_the_target",
        "perturb/integer_shares.py",
        ("count on colluders", "colluders = math.floor(self.corrupt * len(turn.cohort))", "colluders = 0"),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_the_modulus_holds_what_is_left_if_nobody_reveals",
        "perturb/integer_shares.py",
        ("modulus without noise", "len(turn.cohort) * float(self._shares(turn).share_variance())", "0.0"),
    ),
    *killed_by(
        "perturb/test_integer_shares.py::test_a_clip_norm_that_grew_is_refused",
        "perturb/integer_shares.py",
        ("accept a larger clip", "if clip_norm > self.rounding.clip_norm * (1 + 1e-9):", "if False:"),
    ),
)

STEPS = (
    *killed_by(
        "perturb/test_steps.py::test_prices_compose_the_steps_and_the_count_when_it_is_due",
        "perturb/steps.py",
        (
            "drop the count's charge",
            "event = ComposedDpEvent((event, GaussianDpEvent(self.count.noise_multiplier)))",
            "pass",
        ),
        ("charge one step", "SelfComposedDpEvent(step, steps)", "SelfComposedDpEvent(step, 1)"),
        ("drop `Unbounded`", "if self.unproved is not None:", "if False:"),
    ),
    *killed_by(
        "perturb/test_steps.py::test_counts_leave_with_the_noise_that_is_charged_and_only_when_due",
        "perturb/steps.py",
        (
            "halve the count's noise",
            "noise.mul_(self.count.noise_multiplier)",
            "noise.mul_(self.count.noise_multiplier / 2)",
        ),
        ("the same count's noise every round", '("count", turn.round_,', '("count", 0,'),
        (
            "the same count's noise for all",
            '"count", turn.round_, bounded.clients,',
            '"count", turn.round_, bounded.clients * 0,',
        ),
    ),
    *killed_by(
        "perturb/test_steps.py::test_what_leaves_a_client_carries_the_noise_of_every_step",
        "train/private.py",
        (
            "halve the step noise",
            "noise.mul_(privacy.noise_multiplier * privacy.clip_norm)",
            "noise.mul_(privacy.noise_multiplier * privacy.clip_norm / 2)",
        ),
    ),
    *killed_by(
        "perturb/test_steps.py::test_steps_and_rounds_draw_fresh_noise",
        "train/private.py",
        ("the same noise every step", 'f"local noise/{step}", round_', '"local noise", round_'),
        ("the same noise every round", 'f"local noise/{step}", round_', 'f"local noise/{step}", 0'),
    ),
    *killed_by(
        "perturb/test_steps.py::test_one_record_moves_a_noiseless_step_by_at_most_the_clip_norm",
        "train/private.py",
        ("skip the clip of examples", "batches, privacy.clip_norm)).div_(divisor)", "batches, 1e9)).div_(divisor)"),
    ),
    *killed_by(
        "perturb/test_steps.py::test_updates_that_nobody_vouches_for_are_refused",
        "train/noisy.py",
        ("vouch for the printed order", 'if self.order == "clip_then_noise":', "if True:"),
    ),
)

OPENING = (
    *killed_by(
        "opening/test_histograms.py::test_what_leaves_a_client_carries_exactly_the_noise_that_is_charged",
        "opening/histograms.py",
        ("halve the noise", "self.noise_multiplier * noise", "self.noise_multiplier / 2 * noise"),
        ("the same noise for all", '"histograms", turn.round_, clients,', '"histograms", turn.round_, clients * 0,'),
    ),
    *killed_by(
        "opening/test_histograms.py::test_both_observers_are_charged_for_the_record_unit",
        "opening/histograms.py",
        ("drop the outsider's charge", '(Guarantee("record", "outsider", "add_remove"), event),', ""),
    ),
    *killed_by(
        "opening/test_histograms.py::test_exact_histograms_are_unbounded",
        "opening/histograms.py",
        (
            "drop `Unbounded`",
            "Unbounded(EXACT) if self.noise_multiplier is None",
            "GaussianDpEvent(1.0) if self.noise_multiplier is None",
        ),
    ),
    *killed_by(
        "opening/test_histograms.py::test_scores_are_post_processing_of_the_noisy_counts_alone",
        "opening/histograms.py",
        (
            "rank by exact counts",
            "counts = self.counts(federation, turn)",
            "counts = LabelHistograms(self.classes, None).counts(federation, turn)",
        ),
    ),
    *killed_by(
        "opening/test_wasserstein.py::test_distances_are_the_cheapest_transport",
        "opening/wasserstein.py",
        ("twice the distance", "np.abs(gap).sum(1) / 2)", "np.abs(gap).sum(1))"),
    ),
)

MUTANTS: tuple[Mutant, ...] = (*LOCAL, *ADAPTIVE, *SHARED, *STEPS, *OPENING)
