"""The comparison as Markdown: tables and pictures to put into a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sordino.compare.charts import charts
from sordino.compare.contest import Class
from sordino.compare.page import score, verdict
from sordino.compare.standing import Result, Standing
from sordino.report.words import number


def markdown(
    panels: Mapping[Class, Sequence[Standing]],
    results: Sequence[Result],
    top: float | None,
    failed: Mapping[str, str],
    pictures: str,
) -> str:
    """Returns every class as a section; `pictures` is the folder of the plots, as links should name it."""
    parts = []
    for kind, rows in panels.items():
        parts += [f"### {kind.title[0].upper()}{kind.title[1:]}", "", *_table(rows), ""]
        parts += [f"![{chart.title}]({pictures}/{chart.key}.svg)" for chart in charts(kind, rows, results, top)]
        parts.append("")
    if top is not None:
        parts += [f"Without privacy (fedavg): {100 * top:.2f} %.", ""]
    parts += [f"{label} could not be played: {reason}." for label, reason in failed.items()]
    return "\n".join(parts).rstrip() + "\n"


def _table(rows: Sequence[Standing]) -> list[str]:
    alone = len({row.contender.label for row in rows}) == 1
    lines = [
        "| contender | budget ε | certified ε | claimed ε | score | against the best | rounds | seconds | kB a round |",
        "|---|---:|---:|---:|---:|---|---:|---:|---:|",
    ]
    for row in rows:
        claimed = "" if row.claimed is None else number(row.claimed)
        against = "alone in its class" if alone else verdict(row)
        budgets = (row.contender.label, f"{row.epsilon:g}", number(row.certified), claimed, score(row), against)
        costs = (f"{row.rounds:.0f}", f"{row.seconds:.1f}", f"{row.bytes_sent / 1000:,.1f}")
        lines.append(f"| {' | '.join((*budgets, *costs))} |")
    return lines
