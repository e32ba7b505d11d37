"""Curves read back from a recorded picture, so that a statement about them can be judged without playing again.

A picture is an SVG with one path for each name of its legend, in the colour of that name; its ticks tell the scales.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

PICTURES = Path(__file__).parents[1] / "docs" / "img" / "reproduction"
"""Where the recorded pictures are."""
SVG = "{http://www.w3.org/2000/svg}"
Point = tuple[float, float]
Stroke = tuple[str, bool]


def curves(picture: Path) -> dict[str, list[Point]]:
    """Returns the points of every curve of a picture, by its name in the legend.

    **Edge cases**: linear axes alone; two curves of one colour must differ in being dashed.
    """
    root = ElementTree.fromstring(picture.read_bytes())  # our own picture, of the repository
    parts = {group.get("id", ""): group for group in root.iter(f"{SVG}g")}
    (across, left), (down, bottom) = _scale(parts, "x"), _scale(parts, "y")
    legend = parts["legend_1"]
    names = [text.text or "" for text in legend.iter(f"{SVG}text")]
    strokes = list(dict.fromkeys(filter(None, map(_stroke, legend.iter(f"{SVG}path")))))
    drawn: dict[Stroke, ElementTree.Element] = {}
    for path in root.iter(f"{SVG}path"):
        stroke = _stroke(path)
        if stroke and path.get("clip-path"):
            drawn.setdefault(stroke, path)
    found = {}
    for stroke, name in zip(strokes, names, strict=True):
        pairs = re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", drawn[stroke].get("d", ""))
        found[name] = [(left + across * float(x), bottom + down * float(y)) for x, y in pairs]
    return found


def _stroke(path: ElementTree.Element) -> Stroke | None:
    """Returns the colour of a line and whether it is dashed; None for what is no line."""
    style = path.get("style", "")
    color = re.search(r"stroke: (#\w+)", style)
    return (color[1], "dasharray" in style) if color and "fill: none" in style else None


def _scale(parts: dict[str, ElementTree.Element], axis: str) -> tuple[float, float]:
    """Returns slope and offset from pixels to values, by the first and the last tick of an axis."""
    ticks = []
    for name, group in parts.items():
        if name.startswith(f"{axis}tick_"):
            label = next(group.iter(f"{SVG}text")).text or ""
            value = float(label.rstrip("%").replace("\N{MINUS SIGN}", "-")) / (100 if label.endswith("%") else 1)
            ticks.append((float(next(group.iter(f"{SVG}use")).get(axis, "nan")), value))
    (first, low), (last, high) = min(ticks), max(ticks)
    slope = (high - low) / (last - first)
    return slope, low - slope * first
