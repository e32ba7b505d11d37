"""Bounds that are skipped, loosened, or taken in the wrong units; and a client's side that does not look."""

from __future__ import annotations

from .edits import argument, assigned, called, condition, divided, multiplied, returned
from .mutant import Mutant, killed_by

MUTANTS: tuple[Mutant, ...] = (
    *killed_by(
        "bound/test_l2.py::test_norm_is_bounded_whatever_comes_in",
        "bound/l2.py",
        ("skip the clip", "clip_rows", multiplied("_left", "scale")),
        ("let NaN through", "clip_rows", assigned("sane", "~(norms > _HUGE)")),
        ("L2 norms for L1", "clip_rows", argument("vector_norm", 1, "2.0")),
    ),
    *killed_by(
        "bound/test_l2.py::test_norm_is_bounded_in_every_precision",
        "bound/l2.py",
        ("no room for rounding", "clip_rows", argument("where", 1, "clip_norm / norms", "clip_norm")),
    ),
    *killed_by(
        "bound/test_l2.py::test_clip_uses_the_turns_clip_norm_and_weights_everybody_alike",
        "bound/l2.py",
        ("twice the clip norm", "Clip.bound", argument("clip_rows", 1, "2 * _")),
    ),
    *killed_by(
        "mechanisms/test_baselines.py::test_what_a_client_contributes_is_bounded_in_the_norm_of_its_noise",
        "bound/l2.py",
        ("clip in L2 for Laplace noise", "Clip.bound", argument("clip_rows", 2, "2")),
    ),
    *killed_by(
        "bound/test_presummed.py::test_a_sum_that_nobody_vouches_for_is_refused",
        "bound/l2.py",
        (
            "accept sums of a larger clip",
            "Presummed.bound",
            condition("update.client_clip is None or update.norms is None", "client_clip"),
        ),
        ("NaN counts as not clipped", "Presummed.bound", assigned("clipped", "update.norms > limit")),
    ),
    *killed_by(
        "bound/test_l2.py::test_per_example_takes_only_rows_that_the_trainer_vouches_for",
        "bound/l2.py",
        (
            "accept examples of a larger clip",
            "PerExample.bound",
            condition("update.example_clip is None", "example_clip"),
        ),
        ("accept rows that are not finite", "PerExample.bound", condition("False", "isfinite")),
    ),
    *killed_by(
        "bound/test_near.py::test_both_bounds_hold_whatever_comes_in",
        "bound/near.py",
        ("skip the clip", "Near.bound", argument("clip_rows", 1, "1e29", "limit")),
        ("skip the pull", "Near.bound", assigned("pulled", "torch.zeros_like(far)")),
        ("relative margin", "Near.bound", multiplied("difference * (1 - _MARGIN) * limit", "difference")),
    ),
    *killed_by(
        "bound/test_near.py::test_a_private_difference_is_the_clients_own",
        "bound/near.py",
        (
            "everybody's D for a client's own",
            "Near.bound",
            assigned("difference", "torch.full_like(memory.difference, public)"),
        ),
    ),
    *killed_by(
        "bound/test_scaled.py::test_the_scaled_norm_is_bounded_whatever_comes_in",
        "bound/scaled.py",
        ("skip the clip", "ScaledClip.bound", argument("clip_rows", 1, "1e29")),
        (
            "clip in model units",
            "ScaledClip.bound",
            called(
                "clip_rows", "(clip_rows(rows, clip_norm)[0] / turn.knobs['scales'], clip_rows(rows, clip_norm)[1])"
            ),
        ),
    ),
    *killed_by(
        "bound/test_scaled.py::test_the_box_cuts_each_component_by_itself",
        "bound/scaled.py",
        ("double the box", "ScaledClip.bound", divided("2 * _", "clip_norm")),
        ("skip the truncation", "ScaledClip.bound", called("clamp", "rows.nan_to_num()")),
    ),
    *killed_by(
        "bound/test_predicted.py::test_the_state_is_carried_one_step_forward_as_in_table_two",
        "bound/predicted.py",
        ("g_K for g_{K−1}", "PredictedBox.predict", argument("step", 1, "trace.last_gradient")),
    ),
    *killed_by(
        "bound/test_predicted.py::test_truncation_is_around_the_broadcast_model",
        "bound/predicted.py",
        ("β for β/2", "PredictedBox.bound", divided("_left", "beta")),
        ("skip the truncation", "PredictedBox.bound", called("clamp", "_on")),
    ),
    *killed_by(
        "bound/test_predicted.py::test_printed_noise_is_the_square_root_of_d_times_sigma_times_beta_w",
        "bound/predicted.py",
        ("no √d", "PredictedBox._spread", called("sqrt", "1.0")),
        ("halve the noise", "PredictedBox.bound", argument("_spread", 0, "_ / 2")),
    ),
    *killed_by(
        "bound/test_predicted.py::test_both_allocations_spend_the_same_and_the_second_adds_the_least_noise",
        "bound/predicted.py",
        ("overspending split", "PredictedBox._spread", argument("mul_", 0, "_ / 2")),
    ),
    *killed_by(
        "bound/test_predicted.py::test_clients_count_by_their_records",
        "bound/predicted.py",
        ("forget the weight", "PredictedBox.bound", argument("Bounded", 1, "rows")),
    ),
    *killed_by(
        "bound/test_weighted.py::test_no_row_exceeds_the_clip_norm",
        "bound/weighted.py",
        ("skip the clip", "WeightedClip.bound", argument("clip_rows", 1, "1e29")),
        ("weights above 1", "weights", called("clamp", "_on")),
        ("forget the weight", "WeightedClip.bound", argument("Bounded", 1, "rows")),
    ),
    *killed_by(
        "bound/test_weighted.py::test_projection_stays_near_the_start",
        "bound/weighted.py",
        ("no projection", "StayNear.__call__", returned("rows.nan_to_num()")),
    ),
    *killed_by(
        "bound/test_weights.py::test_after_every_step_the_weights_themselves_are_clipped",
        "bound/weights.py",
        ("no projection", "ClipWeights.__call__", returned("rows.nan_to_num()")),
        (
            "clip the update",
            "ClipWeights.__call__",
            returned("start + clip_rows(rows - start, self.clip_norm)[0]"),
        ),
    ),
    *killed_by(
        "bound/test_weights.py::test_what_is_sent_leads_into_the_ball_wherever_training_ended",
        "bound/weights.py",
        ("skip the last clip", "WeightBall.bound", argument("clip_rows", 1, "1e29")),
    ),
    *killed_by(
        "perturb/test_steps.py::test_updates_that_nobody_vouches_for_are_refused",
        "bound/vouched.py",
        ("accept less noise than charged", "NoisedSteps.bound", condition("False", "noise_multiplier")),
        ("accept a larger clip", "NoisedSteps.bound", condition("clip is None or noise is None", "clip_norm")),
    ),
    *killed_by(
        "perturb/test_steps.py::test_rows_that_are_not_finite_become_zero_and_everybody_counts_one",
        "bound/vouched.py",
        ("let NaN through", "_counted_alike", called("where", "_on")),
    ),
)
