"""The comparison as a page, as JSON and as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from sordino.charts import Chart
from sordino.compare.charts import charts, colors_of
from sordino.compare.contest import Class
from sordino.compare.standing import FEWEST, SIGNIFICANT, Result, Standing
from sordino.files import PUBLIC, replace_file
from sordino.recipe import Recipe
from sordino.report import static
from sordino.report.document import Cell, document, plots, table, value
from sordino.report.palette import LIGHT
from sordino.report.words import number

PRIVATE_SCORES = (
    "Scores are exact ones, on test records that nobody declared public, and nothing was charged for them: keep this "
    "page, its pictures and comparison.json to yourself."
)
"""What a comparison says of itself where test records are private."""


def write(
    out: Path,
    common: Recipe,
    panels: Mapping[Class, Sequence[Standing]],
    results: Sequence[Result],
    top: float | None,
    failed: Mapping[str, str],
    claimed: bool,
    images: Path | None,
    private: bool = False,
) -> list[Path]:
    """Writes the page, and with `images` its plots as SVG and PNG; returns the files.

    A `private` page says that it is one: call this where new files are their owner's alone.
    """
    drawn = {kind: charts(kind, rows, results, top) for kind, rows in panels.items()}
    body = "".join(_panel(kind, rows, drawn[kind]) for kind, rows in panels.items())
    everything = [chart for group in drawn.values() for chart in group]
    held = "claimed" if claimed else "certified"
    title = f"{sum(len({r.contender.label for r in rows}) for rows in panels.values())} mechanisms at equal {held} ε"
    page = document(
        title,
        _equal(common),
        f"{_kept(private)}{_lead(panels, claimed)}{body}{_without(top)}{_failed(failed)}",
        everything,
    )
    pictures = [path for chart in everything for path in static.save(chart, images)] if images is not None else []
    replace_file(out, page.encode(), PUBLIC)
    return [out, *pictures]


def verdict(row: Standing) -> str:
    """Returns what the test says about a contender."""
    if row.rank == 1:
        return "best mean"
    if math.isnan(row.mean):
        return "–"
    if row.p_value is None:
        return "no test: too few seeds" if len(row.scores) < FEWEST else "no test: the same gap in every seed"
    return f"worse (p = {row.p_value:.2g})" if row.p_value < SIGNIFICANT else f"may be chance (p = {row.p_value:.2g})"


def score(row: Standing) -> str:
    """Returns mean ± standard deviation as people read it; the score alone where there is one seed."""
    if math.isnan(row.mean):
        return "diverged"
    scale, digits, unit = (1, 4, "") if row.mean < 0 else (100, 2, " %")
    around = "" if row.spread is None else f" ± {scale * row.spread:.{digits}f}"
    return f"loss {-row.mean:.4f}{around}" if row.mean < 0 else f"{scale * row.mean:.{digits}f}{around}{unit}"


def mean_score(top: float) -> str:
    """Returns one mean score as people read it: accuracies in per cent, and losses, which count as negative scores."""
    if math.isnan(top):
        return "diverged"
    return f"loss {-top:.4f}" if top < 0 else f"{100 * top:.2f} %"


def settings(row: Standing) -> str:
    """Returns what was chosen for a contender on stand-in data: names without their section, and values."""
    return ", ".join(one.partition(".")[2].replace("=", " ") for one in row.contender.tuned.get(row.epsilon, ()))


def to_json(
    panels: Mapping[Class, Sequence[Standing]], top: float | None, failed: Mapping[str, str], claimed: bool
) -> dict[str, Any]:
    """Returns the comparison as plain data."""
    return {
        "equal": "claimed" if claimed else "certified",
        "without_privacy": top,
        "panels": [
            {"unit": kind.unit, "trust": kind.trust, "observer": kind.observer, "rows": [row.to_json() for row in rows]}
            for kind, rows in panels.items()
        ],
        "failed": dict(failed),
    }


def _panel(kind: Class, rows: Sequence[Standing], drawn: Sequence[Chart]) -> str:
    colors, alone = colors_of(rows), len({row.contender.label for row in rows}) == 1
    head: list[Cell] = [
        "contender", ("budget ε", "n"), ("score", "n"), ("against the best", "keep"), ("certified ε", "n"),
        ("claimed ε", "n"), ("tuned to", "keep"), ("rounds", "n"), ("seconds", "n"), ("kB a round", "n"),
    ]  # fmt: skip
    body = [[_name(row, colors), *_numbers(row, alone)] for row in rows]
    if all(row.claimed is None for row in rows):
        head, body = head[:5] + head[6:], [line[:5] + line[6:] for line in body]
    return (
        f'<h2>{escape(kind.title[0].upper() + kind.title[1:])}</h2><div class="card">{table(head, body)}</div>'
        f'<div style="height:18px"></div>{plots(drawn)}'
    )


def _name(row: Standing, colors: Mapping[str, int]) -> Cell:
    mode = " (as printed)" if row.contender.recipe.mechanism.mode == "faithful" else ""
    swatch = f'<span class="swatch" style="background:var(--c{colors[row.contender.label] % len(LIGHT)})"></span>'
    return f"{swatch}{escape(row.contender.label)}{mode}", "keep"


def _numbers(row: Standing, alone: bool) -> list[Cell]:
    best = row.rank == 1 and not alone
    return [
        (f"{row.epsilon:g}", "n"),
        (value("mean", score(row), row.mean), "n best" if best else "n"),
        ("alone in its class" if alone else verdict(row), "keep"),
        (value("certified", number(row.certified), row.certified), "n"),
        (number(row.claimed) if row.claimed is not None else "–", "n"),
        (escape(settings(row)) or "–", "keep"),
        (f"{row.rounds:.0f}", "n"),
        (f"{row.seconds:.1f}", "n"),
        (f"{row.bytes_sent / 1000:,.1f}", "n"),
    ]


def _equal(common: Recipe) -> str:
    people = f"{common.partition.clients:,} clients" if common.partition.clients else "the data's own clients"
    return escape(f"{common.data.name}, {common.partition.kind} over {people}, model {common.model.name}")


def _lead(panels: Mapping[Class, Sequence[Standing]], claimed: bool) -> str:
    seeds = max((len(row.scores) for rows in panels.values() for row in rows), default=0)
    how = (
        "Every published mechanism runs as printed, with the noise that its own formula asks for at the same claimed "
        "ε; what is proved for it stands beside it."
        if claimed
        else "Everybody had the same people, model, seeds and certified budget, each calibrated by the accountant."
    )
    apart = " Promises to another unit or under another trust cannot be compared, and have a table of their own."
    count = "One seed" if seeds == 1 else f"{seeds} seeds"
    sent = " The kB are those of the update that a client sends."
    return f'<p class="lead">{how} {count}.{sent}{apart if len(panels) > 1 else ""}</p>'


def _kept(private: bool) -> str:
    return f'<p class="contrast" data-field="page"><b>Private.</b> {escape(PRIVATE_SCORES)}</p>' if private else ""


def _without(top: float | None) -> str:
    if top is None:
        return ""
    shown = value("ceiling", mean_score(top), top)
    return f'<p class="sub" style="margin-top:18px">Without privacy (fedavg): {shown}.</p>'


def _failed(failed: Mapping[str, str]) -> str:
    if not failed:
        return ""
    rows = [[escape(label), escape(reason)] for label, reason in failed.items()]
    return f'<h2>Could not be played</h2><div class="card">{table(["contender", "why"], rows)}</div>'
