"""One printed number or statement beside ours, and the verdict on it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Status = Literal["equal", "close", "differs", "not reproducible as printed", "not run"]

_SHORT = 30
"""So long a reason may be said again in every line."""


@dataclass(frozen=True)
class Line:
    """A row of a reproduction."""

    quantity: str
    printed: str
    ours: str
    status: Status
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns the line as plain data."""
        return asdict(self)


def number(
    quantity: str, printed: float, ours: float, digits: int, tolerance: float = 0.0, why: str = "", spread: float = 0.0
) -> Line:
    """Judges a number: `equal` to the printed digits, `close` within the stated tolerance, or it `differs`."""
    if round(ours, digits) == round(printed, digits):
        status: Status = "equal"
    else:
        status = "close" if abs(ours - printed) <= tolerance else "differs"
    around = f" ± {spread:.{digits}f}" if spread else ""
    reason = joined(_tolerated(tolerance, digits) if status == "close" else "", why)
    return Line(quantity, f"{printed:.{digits}f}", f"{ours:.{digits}f}{around}", status, reason)


def accuracy(
    quantity: str, printed: float, ours: float, spread: float = 0.0, tolerance: float = 0.02, why: str = ""
) -> Line:
    """Judges an accuracy, in percent; two points (or as stated) count as close."""
    told = number(quantity, 100 * printed, 100 * ours, 2, 100 * tolerance, "", 100 * spread)
    reason = joined(f"within {100 * tolerance:g} points" if told.status == "close" else "", why)
    return Line(quantity, f"{told.printed} %", f"{told.ours} %", told.status, reason)


def points(quantity: str, printed: float, ours: float, tolerance: float = 0.02) -> Line:
    """Judges a difference of accuracies, in points of a percent; two points (or as stated) count as close."""
    told = accuracy(quantity, printed, ours, tolerance=tolerance)
    return replace(told, printed=f"{100 * printed:+.2f} points", ours=f"{100 * ours:+.2f} points")


def statement(quantity: str, printed: str, ours: str, holds: bool, why: str = "") -> Line:
    """Judges a statement without a number: it holds here too, or it does not."""
    return Line(quantity, printed, ours, "equal" if holds else "differs", why)


def impossible(quantity: str, printed: str, ours: str, why: str) -> Line:
    """Returns a line for what cannot follow from what is printed."""
    return Line(quantity, printed, ours, "not reproducible as printed", why)


def left_out(quantity: str, printed: str, why: str = "the quick form leaves it out") -> Line:
    """Returns a line for what is printed and was not run."""
    return Line(quantity, printed, "–", "not run", why)


def joined(*reasons: str) -> str:
    """Returns the reasons that there are, one after the other."""
    return "; ".join(reason for reason in reasons if reason)


def footnoted(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Returns the lines with a mark for each long reason that several of them share, and those reasons, marked."""
    counts = Counter(line.why for line in lines if len(line.why) > _SHORT)
    shared = [why for why, count in counts.items() if count > 1]
    marks = {why: f"({place})" for place, why in enumerate(shared, 1)}
    marked = [replace(line, why=marks.get(line.why, line.why)) for line in lines]
    return marked, [f"{mark} {why}" for why, mark in marks.items()]


def _tolerated(tolerance: float, digits: int) -> str:
    shown = max(digits, -math.floor(math.log10(tolerance))) if tolerance > 0 else digits
    return f"within {tolerance:.{shown}f}"
