"""The shell of a page: one HTML file that holds its style, scripts and numbers, and asks the network for nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from sordino._version import __version__
from sordino.charts import Chart
from sordino.report import palette
from sordino.report.interactive import figure

Cell = str | tuple[str, str]
"""What a table shows; or that and a CSS class."""


def document(title: str, sub: str, body: str, charts: Iterable[Chart]) -> str:
    """Returns the whole page. `title` is plain text; `sub` and `body` are HTML."""
    from plotly.offline import get_plotlyjs

    figures = json.dumps([figure(chart) for chart in charts], allow_nan=False)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="sordino {__version__}">
<title>{escape(title)} · sordino</title>
<link rel="icon" href="data:,">
<style>{_own("style.css")}{palette.css()}</style>
</head>
<body>
<main>
<header class="top"><div><div class="brand">sordino</div><h1>{escape(title)}</h1><p class="sub">{sub}</p></div>
<button class="theme" type="button">☾ dark</button></header>
{body}
<footer>Made by sordino {__version__}. This page is one file: it loads nothing and sends nothing.</footer>
</main>
<script type="application/json" id="figures">{_safe(figures)}</script>
<script>{get_plotlyjs()}</script>
<script>{_own("page.js")}</script>
</body>
</html>
"""


def plots(charts: Sequence[Chart]) -> str:
    """Returns a grid of empty places, one a chart, that page.js fills."""
    narrow = [chart.key for chart in charts if not chart.wide]
    alone = narrow[-1] if len(narrow) % 2 else None
    places = "".join(
        f'<section class="card plot{" wide" if chart.wide or chart.key == alone else ""}" id="{escape(chart.key)}">'
        f'<button class="save" type="button" data-plot="{escape(chart.key)}" title="save as SVG">⤓ svg</button>'
        f"<h3>{escape(chart.title)}</h3><p>{escape(chart.note)}</p>"
        f'<div class="canvas" id="plot-{escape(chart.key)}" role="img" aria-label="{escape(chart.title)}"></div>'
        "</section>"
        for chart in charts
    )
    return f'<div class="plots">{places}</div>'


def table(head: Sequence[Cell], rows: Iterable[Sequence[Cell]]) -> str:
    """Returns a table that scrolls by itself where it is too wide; cells are HTML."""
    top = "".join(_cell("th", cell) for cell in head)
    body = "".join(f"<tr>{''.join(_cell('td', cell) for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def value(field: str, shown: str, exact: float | None) -> str:
    """Returns a number as people read it, with the exact one (null: not finite) beside it for programs."""
    exact = exact if exact is not None and math.isfinite(exact) else None
    return f'<span data-field="{escape(field)}" data-value="{escape(json.dumps(exact))}">{escape(shown)}</span>'


def _cell(tag: str, cell: Cell) -> str:
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return f'<{tag} class="{style}">{text}</{tag}>' if style else f"<{tag}>{text}</{tag}>"


def _own(name: str) -> str:
    return resources.files("sordino.report").joinpath(name).read_text(encoding="utf-8")


def _safe(text: str) -> str:
    # A label such as "</script>" must not end the element that holds it.
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
