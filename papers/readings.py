"""Readings: what a paper leaves open, declared as a grid before anything is run, and every combination played.

A printed number is then put beside all of them: which readings come close, which do not, and how far apart they lie.
None is chosen for being near; the figures themselves keep the first option of every choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from papers.experiment import ExperimentResult
from papers.experiment_runner import ExperimentRunner, SeedRuns, printed_rules
from papers.printed_line import PrintedLine, accuracy, joined, number
from sordino.charts import Axis, Chart, Series


@dataclass(frozen=True)
class OpenChoice:
    """One thing that a paper does not state, and the ways in which it may have been done."""

    name: str
    options: Mapping[str, Sequence[str]]
    """Settings (`section.field=value`) by the words for them; the first is that of the figures."""

    def told(self) -> str:
        """Returns the choice and its options in words."""
        return f"{self.name}: {', '.join(self.options)}"


PIXEL_SCALE = OpenChoice(
    "pixels", {"standardised images": ["data.normalise=auto"], "pixels in [0, 1]": ["data.normalise=none"]}
)
"""No paper states how pixels are scaled."""


@dataclass(frozen=True)
class ReadingGrid:
    """Every combination of some open choices."""

    choices: tuple[OpenChoice, ...]

    def readings(self) -> dict[str, list[str]]:
        """Returns the settings of every reading by its words, in the order of declaration."""
        return {
            ", ".join(words): [setting for choice, word in zip(self.choices, words, strict=True)
                               for setting in choice.options[word]]
            for words in product(*(choice.options for choice in self.choices))
        }  # fmt: skip

    def told(self) -> tuple[str, ...]:
        """Returns one sentence a choice, for the page."""
        return tuple(f"Declared before anything was run: {choice.told()}." for choice in self.choices)


@dataclass(frozen=True)
class PrintedTarget:
    """A printed number, and the settings that it was printed for."""

    settings: Sequence[str]
    printed: float
    field: str = "accuracy"


def read_all(
    runner: ExperimentRunner, key: str, title: str, grid: ReadingGrid, targets: Mapping[str, PrintedTarget]
) -> ExperimentResult:
    """Plays every reading of every target, and judges each by itself and all together.

    **Edge cases**: settings of a reading come last, so that they win over the target's own.
    """
    readings = grid.readings()
    runs = runner.play(
        {f"{name}/{words}": [*target.settings, *more] for name, target in targets.items()
         for words, more in readings.items()}
    )  # fmt: skip
    lines: list[PrintedLine] = []
    for name, target in targets.items():
        ends = {words: runs[f"{name}/{words}"] for words in readings}
        lines += [_one(f"{name}: {words}", target, found) for words, found in ends.items()]
        lines.append(spread_of(name, target, {words: found.last(target.field)[0] for words, found in ends.items()}))
    return ExperimentResult(tuple(lines), (_chart(key, title, targets, readings, runs),))


def spread_of(name: str, target: PrintedTarget, ends: Mapping[str, float]) -> PrintedLine:
    """Judges a printed number by all readings: `close` where it lies between the least and the greatest of them."""
    low, high = min(ends.values()), max(ends.values())
    nearest = min(ends, key=lambda words: abs(ends[words] - target.printed))
    inside = low <= target.printed <= high
    printed, shown = _told(target, target.printed), f"{_told(target, low)} … {_told(target, high)}"
    why = joined("" if inside else "no reading reaches it", f"nearest: {nearest} ({_told(target, ends[nearest])})")
    return PrintedLine(
        f"**{name}: spread of {len(ends)} readings**", printed, shown, "close" if inside else "differs", why
    )


def _one(quantity: str, target: PrintedTarget, found: SeedRuns) -> PrintedLine:
    mean, spread = found.last(target.field)
    if target.field == "accuracy":
        return accuracy(quantity, target.printed, mean, spread)
    return number(quantity, target.printed, mean, 3, 0.1, "", spread)


def _told(target: PrintedTarget, value: float) -> str:
    return f"{100 * value:.2f} %" if target.field == "accuracy" else f"{value:.3f}"


def _chart(
    key: str,
    title: str,
    targets: Mapping[str, PrintedTarget],
    readings: Mapping[str, Sequence[str]],
    runs: Mapping[str, SeedRuns],
) -> Chart:
    """Returns dots by reading, a colour for each printed number, which is a dotted line of that colour."""
    losses = any(target.field == "loss" for target in targets.values())
    axis = Axis("test loss", log=True) if losses else Axis("test accuracy", percent=True, range=(0.0, 1.0))
    series = []
    for color, (name, target) in enumerate(targets.items()):
        ends = [runs[f"{name}/{words}"] for words in readings]
        means = [found.last(target.field)[0] for found in ends]
        low, high = (
            [float(edge) for edge in side] for side in zip(*(f.reach(target.field) for f in ends), strict=True)
        )
        edges = (low, high) if low != high else (None, None)
        series.append(Series(name, list(readings), means, "dots", color, 0, *edges))
    rules = printed_rules({color: target.printed for color, target in enumerate(targets.values())})
    note = (
        "Dots: what each declared reading ends at, from the least to the greatest seed. Dotted lines: what is printed."
    )
    return Chart(key, title, note, Axis("", categories=True), axis, tuple(series), rules, wide=True)
