"""Adapters that look at the wrong thing, forget what was spent, or leave something without noise."""

from __future__ import annotations

from .edits import (
    argument,
    assigned,
    called,
    chosen,
    condition,
    divided,
    entry,
    multiplied,
    returned,
)
from .mutant import Mutant, killed_by

MUTANTS: tuple[Mutant, ...] = (
    *killed_by(
        "adapt/test_movement.py::test_noise_of_the_expected_size_counts_as_no_movement_whatever_the_scales_were",
        "adapt/movement.py",
        ("no debias", "Movement.adapt", argument("lerp", 0, "released.mean.double().square()")),
    ),
    *killed_by(
        "adapt/test_movement.py::test_it_finds_which_components_move_under_the_noise",
        "adapt/movement.py",
        ("no floor", "Movement.adapt", argument("_unit", 0, "(energy / weight).clamp(min=0)")),
        ("scales that stay as they are", "Movement.adapt", argument("but", "scales", "turn.knobs['scales']")),
    ),
    *killed_by(
        "adapt/test_movement.py::test_both_allocations_spend_the_same_and_least_energy_has_the_least",
        "adapt/movement.py",
        ("overspending split", "shares", multiplied("_left")),
    ),
    *killed_by(
        "adapt/test_movement.py::test_no_component_is_left_without_noise",
        "adapt/movement.py",
        ("a scale of zero", "_unit", argument("clamp", "min", "0")),
    ),
    *killed_by(
        "adapt/test_difference.py::test_it_stays_between_its_bounds_and_ignores_cohorts_of_newcomers",
        "adapt/difference.py",
        ("cut negatives first", "ReleasedDifference.adapt", assigned("seen", "max(0.0, _)")),
        ("D above 1", "ReleasedDifference.adapt", called("min", "_1")),
    ),
    *killed_by(
        "adapt/test_difference.py::test_it_settles_at_the_distance_that_is_seen_times_the_headroom",
        "adapt/difference.py",
        ("no headroom", "ReleasedDifference.adapt", multiplied("_right", "headroom")),
        ("distances in model units", "ReleasedDifference.adapt", assigned("seen", "total / count")),
    ),
    *killed_by(
        "adapt/test_plateau.py::test_noise_falls_exactly_when_accuracy_rises_by_no_more_than_the_threshold",
        "adapt/plateau.py",
        ("decay while accuracy rises", "Plateau.adapt", assigned("flat", "not _")),
        ("never decay", "Plateau.adapt", chosen("1.0", "factor")),
        ("forget the score", "Plateau.adapt", argument("but", "score", "turn.knobs['score']")),
    ),
    *killed_by(
        "adapt/test_plateau.py::test_only_adjustment_rounds_look_and_compare_with_the_last_look",
        "adapt/plateau.py",
        ("look every round", "Plateau.adapt", condition("score is None")),
    ),
    *killed_by(
        "adapt/test_plateau.py::test_a_released_count_takes_the_place_of_public_data",
        "adapt/plateau.py",
        ("look at what is not charged", "Plateau.adapt", assigned("score", "public.get('accuracy')")),
    ),
    *killed_by(
        "adapt/test_geometric.py::test_the_series_is_equation_six",
        "adapt/geometric.py",
        ("θ on the standard deviation", "relative", divided("_left")),
        ("noise of the next round", "Geometric.adapt", argument("relative", 1, "_ + 1")),
    ),
    *killed_by(
        "adapt/test_geometric.py::test_whenever_it_is_refined_the_whole_is_admitted_and_hardly_anything_is_left",
        "adapt/geometric.py",
        ("forget past spending", "Geometric._refined", argument("level", 0, "()")),
        (
            "remember the last round alone",
            "Geometric.adapt",
            assigned("past", "scalar(turn.knobs.noise_multiplier).reshape(1)"),
        ),
    ),
    *killed_by(
        "adapt/test_geometric.py::test_when_everything_is_spent_the_run_ends",
        "adapt/geometric.py",
        ("go on when everything is spent", "Geometric._refined", entry("last_round", "scalar(last)", "round_")),
    ),
    *killed_by(
        "adapt/test_geometric.py::test_where_a_client_takes_part_less_often_the_dearest_rounds_count",
        "adapt/refine.py",
        ("the cheapest rounds", "dearest", called("sorted", "sorted(_0, reverse=True)")),
    ),
    *killed_by(
        "adapt/test_geometric.py::test_the_strictest_guarantee_decides",
        "adapt/refine.py",
        (
            "the cheapest guarantee decides",
            "FilterRefit.level",
            called("max", "min((z for z in levels if z is not None), default=0.0)"),
        ),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_printed_noise_is_equation_eight_and_its_refinement_theorem_two",
        "adapt/printed_schedule.py",
        ("one σ for three cases", "PrintedSchedule.level", argument("yuan_refined", 0, "1.0")),
        ("a claim that ignores the noise", "PrintedSchedule.claimed", assigned("asked", "_ / 2")),
    ),
    *killed_by(
        "adapt/test_quantile.py::test_one_step",
        "adapt/quantile.py",
        ("away from the quantile", "QuantileClip.adapt", argument("exp", 0, "-_")),
        ("clip norm that stays", "QuantileClip.adapt", returned("turn.knobs")),
    ),
    *killed_by(
        "adapt/test_quantile.py::test_steady_stays",
        "adapt/steady.py",
        ("halve the noise", "Steady.start", argument("Knobs", 1, "_ / 2")),
    ),
)
