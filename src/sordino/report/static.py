"""A chart as a picture (SVG and PNG), drawn without a browser and without a display."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.charts import Axis, Boxes, Chart, Heat, Rule, Series, reworded
from sordino.files import PUBLIC, make_folder, replace_file
from sordino.report.palette import GRID, HEAT, INK, LIGHT, MUTED, WARN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
    # Text stays text in SVG, and the same chart gives the same bytes.
    "svg.fonttype": "none",
    "svg.hashsalt": "sordino",
}

_STROKES = ("-", "--", ":")
_INSIDE = 3
"""A legend of up to so many names finds room among the curves."""


def save(chart: Chart, folder: Path, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Writes the chart as `folder/<key>.<format>`, each whole or not at all, and returns the paths."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    chart = reworded(chart, lambda text: text.replace("$", r"\$"))  # Matplotlib reads formulas between two $
    make_folder(folder, PUBLIC)
    with mpl.rc_context(_STYLE):
        crowded = _crowded(chart)
        figure = Figure(figsize=(9.6 if chart.wide else 8.0 if crowded else 6.4, 3.8), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        _draw_all(chart, axes)
        paths = [folder / f"{chart.key}.{kind}" for kind in formats]
        for path in paths:
            stamp = {"Date": None} if path.suffix == ".svg" else None
            picture = io.BytesIO()
            figure.savefig(picture, format=path.suffix[1:], dpi=160, facecolor="white", metadata=stamp)
            replace_file(path, picture.getvalue(), PUBLIC, durable=False)
    return paths


def _crowded(chart: Chart) -> bool:
    """Returns whether the legend needs a place of its own: many names, or bars and boxes, which leave no room."""
    return chart.legend and (len(chart.series) > _INSIDE or _filled(chart))


def _filled(chart: Chart) -> bool:
    """Returns whether there are bars or boxes."""
    return any(
        isinstance(series, Boxes) or (isinstance(series, Series) and series.kind == "bars") for series in chart.series
    )


def _draw_all(chart: Chart, axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter, ScalarFormatter

    axes.set_title(chart.title)
    if not any(isinstance(series, Heat) for series in chart.series):
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
    places = _places(chart)
    for number, series in enumerate(chart.series):
        _draw(series, axes, places, (number, len(chart.series)))
    for rule in chart.rules:
        _mark(rule, axes, outside=_filled(chart))
    if places:
        tight = sum(len(str(place)) + 2 for place in places) > 60
        slant: Any = {"rotation": 25, "rotation_mode": "anchor", "ha": "right"} if tight else {}
        axes.set_xticks(range(len(places)), list(places), **slant)
    _scale(axes, chart.x, "x")
    _scale(axes, chart.y, "y")
    if chart.headroom is not None:
        axes.set_ylim(*chart.headroom)
    if chart.y.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    elif isinstance(formatter := axes.yaxis.get_major_formatter(), ScalarFormatter):
        formatter.set_useOffset(False)
    if chart.counted is not None:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if _crowded(chart):
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    elif chart.legend:
        axes.legend(loc="best", fontsize=9)


def _mark(rule: Rule, axes: Axes, outside: bool) -> None:
    color = WARN if rule.color is None else LIGHT[rule.color % len(LIGHT)]
    stroke: Any = {"color": color, "linestyle": ":", "linewidth": 1.3}
    if rule.upright:
        axes.axvline(rule.at, **stroke)
        axes.text(
            rule.at, 0.98, f"{rule.label} ", color=color, ha="right", va="top", transform=axes.get_xaxis_transform()
        )
        return
    axes.axhline(rule.at, **stroke)
    place, side = (1.01, "center") if outside else (0.01, "top" if rule.below else "bottom")
    axes.text(place, rule.at, rule.label, color=color, va=side, transform=axes.get_yaxis_transform())


def _places(chart: Chart) -> dict[Any, int] | None:
    """Returns where each category of the x axis lies; None when x is a number."""
    if not chart.x.categories:
        return None
    names = (x for series in chart.series if isinstance(series, Series | Boxes) for x in series.x)
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


def _scale(axes: Axes, axis: Axis, which: str) -> None:
    getattr(axes, f"set_{which}label")(axis.title)
    if axis.log:
        getattr(axes, f"set_{which}scale")("log")
    if axis.ticks is not None:
        getattr(axes, f"set_{which}ticks")(list(axis.ticks), [f"{tick:g}" for tick in axis.ticks], minor=False)
        getattr(axes, f"{which}axis").minorticks_off()
    if axis.range is not None and not axis.log:
        getattr(axes, f"set_{which}lim")(*axis.range)
    elif which == "y" and axis.title and not axis.log:
        # as on the page: nothing begins above zero
        axes.update_datalim([(axes.dataLim.x0, 0.0)], updatex=False)
        low, high = axes.dataLim.intervaly
        if low < high:
            axes.set_ylim(bottom=0.0 if low == 0 else None, top=0.0 if high == 0 else None)


def _along(x: Sequence[Any], places: dict[Any, int] | None) -> list[float]:
    return [float(value if places is None else places[value]) for value in x]


@singledispatch
def _draw(series: object, axes: Axes, places: dict[Any, int] | None, order: tuple[int, int]) -> None:
    raise TypeError(f"a chart cannot hold {type(series).__name__}")


@_draw.register(Series)
def _(series: Series, axes: Axes, places: dict[Any, int] | None, order: tuple[int, int]) -> None:
    color = LIGHT[series.color % len(LIGHT)]
    y = [float("nan") if value is None else float(value) for value in series.y]
    if series.kind == "bars":
        middle = _along(series.x, places)
        width = 0.88 * _least_gap(middle) / order[1]
        x = [at + (order[0] - (order[1] - 1) / 2) * width for at in middle]
        axes.bar(x, y, width=width, color=color, label=series.label)
        _whiskers(series, axes, x, y)
        return
    x = _along(series.x, places)
    if series.kind == "dots":
        axes.plot(x, y, "o", color=color, label=series.label, markersize=5)
        _whiskers(series, axes, x, y)
        return
    style: dict[str, Any] = {"linestyle": _STROKES[series.dashed % len(_STROKES)], "linewidth": 1.8}
    style |= {"drawstyle": "steps-mid"} if series.kind == "step" else {}
    marker = "o" if series.kind == "both" or series.lonely else None
    axes.plot(x, y, color=color, label=series.label, marker=marker, **style)
    if series.low is not None and series.high is not None:
        axes.fill_between(x, _floats(series.low), _floats(series.high), color=color, alpha=0.16, linewidth=0)


@_draw.register(Boxes)
def _(boxes: Boxes, axes: Axes, places: dict[Any, int] | None, order: tuple[int, int]) -> None:
    names = ("whislo", "q1", "med", "q3", "whishi")
    stats: list[dict[str, Any]] = [
        dict(zip(names, map(float, five), strict=True)) | {"fliers": []} for five in boxes.summaries
    ]
    color = LIGHT[boxes.color % len(LIGHT)]
    spread = _least_gap(_along(boxes.x, places))
    width = 0.7 * spread / order[1]
    x = [at + (order[0] - (order[1] - 1) / 2) * width for at in _along(boxes.x, places)]
    line = {"color": color}
    axes.bxp(
        stats, positions=x, widths=width * 0.85, boxprops=line, medianprops=line, whiskerprops=line, capprops=line,
        showfliers=False, manage_ticks=False,
    )  # fmt: skip
    axes.plot([], [], color=color, label=boxes.label)


@_draw.register(Heat)
def _(heat: Heat, axes: Axes, places: dict[Any, int] | None, order: tuple[int, int]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("sordino", HEAT)
    picture = axes.imshow(heat.values, aspect="auto", cmap=shades, interpolation="nearest")
    axes.set_xticks(range(len(heat.x)), list(heat.x))
    step = max(1, len(heat.y) // 10)
    axes.set_yticks(range(0, len(heat.y), step), list(heat.y)[::step])
    bar = axes.figure.colorbar(picture, ax=axes, pad=0.01)
    bar.set_label(heat.label)


def _whiskers(series: Series, axes: Axes, x: list[float], y: list[float]) -> None:
    if series.low is None or series.high is None:
        return
    down = [value - low for value, low in zip(y, _floats(series.low), strict=True)]
    up = [high - value for value, high in zip(y, _floats(series.high), strict=True)]
    axes.errorbar(x, y, yerr=[down, up], fmt="none", ecolor=MUTED, capsize=3, linewidth=1.1)


def _floats(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]


def _least_gap(x: list[float]) -> float:
    return min((b - a for a, b in zip(sorted(x), sorted(x)[1:], strict=False) if b > a), default=1.0)
