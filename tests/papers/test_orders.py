"""Orders of several runs are judged by the seeds: one step that is denied by more than its spread denies them all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from papers.experiment_runner import ExperimentRun, SeedRuns, recipe_of
from papers.fed_cad_verdicts import early_on, little_noise
from papers.printed_line import all_ahead
from papers.xue_study import _grows
from papers.yuan_verdicts import best_count, compared, order


def played(*seeds: float | tuple[float, ...]) -> SeedRuns:
    """Returns runs of several seeds: the last value of each, or its whole course, as accuracy and as loss."""
    plain = ExperimentRun(recipe_of([]), ())
    courses = [seed if isinstance(seed, tuple) else (seed,) for seed in seeds]
    return SeedRuns(tuple(
        replace(plain, rounds=tuple({"round": m, "accuracy": y, "loss": y} for m, y in enumerate(course, 1)))
        for course in courses
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("leads", "status"),
    [
        ([(0.1, 0.0), (0.2, 0.3)], "equal"),
        ([(0.1, 0.0), (-0.1, 0.06)], "undecided"),
        ([(0.1, 0.0), (-0.1, 0.04)], "differs"),
        ([(-0.1, 0.06), (-0.2, 0.01)], "differs"),
        ([(0.0, 0.0)], "differs"),
        ([(float("nan"), 0.0), (0.1, 0.0)], "differs"),
    ],
)
def test_every_lead_must_hold(leads: list[tuple[float, float]], status: str) -> None:
    assert all_ahead("a", "b", "c", leads).status == status


def test_an_order_is_that_of_the_best_of_each_group() -> None:
    low, middle, high = played(0.10, 0.12), played(0.20, 0.22), played(0.30, 0.32)
    assert order("a", "b", "c", [[low, high], [middle]]).status == "equal"  # losses: the least is the best
    assert order("a", "b", "c", [[middle], [low]]).status == "differs"
    assert order("a", "b", "c", [[high], [middle, low]], "accuracy").status == "equal"
    near = played(0.30, 0.10)
    assert order("a", "b", "c", [[middle], [near]]).status == "undecided"


def test_the_best_m_has_the_spread_of_the_seeds() -> None:
    apart = {
        5: played(0.1, 0.9),
        10: played(0.6, 0.6),
        17: played(0.6, 0.6),
        20: played(0.6, 0.6),
        40: played(0.8, 0.1),
    }
    assert best_count("ϑ = 1", 17, apart).status == "undecided"
    agreed = apart | {5: played(0.1, 0.1), 40: played(0.9, 0.9)}
    assert best_count("ϑ = 1", 17, agreed).status == "differs"
    assert "learning rate" in best_count("ϑ = 1", 17, agreed).why


def test_both_neighbours_of_one_must_beat_it() -> None:
    ends = {0.9: (0.5, 0.5), 0.95: (0.3, 0.31), 1.0: (0.4, 0.41), 1.05: (0.2, 0.21), 1.1: (0.6, 0.6)}
    rows = {f"ϑ = {theta:g}": {17: played(*pair)} for theta, pair in ends.items()}
    assert [line.status for line in compared(rows)] == ["equal", "equal"]
    rows["ϑ = 0.95"] = {17: played(0.1, 0.11)}
    assert [line.status for line in compared(rows)] == ["differs", "equal"]
    rows["ϑ = 0.95"] = {17: played(0.45, 0.46)}
    assert [line.status for line in compared(rows)] == ["equal", "differs"]


def test_little_noise_is_judged_at_the_end_and_after_a_third() -> None:
    runs = {
        "Fed-LDP": played((0.5, 0.6, 0.7), (0.5, 0.6, 0.7)),
        "constant Diff": played((0.4, 0.5, 0.69), (0.4, 0.5, 0.69)),
        "adaptive Diff": played((0.3, 0.5, 0.71), (0.3, 0.5, 0.71)),
    }
    assert [line.status for line in little_noise(runs)] == ["equal", "equal"]
    runs["adaptive Diff"] = played((0.6, 0.5, 0.60), (0.6, 0.5, 0.60))
    assert [line.status for line in little_noise(runs)] == ["differs", "differs"]
    runs["adaptive Diff"] = played((0.8, 0.5, 0.60), (0.3, 0.5, 0.72))  # the seeds contradict each other
    assert [line.status for line in little_noise(runs)] == ["undecided", "undecided"]


def test_a_beginning_at_chance_says_nothing() -> None:
    runs = {"a": played((0.1, 0.5, 0.5)), "b": played((0.05, 0.5, 0.5))}
    line = early_on("q", "p", [(0.05, 0.0)], runs)
    assert (line.status, line.why) == ("differs", "all of them are still at chance by then")


def test_more_participants_help_unless_the_seeds_say_no() -> None:
    few, many = {"r": played(0.5, 0.6)}, {"r": played(0.55, 0.66)}
    assert _grows("q", few, many).status == "equal" and _grows("q", many, few).status == "differs"
    assert _grows("q", {"r": played(0.5, 0.7)}, {"r": played(0.6, 0.55)}).status == "undecided"
