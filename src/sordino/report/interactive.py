"""A chart as a plotly figure. Colours are tokens (`@0`, `@ink`, …) that the page replaces by those of its theme."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

from sordino.report.chart import Axis, Boxes, Chart, Heat, Rule, Series
from sordino.report.palette import LIGHT

Figure = dict[str, Any]


def figure(chart: Chart) -> Figure:
    """Returns data and layout of the chart, ready for JSON: what is not finite is a gap."""
    return {
        "key": chart.key,
        "data": [_finite(trace) for series in chart.series for trace in _traces(series)],
        "layout": {
            "xaxis": _axis(chart.x),
            "yaxis": _axis(chart.y) | _headroom(chart),
            "showlegend": chart.legend,
            "barmode": "group",
            "shapes": [_line(rule.at, _token(rule.color)) for rule in chart.rules],
            "annotations": [_word(rule, chart.y.log) for rule in chart.rules],
        },
    }


def _finite(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _finite(part) for name, part in node.items()}
    if isinstance(node, list):
        return [_finite(part) for part in node]
    return None if isinstance(node, float) and not math.isfinite(node) else node


def _headroom(chart: Chart) -> Figure:
    """Returns what the chart's content asks of the y axis: rows from the top down, or room for a rule's word."""
    if any(isinstance(series, Heat) for series in chart.series):
        return {"autorange": "reversed"}
    if not chart.rules or chart.y.log or chart.y.range is not None:
        return {}
    lines = (series for series in chart.series if isinstance(series, Series))
    heights = [value for series in lines for value in series.y if value is not None and math.isfinite(value)]
    return {"range": [0, 1.14 * max([*heights, *(rule.at for rule in chart.rules)])]}


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
        out["range"] = list(axis.range)
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
    line: Figure = {"color": color, "width": 2.2, "dash": "dash" if series.dashed else "solid"}
    if series.kind == "step":
        line["shape"] = "hv"
    mode = {"dots": "markers", "both": "lines+markers"}.get(series.kind, "lines")
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


def _line(at: float, color: str) -> Figure:
    line = {"color": color, "width": 1.4, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "line": line}


def _word(rule: Rule, log: bool) -> Figure:
    place = math.log10(rule.at) if log else rule.at
    font = {"color": _token(rule.color), "size": 12}
    anchors = {"xref": "paper", "xanchor": "left", "yanchor": "top" if rule.below else "bottom", "showarrow": False}
    return {"x": 0.01, "y": place, "text": rule.label, "font": font, **anchors}
