"""A chart as a plotly figure. Colours are tokens (`@0`, `@ink`, …) that the page replaces by those of its theme."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

from sordino.charts import Axis, Boxes, Chart, Heat, Rule, Series, reworded
from sordino.report.palette import LIGHT
from sordino.strict_json import finite

Figure = dict[str, Any]
_STROKES = ("solid", "dash", "dot")
_FEW = 10
"""Places that are all marked."""
_HALF_A_DOT = 0.015
"""What a dot at 0 % reaches below it."""


def figure(chart: Chart) -> Figure:
    """Returns data and layout of the chart, ready for JSON: what is not finite is a gap."""
    chart = reworded(chart, lambda text: text.replace("&", "&amp;").replace("<", "&lt;"))  # plotly reads tags and links
    return {
        "key": chart.key,
        "data": [finite(trace) for series in chart.series for trace in _traces(series)],
        "layout": {
            "xaxis": _axis(chart.x) | _counted(chart),
            "yaxis": _axis(chart.y) | _room(chart),
            "showlegend": chart.legend,
            "barmode": "group",
            "boxmode": "group",
            "shapes": [_line(rule, _token(rule.color)) for rule in chart.rules],
            "annotations": [_word(rule, chart.y.log) for rule in chart.rules],
        },
    }


def _room(chart: Chart) -> Figure:
    """Returns what the chart's content asks of the y axis: rows from the top down, or room for a rule's word."""
    if any(isinstance(series, Heat) for series in chart.series):
        return {"autorange": "reversed"}
    return {} if chart.headroom is None else {"range": list(chart.headroom)}


def _counted(chart: Chart) -> Figure:
    """Returns an x axis that begins with the first place and has no marks between two of them."""
    if chart.counted is None or chart.x.range is not None:
        return {}
    first, last = chart.counted
    room = min(0.5, 0.04 * (last - first)) or 0.5
    few = {"tick0": first, "dtick": 1} if last - first < _FEW else {}
    return {"range": [first - room, last + room], "rangemode": "normal"} | few


def _axis(axis: Axis) -> Figure:
    out: Figure = {"title": {"text": axis.title}, "type": "log" if axis.log else "-"}
    if axis.categories:
        out["type"] = "category"
    if axis.percent:
        out["tickformat"] = ".0%"
    if axis.log:
        out |= {"dtick": 1, "exponentformat": "power"}
    if axis.ticks is not None:
        out |= {"tickmode": "array", "tickvals": list(axis.ticks), "ticktext": [f"{tick:g}" for tick in axis.ticks]}
    if axis.range is not None:
        low, high = axis.range
        out["range"] = [low - _HALF_A_DOT if axis.percent and low == 0 else low, high]
    elif axis.title and not axis.log and not axis.categories:
        out["rangemode"] = "tozero"
    return out


def _token(color: int | None) -> str:
    return "@warn" if color is None else f"@{color % len(LIGHT)}"


@singledispatch
def _traces(series: object) -> list[Figure]:
    raise TypeError(f"a chart cannot hold {type(series).__name__}")


@_traces.register
def _(series: Series) -> list[Figure]:
    color = _token(series.color)
    trace: Figure = {"name": series.label, "x": list(series.x), "y": list(series.y), "legendgroup": series.label}
    if series.hover is not None:
        trace |= {"text": list(series.hover), "hovertemplate": "%{text}<extra></extra>"}
    if series.kind == "bars":
        return [trace | {"type": "bar", "textposition": "none", "marker": {"color": color}, **_whiskers(series)}]
    line: Figure = {"color": color, "width": 2.2, "dash": _STROKES[series.dashed % len(_STROKES)]}
    if series.kind == "step":
        line["shape"] = "hvh"
    mode = "lines+markers" if series.kind == "both" or series.lonely else "lines"
    mode = "markers" if series.kind == "dots" else mode
    trace |= {"type": "scatter", "mode": mode, "line": line, "marker": {"color": color, "size": 7}}
    if series.kind == "dots":
        return [trace | _whiskers(series)]
    return [*_band(series, color), trace]


@_traces.register
def _(boxes: Boxes) -> list[Figure]:
    columns = list(zip(*boxes.summaries, strict=True)) or [()] * 5
    names = ("lowerfence", "q1", "median", "q3", "upperfence")
    spread = {name: list(column) for name, column in zip(names, columns, strict=True)}
    color = _token(boxes.color)
    box = {"type": "box", "name": boxes.label, "x": list(boxes.x), "marker": {"color": color}, "line": {"width": 1.4}}
    return [box | spread]


@_traces.register
def _(heat: Heat) -> list[Figure]:
    bar = {"title": {"text": heat.label, "side": "right"}, "thickness": 12, "outlinewidth": 0}
    values = [list(row) for row in heat.values]
    return [
        {"type": "heatmap", "x": list(heat.x), "y": list(heat.y), "z": values, "colorscale": "@heat", "colorbar": bar}
    ]


def _whiskers(series: Series) -> Figure:
    if series.low is None or series.high is None:
        return {}
    up = [None if h is None or y is None else h - y for h, y in zip(series.high, series.y, strict=True)]
    down = [None if lo is None or y is None else y - lo for lo, y in zip(series.low, series.y, strict=True)]
    return {"error_y": {"array": up, "arrayminus": down, "color": "@muted", "thickness": 1.2, "width": 4}}


def _band(series: Series, color: str) -> list[Figure]:
    if series.low is None or series.high is None:
        return []
    edge: Figure = {
        "type": "scatter",
        "mode": "lines",
        "x": list(series.x),
        "line": {"width": 0, "color": color},
        "showlegend": False,
        "hoverinfo": "skip",
        "legendgroup": series.label,
    }
    filled = {"fill": "tonexty", "fillcolor": f"{color}/0.16"}
    return [edge | {"y": list(series.low)}, edge | {"y": list(series.high)} | filled]


def _line(rule: Rule, color: str) -> Figure:
    line = {"color": color, "width": 1.4, "dash": "dot"}
    along, across = ("y", "x") if rule.upright else ("x", "y")
    ends = {f"{along}ref": "paper", f"{along}0": 0, f"{along}1": 1, f"{across}0": rule.at, f"{across}1": rule.at}
    return {"type": "line", "line": line, **ends}


def _word(rule: Rule, log: bool) -> Figure:
    font = {"color": _token(rule.color), "size": 12}
    if rule.upright:
        top = {"yref": "paper", "y": 1, "yanchor": "top", "xanchor": "right", "showarrow": False}
        return {"x": rule.at, "text": rule.label, "font": font, **top}
    place = math.log10(rule.at) if log else rule.at
    anchors = {"xref": "paper", "xanchor": "left", "yanchor": "top" if rule.below else "bottom", "showarrow": False}
    return {"x": 0.01, "y": place, "text": rule.label, "font": font, **anchors}
