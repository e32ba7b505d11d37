"""The comparison as Markdown: tables and pictures to put into a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sordino.compare.charts import charts
from sordino.compare.contest import Class
from sordino.compare.page import PRIVATE_SCORES, mean_score, score, settings, verdict
from sordino.compare.standing import Result, Standing
from sordino.printable import in_markdown
from sordino.report.words import number


def markdown(
    panels: Mapping[Class, Sequence[Standing]],
    results: Sequence[Result],
    top: float | None,
    failed: Mapping[str, str],
    pictures: str | None,
    private: bool = False,
) -> str:
    """Returns every class as a section; `pictures` is the folder of the plots as links should name it, if any."""
    parts = [f"> **Private.** {PRIVATE_SCORES}", ""] if private else []
    for kind, rows in panels.items():
        parts += [f"### {kind.title[0].upper()}{kind.title[1:]}", "", *_table(rows), ""]
        if pictures is not None:
            parts += [
                f"![{in_markdown(chart.title)}]({pictures}/{chart.key}.svg)"
                for chart in charts(kind, rows, results, top)
            ]
            parts.append("")
    if top is not None:
        parts += [f"Without privacy (fedavg): {mean_score(top)}.", ""]
    parts += [in_markdown(f"{label} could not be played: {reason}.") for label, reason in failed.items()]
    return "\n".join(parts).rstrip() + "\n"


def _table(rows: Sequence[Standing]) -> list[str]:
    alone, claims = len({row.contender.label for row in rows}) == 1, any(row.claimed is not None for row in rows)
    head = [
        "contender",
        "budget ε",
        "certified ε",
        "claimed ε",
        "score",
        "against the best",
        "tuned to",
        "rounds",
        "seconds",
    ]
    body = [_cells(row, alone) for row in rows]
    table = [[*head, "kB a round"], ["---", *["---:"] * 4, "---", "---", *["---:"] * 3], *body]
    return [f"| {' | '.join(line if claims else line[:3] + line[4:])} |" for line in table]


def _cells(row: Standing, alone: bool) -> list[str]:
    claimed = "" if row.claimed is None else number(row.claimed)
    against = "alone in its class" if alone else verdict(row)
    costs = [f"{row.rounds:.0f}", f"{row.seconds:.1f}", f"{row.bytes_sent / 1000:,.1f}"]
    return [
        in_markdown(row.contender.label),
        f"{row.epsilon:g}",
        number(row.certified),
        claimed,
        score(row),
        against,
        in_markdown(settings(row)),
        *costs,
    ]
