"""Charts as plain data, and the numbers of a run that they are made from. The report draws them, page and picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from sordino.types import IntArray

Number = float | int
ChartKind = Literal["line", "dots", "both", "bars", "step"]
_FAR = 20
"""Numbers that are so many times as great as others leave nothing of them to see."""


def marks(low: float, high: float) -> list[float]:
    """Returns a few round numbers along a logarithmic axis that reaches from `low` to `high`."""
    if high <= low:
        return [low]
    if high > 4 * low:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        digits = (1,) if high > 1e4 * low else (1, 2, 5)
        found = (float(f"{digit}e{power}") for power in powers for digit in digits)
        return [mark for mark in found if low <= mark <= high]
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= rough)
    return [float(f"{step * place:.6g}") for place in range(math.ceil(low / step), math.floor(high / step) + 1)]


@dataclass(frozen=True)
class Series:
    """Points that belong together; None leaves a gap.

    `low` and `high` are drawn as a band around a line (mean ± standard deviation), or as whiskers of bars and dots.
    """

    label: str
    x: Sequence[Number | str]
    y: Sequence[Number | None]
    kind: ChartKind = "line"
    color: int = 0
    dashed: int = 0
    """The stroke: 0 is full, 1 dashed, 2 dotted."""
    low: Sequence[Number | None] | None = None
    high: Sequence[Number | None] | None = None
    hover: Sequence[str] | None = None

    @property
    def lonely(self) -> bool:
        """Whether a point has no neighbour, so that a line alone would not show it."""
        there = [value is not None and math.isfinite(value) for value in self.y]
        return any(
            here and not before and not after
            for before, here, after in zip([False, *there], there, [*there[1:], False], strict=False)
        )


@dataclass(frozen=True)
class Boxes:
    """Five-number summaries (least, quartile, median, quartile, greatest), one box a place on the x axis."""

    label: str
    x: Sequence[Number | str]
    summaries: Sequence[tuple[Number, Number, Number, Number, Number]]
    color: int = 0


@dataclass(frozen=True)
class Heat:
    """A matrix, one row a place on the y axis."""

    x: Sequence[str]
    y: Sequence[str]
    values: Sequence[Sequence[Number]]
    label: str


@dataclass(frozen=True)
class Rule:
    """A line right across the chart, with a word on it (a budget, a printed value)."""

    at: float
    label: str
    color: int | None = None
    below: bool = False
    """The word stands under the line, where curves end on it."""
    upright: bool = False
    """The line marks a place on the x axis."""


@dataclass(frozen=True)
class Axis:
    """What is measured along one side."""

    title: str
    log: bool = False
    percent: bool = False
    range: tuple[float, float] | None = None
    categories: bool = False
    ticks: Sequence[float] | None = None
    """The only places that are marked, where they are few."""


def spanning(title: str, values: Iterable[Number | None], ends: Iterable[Number | None] | None = None) -> Axis:
    """Returns an axis for these values: logarithmic where `ends`, the ones that matter most, are far apart.

    **Edge cases**: where one of them is zero, which a logarithmic axis has no place for, it is not.
    """
    seen = _finite(values)
    told = seen if ends is None else _finite(ends)
    if not told or min(told) <= 0 or max(told) <= _FAR * min(told):
        return Axis(title)
    return Axis(title, log=True, ticks=marks(min(value for value in seen if value > 0), max(seen)))


def _finite(values: Iterable[Number | None]) -> list[float]:
    return [float(value) for value in values if value is not None and math.isfinite(value)]


@dataclass(frozen=True)
class Chart:
    """One picture: what is drawn, and one sentence on how to read it."""

    key: str
    """File name of its picture and anchor on the page."""
    title: str
    note: str
    x: Axis
    y: Axis
    series: tuple[Series | Boxes | Heat, ...]
    rules: tuple[Rule, ...] = ()
    wide: bool = False
    """Takes the whole width of the page."""

    @property
    def headroom(self) -> tuple[float, float] | None:
        """The y axis that leaves room for a rule's word; None where there is none, or the axis has its own range."""
        marks = [rule.at for rule in self.rules if not rule.upright]
        if not marks or self.y.log or self.y.range is not None:
            return None
        lines = (series for series in self.series if isinstance(series, Series))
        heights = [value for series in lines for value in series.y if value is not None and math.isfinite(value)]
        return 0.0, 1.14 * max([*heights, *marks])

    @property
    def counted(self) -> tuple[int, int] | None:
        """The least and the greatest x where x counts something, so that there is nothing between two marks."""
        if self.x.categories or self.x.log or self.x.ticks is not None:
            return None
        places = [x for series in self.series if isinstance(series, Series | Boxes) for x in series.x]
        whole = [x for x in places if isinstance(x, int)]
        return (min(whole), max(whole)) if whole and len(whole) == len(places) else None

    @property
    def legend(self) -> bool:
        """Whether names are needed to tell the series apart; not where each stands at its own name."""
        named = [series for series in self.series if not isinstance(series, Heat)]
        return len(named) > 1 and not all(isinstance(one, Series) and list(one.x) == [one.label] for one in named)


class RunNumbers(Protocol):
    """What a mechanism's own charts can be made from."""

    @property
    def knobs(self) -> Mapping[str, np.ndarray]:
        """The last round's public knobs."""

    @property
    def notes(self) -> Mapping[str, np.ndarray]:
        """Private numbers that the simulation recorded on request."""

    @property
    def components(self) -> Mapping[str, slice]:
        """Where each tensor of the model lies in a row of parameters."""

    @property
    def participations(self) -> IntArray:
        """How often each client took part."""

    @property
    def played(self) -> list[Mapping[str, Any]]:
        """Metrics of the rounds that released something."""

    def played_with(self, knob: str) -> tuple[list[int], list[float | None]]:
        """Returns the rounds that released something, and what a knob was in each of them."""


ChartMaker = Callable[[RunNumbers], list[Chart]]
"""Returns the charts that a run has numbers for."""


def five_numbers(values: np.ndarray) -> tuple[float, float, float, float, float]:
    """Returns least, quartiles and greatest of the values."""
    return first_five(np.quantile(values, (0.0, 0.25, 0.5, 0.75, 1.0)))


def first_five(values: np.ndarray) -> tuple[float, float, float, float, float]:
    """Returns five numbers that are a summary already."""
    low, first, middle, third, high = (float(value) for value in np.ravel(values)[:5])
    return low, first, middle, third, high


def reworded(part: Any, change: Callable[[str], str]) -> Any:
    """Returns a chart, or a part of one, with every text changed: names that strangers chose are shown as they are."""
    if isinstance(part, str):
        return change(part)
    if isinstance(part, list | tuple):
        return type(part)(reworded(one, change) for one in part)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{field.name: reworded(getattr(part, field.name), change) for field in fields(part)})
    return part
