"""What is said in words is judged by all seeds, and figure by figure."""

from __future__ import annotations

import pytest
from papers.a_dpfl import COMMON, DATA, _holding, falling
from papers.baek import little_lost, only_large
from papers.experiment_runner import ExperimentRun, SeedRuns, recipe_of
from papers.fed_cad import course
from papers.noise import drowned_told
from papers.xue import ahead
from papers.yuan import increases
from papers.yuan_online import shrinks


@pytest.mark.parametrize(
    ("plans", "shown", "status"),
    [
        ([[30, 27, 24], [30, 26]], "30 → 25.0, falls in 2 of 2 seeds", "equal"),
        ([[30, 27, 24], [30, 30]], "30 → 27.0, falls in 1 of 2 seeds", "differs"),
        ([[30, 24, 26]], "30 → 26.0, falls in 0 of 1 seeds", "differs"),
    ],
)
def test_refinement_is_judged_by_every_seed(plans: list[list[float]], shown: str, status: str) -> None:
    line = shrinks("ϑ = 1.05", plans)
    assert (line.ours, line.status, line.why) == (shown, status, "")


def test_only_what_was_never_refined_is_told_so() -> None:
    assert "nothing is refined" in shrinks("ϑ = 0.9", [[30, 30], [30, 30]]).why


def test_a_large_loss_is_found_where_it_is_said_to_be_and_nowhere_else() -> None:
    small = {(1.0, 0.1): (0.0, 0.001), (1.0, 0.3): (0.019, 0.001), (1.5, 0.1): (-0.01, 0.001)}
    assert only_large(small | {(1.5, 0.3): (0.021, 0.001)}).status == "equal"
    assert only_large(small | {(1.5, 0.3): (0.01, 0.001)}).status == "differs"
    assert only_large(small | {(1.5, 0.3): (0.01, 0.006)}).status == "undecided"
    assert only_large(small | {(1.0, 0.3): (0.05, 0.001), (1.5, 0.3): (0.1, 0.001)}).status == "differs"


@pytest.mark.parametrize(
    ("end", "statuses"),
    [
        ({0.3: 0.96, 0.5: 0.95, 0.7: 0.94, 0.9: 0.80}, ("equal", "equal")),
        ({0.3: 0.96, 0.5: 0.90, 0.7: 0.84, 0.9: 0.80}, ("equal", "differs")),
        ({0.3: 0.90, 0.5: 0.95, 0.7: 0.94, 0.9: 0.80}, ("differs", "equal")),
        ({0.3: 0.90, 0.5: 0.92, 0.7: 0.94, 0.9: 0.95}, ("differs", "differs")),
        ({0.3: 0.94, 0.5: 0.941, 0.7: 0.93, 0.9: 0.80}, ("undecided", "equal")),
        ({0.3: 0.96, 0.7: 0.94}, ("equal", "not run")),
    ],
)
def test_both_halves_of_what_is_said_of_k_are_judged_by_the_seeds(
    end: dict[float, float], statuses: tuple[str, str]
) -> None:
    ends = {
        k: [mean - 0.001 * (-1) ** place, mean + 0.001 * (-1) ** place] for place, (k, mean) in enumerate(end.items())
    }
    assert tuple(line.status for line in falling(ends)) == statuses


@pytest.mark.parametrize(("ks", "second"), [((0.3, 0.7), "not run"), ((0.3, 0.7, 0.9), "differs")])
def test_where_k_has_no_effect_yet_it_is_told_so(ks: tuple[float, ...], second: str) -> None:
    lines = falling({k: [0.1, 0.12] for k in ks})
    assert [line.status for line in lines] == ["differs", second] and "no effect yet" in lines[0].why


