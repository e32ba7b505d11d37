from __future__ import annotations

import pytest
from papers.printed_line import accuracy, ahead_by, footnoted, impossible, left_out, number, points, statement


@pytest.mark.parametrize(
    ("ours", "status"),
    [(1.3174, "equal"), (1.3181, "close"), (1.3169, "equal"), (1.3199, "differs"), (1.314, "differs")],
)
def test_numbers_are_judged_by_their_printed_digits_and_a_stated_tolerance(ours: float, status: str) -> None:
    assert number("ε", 1.317, ours, 3, 0.002).status == status


def test_a_tolerance_is_stated_where_it_was_needed() -> None:
    assert number("ε", 1.317, 1.318, 3, 0.002).why == "within 0.002"
    assert number("ε", 1.317, 1.317, 3, 0.002).why == ""
    assert number("ε", 1.317, 1.318, 3, 0.002, "other orders").why == "within 0.002; other orders"
    assert accuracy("z = 1", 0.9289, 0.913, why="fewer rounds").why == "within 2 points; fewer rounds"


def test_accuracies_are_told_in_percent_and_close_within_two_points() -> None:
    line = accuracy("z = 1", 0.9289, 0.913, 0.004)
    assert (line.printed, line.ours, line.status, line.why) == ("92.89 %", "91.30 ± 0.40 %", "close", "within 2 points")
    assert accuracy("z = 1", 0.9289, 0.90, 0.001).status == "differs"


def test_differences_of_accuracies_are_told_in_points() -> None:
    line = points("gain", 0.02, -0.035)
    assert (line.printed, line.ours, line.status) == ("+2.00 points", "-3.50 points", "differs")
    assert points("gain", 0.02, 0.01).status == "close"


def test_statements_hold_or_do_not_and_the_impossible_says_why() -> None:
    assert statement("order", "a > b", "3 > 2", True).status == "equal"
    assert statement("order", "a > b", "2 < 3", False).status == "differs"
    assert impossible("σ", "0.0035", "0.0279", "no M gives it").status == "not reproducible as printed"
    assert left_out("σ = 0.5", "+10.00 points").status == "not run"


def test_a_long_reason_of_several_lines_is_said_once_below_them() -> None:
    long, own = "noise of σ·C on each weight is 14 times the update", "a reason of one line alone, however long it is"
    whys = [long, "short", own, long, "short", ""]
    lines, notes = footnoted([statement("a", "b", "c", False, why) for why in whys])
    assert [line.why for line in lines] == ["(1)", "short", own, "(1)", "short", ""]
    assert notes == [f"(1) {long}"]


@pytest.mark.parametrize(
    ("ours", "spread", "status"),
    [
        (0.80, 0.0, "differs"),  # one seed has no spread, but this is far
        (0.89, 0.0, "differs"),
        (0.91, 0.0, "undecided"),
        (0.80, 0.06, "differs"),
        (0.80, 0.08, "close"),
        (0.50, 0.25, "undecided"),  # within a spread that says nothing
        (0.30, 0.25, "differs"),
    ],
)
def test_what_differs_lies_outside_the_spread_of_seeds(ours: float, spread: float, status: str) -> None:
    assert accuracy("z = 1", 0.95, ours, spread).status == status
    assert points("gain", 0.95, ours, spread=spread).status == status


@pytest.mark.parametrize(
    ("lead", "spread", "status"),
    [
        (0.01, 0.5, "equal"),
        (-0.01, 0.006, "undecided"),
        (-0.01, 0.004, "differs"),
        (-0.01, 0.0, "undecided"),
        (-0.06, 0.0, "differs"),
        (0.0, 0.0, "differs"),
    ],
)
def test_a_lead_is_denied_only_by_more_than_the_spread(lead: float, spread: float, status: str) -> None:
    assert ahead_by("order", "a > b", "…", lead, spread).status == status
