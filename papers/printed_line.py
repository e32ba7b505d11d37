"""One printed number or statement beside ours, and the verdict on it.

A number `differs` where it lies outside the stated tolerance *and* outside the spread of our seeds; a statement that
one run is ahead of another `differs` where the seeds say the contrary by more than their spread. What lies within a
spread that is too wide to tell is `undecided`. One seed has no spread: of accuracies, and of leads, what is less than
`ALONE` apart is `undecided` then.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

PrintedStatus = Literal["equal", "close", "undecided", "differs", "not reproducible as printed", "not run"]

SPREADS = 2.0
"""So many standard deviations over seeds count as within their spread."""
NARROW = 0.25
"""A spread that reaches farther than this share of the printed number says nothing about it."""
ALONE = 0.05
"""What one seed cannot tell: five points of accuracy, as much of a loss."""
_SHORT = 30
"""So long a reason may be said again in every line."""


@dataclass(frozen=True)
class PrintedLine:
    """A row of a reproduction."""

    quantity: str
    printed: str
    ours: str
    status: PrintedStatus
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns the line as plain data."""
        return asdict(self)


def number(
    quantity: str, printed: float, ours: float, digits: int, tolerance: float = 0.0, why: str = "", spread: float = 0.0
) -> PrintedLine:
    """Judges a number: `equal` to its digits, `close` within tolerance or spread, `undecided`, or it `differs`."""
    status, near = judged(printed, ours, digits, tolerance, spread)
    around = f" ± {spread:.{digits}f}" if spread else ""
    if near == "tolerance":
        near = _tolerated(tolerance, digits)
    return PrintedLine(quantity, f"{printed:.{digits}f}", f"{ours:.{digits}f}{around}", status, joined(near, why))


def judged(printed: float, ours: float, digits: int, tolerance: float, spread: float) -> tuple[PrintedStatus, str]:
    """Returns the verdict on a number, and what makes it close: the `tolerance`, or a sentence on the spread."""
    if round(ours, digits) == round(printed, digits):
        return "equal", ""
    if abs(ours - printed) <= tolerance:
        return "close", "tolerance"
    if abs(ours - printed) <= SPREADS * spread:
        return ("close", WITHIN) if SPREADS * spread <= NARROW * abs(printed) else ("undecided", APART)
    return "differs", ""


WITHIN = f"within {SPREADS:g} standard deviations of the seeds"
APART = "the seeds lie too far apart to tell"
ONE_SEED = f"one seed, and less than {ALONE:g} (of accuracy: {100 * ALONE:g} points) apart"
UNDECIDED = f"the other way round by less than {SPREADS:g} standard deviations of the seeds' differences"


def accuracy(
    quantity: str, printed: float, ours: float, spread: float = 0.0, tolerance: float = 0.02, why: str = ""
) -> PrintedLine:
    """Judges an accuracy, in percent; two points (or as stated) count as close, and so does the seeds' spread."""
    told = number(quantity, 100 * printed, 100 * ours, 2, 100 * tolerance, "", 100 * spread)
    near = told.why if told.why in ("", WITHIN, APART) else f"within {100 * tolerance:g} points"
    if told.status == "differs" and not spread and abs(ours - printed) < ALONE:
        told, near = replace(told, status="undecided"), ONE_SEED
    return PrintedLine(quantity, f"{told.printed} %", f"{told.ours} %", told.status, joined(near, why))


def points(
    quantity: str, printed: float, ours: float, tolerance: float = 0.02, spread: float = 0.0, why: str = ""
) -> PrintedLine:
    """Judges a difference of accuracies, in points of a percent; two points (or as stated) count as close."""
    told = accuracy(quantity, printed, ours, spread, tolerance, why)
    around = f" ± {100 * spread:.2f}" if spread else ""
    return replace(told, printed=f"{100 * printed:+.2f} points", ours=f"{100 * ours:+.2f}{around} points")


def statement(quantity: str, printed: str, ours: str, holds: bool, why: str = "") -> PrintedLine:
    """Judges a statement without a number: it holds here too, or it does not."""
    return PrintedLine(quantity, printed, ours, "equal" if holds else "differs", why)


def ahead_by(quantity: str, printed: str, ours: str, lead: float, spread: float = 0.0, why: str = "") -> PrintedLine:
    """Judges a statement that one run is ahead of another, by its lead and the spread of that over seeds.

    It holds where the lead is positive, and is `undecided` where the seeds, or one alone, cannot tell that it is not.
    """
    if lead > 0:
        return PrintedLine(quantity, printed, ours, "equal")
    if lead >= -SPREADS * spread and spread > 0:
        return PrintedLine(quantity, printed, ours, "undecided", joined(UNDECIDED, why))
    if not spread and -ALONE < lead < 0:
        return PrintedLine(quantity, printed, ours, "undecided", joined(ONE_SEED, why))
    return PrintedLine(quantity, printed, ours, "differs", why)


def all_ahead(
    quantity: str, printed: str, ours: str, leads: Sequence[tuple[float, float]], why: str = ""
) -> PrintedLine:
    """Judges a statement that means several leads, each with its spread over seeds: all of them must be positive.

    It `differs` where one of them is negative by more than its spread, and is `undecided` where by less.
    """
    wrong = [(lead, spread) for lead, spread in leads if not lead > 0]
    worst = min(wrong, key=lambda one: one[0] + SPREADS * one[1], default=min(leads))
    return ahead_by(quantity, printed, ours, *worst, why)


def impossible(quantity: str, printed: str, ours: str, why: str) -> PrintedLine:
    """Returns a line for what cannot follow from what is printed."""
    return PrintedLine(quantity, printed, ours, "not reproducible as printed", why)


def left_out(quantity: str, printed: str, why: str = "the quick form leaves it out") -> PrintedLine:
    """Returns a line for what is printed and was not run."""
    return PrintedLine(quantity, printed, "–", "not run", why)


def joined(*reasons: str) -> str:
    """Returns the reasons that there are, one after the other."""
    return "; ".join(reason for reason in reasons if reason)


def footnoted(lines: Sequence[PrintedLine]) -> tuple[list[PrintedLine], list[str]]:
    """Returns the lines with a mark for each long reason that several of them share, and those reasons, marked."""
    counts = Counter(line.why for line in lines if len(line.why) > _SHORT)
    shared = [why for why, count in counts.items() if count > 1]
    marks = {why: f"({place})" for place, why in enumerate(shared, 1)}
    marked = [replace(line, why=marks.get(line.why, line.why)) for line in lines]
    return marked, [f"{mark} {why}" for why, mark in marks.items()]


def _tolerated(tolerance: float, digits: int) -> str:
    shown = max(digits, -math.floor(math.log10(tolerance))) if tolerance > 0 else digits
    return f"within {tolerance:.{shown}f}"