@pytest.mark.parametrize(
    ("held", "statuses"),
    [
        ([[8], [8]], ["not run"] * 6),
        ([[20, 5, 4, 2], [20, 4, 3, 1]], ["equal", "equal", "equal", "not run", "equal", "not run"]),
        ([[20, 5, 4, 2], [20, 3, 4, 1]], ["equal", "equal", "equal", "not run", "differs", "not run"]),
        ([[32, 7, 11]], ["differs", "differs", "differs", "not run", "differs", "not run"]),
        ([[2, 9, 1]], ["differs", "differs", "not run", "not run", "differs", "not run"]),
        ([[50]], ["differs", "not run", "not run", "not run", "differs", "not run"]),
        ([[20, 4, 4, 7, 5, 3, 1]], ["equal", "equal", "equal", "equal", "differs", "equal"]),
        ([[20, 4, 4, 7, 8, 1]], ["equal", "equal", "equal", "equal", "differs", "differs"]),
    ],
)
def test_holding_times_are_judged_as_far_as_runs_go(held: list[list[int]], statuses: list[str]) -> None:
    assert [line.status for line in _holding(held)] == statuses


@pytest.mark.parametrize(
    ("held", "statuses"),
    [
        ([[32, 7, 11]], ["differs"] * 6),
        ([[50]], ["differs"] * 6),
        ([[20, 4, 4, 7, 15]], ["equal", "equal", "equal", "equal", "differs", "undecided"]),
        ([[20, 4, 4, 6], [20, 4, 4, 7, 2]], ["equal", "equal", "equal", "undecided", "differs", "differs"]),
    ],
)
def test_after_all_rounds_a_noise_that_was_not_reached_differs(held: list[list[int]], statuses: list[str]) -> None:
    assert [line.status for line in _holding(held, whole=True)] == statuses


def test_a_lossless_noise_is_no_more_costly_than_the_printed_one() -> None:
    lost = {"z = 0.5": (0.01, 0.001), "z = 1": (0.04, 0.001), "z = 1.5": (0.06, 0.001)}
    assert little_lost(lost).status == "equal"
    assert little_lost(lost | {"z = 1.5": (0.07, 0.02)}).status == "undecided"
    told = little_lost(lost | {"z = 1.5": (0.07, 0.001)})
    assert (told.status, told.ours) == ("differs", "z = 0.5: 1.00 points, z = 1: 4.00 points, z = 1.5: 7.00 points")


@pytest.mark.parametrize(
    ("divided", "status"), [((0.6, 0.61), "differs"), ((0.6, 0.9), "undecided"), ((0.8, 0.8), "equal")]
)
def test_the_mechanism_is_best_if_one_reading_of_it_is(divided: tuple[float, float], status: str) -> None:
    ends = {"as printed": (0.1, 0.1), "over the batch": divided, "GeoDP": (0.8, 0.79), "DP-dyns": (0.2, 0.2)}
    runs = {
        name: SeedRuns(tuple(ExperimentRun(recipe_of([]), ({"round": 1, "accuracy": one},)) for one in seeds))
        for name, seeds in ends.items()
    }
    assert ahead(0.3, runs).status == status


@pytest.mark.parametrize(
    ("mean", "status"),
    [
        ([1.0, 5.0, 4.0, 3.5, 3.4, 3.4], "equal"),
        ([1.0, 2.0, 3.0, 5.0, 4.0, 3.4], "undecided"),
        ([5.0, 4.0, 3.0, 2.0, 2.0, 2.0], "differs"),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "differs"),
    ],
)
def test_distances_rise_rapidly_and_then_fall(mean: list[float], status: str) -> None:
    assert course("course", range(2, 8), mean).status == status


@pytest.mark.parametrize(("grown", "status"), [(0.0, "differs"), (0.003, "undecided"), (0.029, "equal")])
def test_a_loss_that_hardly_rises_again_says_nothing(grown: float, status: str) -> None:
    assert increases("ϑ = 1.05", grown).status == status


@pytest.mark.parametrize(("multiplier", "told"), [(1.0, "has norm 30, and an update 4 at most"), (0.1, "")])
def test_central_noise_is_told_where_it_is_longer_than_an_update(multiplier: float, told: str) -> None:
    settings = ["mechanism.name=dp_fedavg", f"mechanism.noise_multiplier={multiplier}", "mechanism.clip_norm=4.0"]
    told_here = drowned_told(recipe_of([*COMMON, *DATA["MNIST"], *settings]))
    assert told_here.endswith(told) and bool(told_here) == bool(told)
