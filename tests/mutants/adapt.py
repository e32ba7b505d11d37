"""Adapters that look at the wrong thing, forget what was spent, or leave something without noise."""

from __future__ import annotations

from .mutant import Mutant, killed_by

MUTANTS: tuple[Mutant, ...] = (
    *killed_by(
        "adapt/test_movement.py::test_noise_of_the_expected_size_counts_as_no_movement_whatever_the_scales_were",
        "adapt/movement.py",
        ("no debias", "released.mean.double().square() - noise", "released.mean.double().square()"),
    ),
    *killed_by(
        "adapt/test_movement.py::test_it_finds_which_components_move_under_the_noise",
        "adapt/movement.py",
        ("no floor", " + self.floor**2 * noise.mean()", ""),
        ("scales that stay as they are", "shares(amplitude, self.allocation).float()", 'turn.knobs["scales"]'),
    ),
    *killed_by(
        "adapt/test_movement.py::test_both_allocations_spend_the_same_and_least_energy_has_the_least",
        "adapt/movement.py",
        ("overspending split", "(amplitude * amplitude.mean()).sqrt()", "amplitude.sqrt()"),
    ),
    *killed_by(
        "adapt/test_movement.py::test_no_component_is_left_without_noise",
        "adapt/movement.py",
        ("a scale of zero", ".clamp(min=1e-12)", ".clamp(min=0)"),
    ),
    *killed_by(
        "adapt/test_difference.py::test_it_stays_between_its_bounds_and_ignores_cohorts_of_newcomers",
        "adapt/difference.py",
        ("cut negatives first", "seen = total / count / ", "seen = max(0.0, total) / count / "),
        ("D above 1", "min(1.0, max(self.least,", "max(0.0, max(self.least,"),
    ),
    *killed_by(
        "adapt/test_difference.py::test_it_settles_at_the_distance_that_is_seen_times_the_headroom",
        "adapt/difference.py",
        ("no headroom", "self.headroom * math.sqrt(", "math.sqrt("),
        ("distances in model units", ' / turn.knob("clip_norm") ** 2', ""),
    ),
    *killed_by(
        "adapt/test_plateau.py::test_noise_falls_exactly_when_accuracy_rises_by_no_more_than_the_threshold",
        "adapt/plateau.py",
        ("decay while accuracy rises", "<= self.threshold", "> self.threshold"),
        ("never decay", "(self.factor if flat else 1.0)", "1.0"),
        ("forget the score", '"score": scalar(score)}', '"score": turn.knobs["score"]}'),
    ),
    *killed_by(
        "adapt/test_plateau.py::test_only_adjustment_rounds_look_and_compare_with_the_last_look",
        "adapt/plateau.py",
        ("look every round", "if turn.round_ % self.every or score is None:", "if score is None:"),
    ),
    *killed_by(
        "adapt/test_plateau.py::test_a_released_count_takes_the_place_of_public_data",
        "adapt/plateau.py",
        (
            "look at what is not charged",
            'public.get("accuracy") if self.side is None else _column(released, self.side)',
            'public.get("accuracy")',
        ),
    ),
    *killed_by(
        "adapt/test_geometric.py::test_the_series_is_equation_six",
        "adapt/geometric.py",
        ("θ on the standard deviation", "(round_ - 1) / 2 * math.log(theta)", "(round_ - 1) * math.log(theta)"),
        ("noise of the next round", "relative(self.theta, turn.round_ + 1)", "relative(self.theta, turn.round_ + 2)"),
    ),
    *killed_by(
        "adapt/test_geometric.py::test_whenever_it_is_refined_the_whole_is_admitted_and_hardly_anything_is_left",
        "adapt/geometric.py",
        ("forget past spending", "self.refit.level(past, shape)", "self.refit.level((), shape)"),
        (
            "remember the last round alone",
            'torch.cat([turn.knobs["past"], turn.knobs["noise_multiplier"].reshape(1)])',
            'turn.knobs["noise_multiplier"].reshape(1)',
        ),
    ),
    *killed_by(
        "adapt/test_geometric.py::test_when_everything_is_spent_the_run_ends",
        "adapt/geometric.py",
        ("go on when everything is spent", '"last_round": scalar(turn.round_)}', '"last_round": scalar(last)}'),
    ),
    *killed_by(
        "adapt/test_geometric.py::test_where_a_client_takes_part_less_often_the_dearest_rounds_count",
        "adapt/refine.py",
        ("the cheapest rounds", "sorted(multipliers)[: self.count]", "sorted(multipliers)[-self.count :]"),
    ),
    *killed_by(
        "adapt/test_geometric.py::test_the_strictest_guarantee_decides",
        "adapt/refine.py",
        (
            "the cheapest guarantee decides",
            "max((z for z in levels if z is not None), default=0.0)",
            "min((z for z in levels if z is not None), default=0.0)",
        ),
    ),
    *killed_by(
        "mechanisms/test_geometric.py::test_printed_noise_is_equation_eight_and_its_refinement_theorem_two",
        "adapt/printed_schedule.py",
        (
            "one σ for three cases",
            "yuan_refined(self.theta, len(past), len(past) + len(shape))",
            "yuan_refined(1.0, len(past), len(past) + len(shape))",
        ),
        ("a claim that ignores the noise", "/ (level * self.clip_norm)", "/ (2 * level * self.clip_norm)"),
    ),
    *killed_by(
        "adapt/test_quantile.py::test_one_step",
        "adapt/quantile.py",
        ("away from the quantile", "math.exp(-self.rate", "math.exp(self.rate"),
        ("clip norm that stays", '{**turn.knobs, "clip_norm": scalar(clip_norm)}', "turn.knobs"),
    ),
    *killed_by(
        "adapt/test_quantile.py::test_steady_stays",
        "adapt/steady.py",
        (
            "halve the noise",
            '"noise_multiplier": scalar(self.noise_multiplier)}',
            '"noise_multiplier": scalar(self.noise_multiplier / 2)}',
        ),
    ),
)
