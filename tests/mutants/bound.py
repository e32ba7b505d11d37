"""Bounds that are skipped, loosened, or taken in the wrong units."""

from __future__ import annotations

from .mutant import Mutant, killed_by

MUTANTS: tuple[Mutant, ...] = (
    *killed_by(
        "bound/test_l2.py::test_norm_is_bounded_whatever_comes_in",
        "bound/l2.py",
        ("skip the clip", "(rows * scale.unsqueeze(1).to(rows.dtype)).where(sane", "rows.where(sane"),
        ("let NaN through", "sane = norms <= _HUGE", "sane = ~(norms > _HUGE)"),
        ("L2 norms for L1", "vector_norm(rows, order, dim=1", "vector_norm(rows, 2.0, dim=1"),
    ),
    *killed_by(
        "bound/test_l2.py::test_norm_is_bounded_in_every_precision",
        "bound/l2.py",
        ("no room for rounding", "clip_norm * (1 - 1e-6) / norms", "clip_norm / norms"),
    ),
    *killed_by(
        "bound/test_l2.py::test_clip_uses_the_turns_clip_norm_and_weights_everybody_alike",
        "bound/l2.py",
        (
            "twice the clip norm",
            'clip_rows(update.rows, turn.knob("clip_norm"), self',
            'clip_rows(update.rows, 2 * turn.knob("clip_norm"), self',
        ),
    ),
    *killed_by(
        "mechanisms/test_baselines.py::test_what_a_client_contributes_is_bounded_in_the_norm_of_its_noise",
        "bound/l2.py",
        ("clip in L2 for Laplace noise", 'turn.knob("clip_norm"), self.order)', 'turn.knob("clip_norm"))'),
    ),
    *killed_by(
        "bound/test_presummed.py::test_a_sum_that_nobody_vouches_for_is_refused",
        "bound/l2.py",
        ("accept sums of a larger clip", "update.client_clip > limit * (1 + 1e-9)", "False"),
        ("NaN counts as not clipped", "~(update.norms <= limit)", "update.norms > limit"),
    ),
    *killed_by(
        "bound/test_l2.py::test_per_example_takes_only_rows_that_the_trainer_vouches_for",
        "bound/l2.py",
        ("accept examples of a larger clip", "update.example_clip > limit * (1 + 1e-9)", "False"),
        ("accept rows that are not finite", "if not torch.isfinite(update.rows).all():", "if False:"),
    ),
    *killed_by(
        "bound/test_near.py::test_both_bounds_hold_whatever_comes_in",
        "bound/near.py",
        (
            "skip the clip",
            "rows, clipped = clip_rows(update.rows, limit)",
            "rows, clipped = clip_rows(update.rows, 1e29)",
        ),
        ("skip the pull", "pulled = memory.known & (difference < 1) & far", "pulled = torch.zeros_like(far)"),
        ("relative margin", "((difference - _MARGIN) * limit)", "(difference * (1 - _MARGIN) * limit)"),
    ),
    *killed_by(
        "bound/test_near.py::test_a_private_difference_is_the_clients_own",
        "bound/near.py",
        ("everybody's D for a client's own", "memory.difference if self.private else torch", "torch"),
    ),
    *killed_by(
        "bound/test_scaled.py::test_the_scaled_norm_is_bounded_whatever_comes_in",
        "bound/scaled.py",
        ("skip the clip", ".to(rows.dtype), clip_norm)", ".to(rows.dtype), 1e29)"),
        (
            "clip in model units",
            'scaled, clipped = clip_rows(rows / turn.knobs["scales"].to(rows.dtype), clip_norm)',
            'scaled, clipped = clip_rows(rows, clip_norm)\n        scaled = scaled / turn.knobs["scales"]',
        ),
    ),
    *killed_by(
        "bound/test_scaled.py::test_the_box_cuts_each_component_by_itself",
        "bound/scaled.py",
        ("double the box", "(clip_norm / math.sqrt(rows.shape[1]))", "(2 * clip_norm / math.sqrt(rows.shape[1]))"),
        ("skip the truncation", "rows = rows.clamp(-corner, corner)", "rows = rows.nan_to_num()"),
    ),
    *killed_by(
        "bound/test_predicted.py::test_the_state_is_carried_one_step_forward_as_in_table_two",
        "bound/predicted.py",
        ("g_K for g_{K−1}", "step(trace.state, trace.gradient)", "step(trace.state, trace.last_gradient)"),
    ),
    *killed_by(
        "bound/test_predicted.py::test_truncation_is_around_the_broadcast_model",
        "bound/predicted.py",
        ("β for β/2", "(self.beta / 2)", "self.beta"),
        ("skip the truncation", "rows = update.rows.clamp(-threshold, threshold)", "rows = update.rows"),
    ),
    *killed_by(
        "bound/test_predicted.py::test_printed_noise_is_the_square_root_of_d_times_sigma_times_beta_w",
        "bound/predicted.py",
        ("no √d", "(math.sqrt(sensitivity.shape[1]) * noise_multiplier)", "noise_multiplier"),
        ("halve the noise", "2 * threshold / self.sensitivity_divisor", "threshold / self.sensitivity_divisor"),
    ),
    *killed_by(
        "bound/test_predicted.py::test_both_allocations_spend_the_same_and_the_second_adds_the_least_noise",
        "bound/predicted.py",
        ("overspending split", ".sqrt_().mul_(noise_multiplier)", ".sqrt_().mul_(noise_multiplier / 2)"),
    ),
    *killed_by(
        "bound/test_predicted.py::test_clients_count_by_their_records",
        "bound/predicted.py",
        ("forget the weight", "rows * weights[:, None],", "rows,"),
    ),
    *killed_by(
        "bound/test_weighted.py::test_no_row_exceeds_the_clip_norm",
        "bound/weighted.py",
        ("skip the clip", 'clip_rows(update.rows, turn.knob("clip_norm"))', "clip_rows(update.rows, 1e29)"),
        ("weights above 1", ".clamp(max=1.0)", ""),
        ("forget the weight", "rows * counts[:, None], counts", "rows, counts"),
    ),
    *killed_by(
        "bound/test_weighted.py::test_projection_stays_near_the_start",
        "bound/weighted.py",
        ("no projection", "start + clip_rows(rows - start, self.clip_norm)[0]", "rows.nan_to_num()"),
    ),
    *killed_by(
        "bound/test_weights.py::test_after_every_step_the_weights_themselves_are_clipped",
        "bound/weights.py",
        ("no projection", "return clip_rows(rows, self.clip_norm)[0]", "return rows.nan_to_num()"),
        ("clip the update", "clip_rows(rows, self.clip_norm)[0]", "start + clip_rows(rows - start, self.clip_norm)[0]"),
    ),
    *killed_by(
        "bound/test_weights.py::test_what_is_sent_leads_into_the_ball_wherever_training_ended",
        "bound/weights.py",
        (
            "skip the last clip",
            'turn.weights + update.rows, turn.knob("clip_norm"))',
            "turn.weights + update.rows, 1e29)",
        ),
    ),
    *killed_by(
        "perturb/test_steps.py::test_updates_that_nobody_vouches_for_are_refused",
        "bound/vouched.py",
        ("accept less noise than charged", 'if noise < turn.knob("noise_multiplier") * (1 - 1e-9):', "if False:"),
        ("accept a larger clip", 'clip > turn.knob("clip_norm") * (1 + 1e-9)', "False"),
    ),
    *killed_by(
        "perturb/test_steps.py::test_rows_that_are_not_finite_become_zero_and_everybody_counts_one",
        "bound/vouched.py",
        (
            "let NaN through",
            "rows = update.rows.where(finite[:, None], torch.zeros((), dtype=update.rows.dtype))",
            "rows = update.rows",
        ),
    ),
)
