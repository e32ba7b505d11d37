"""Accuracy against claimed and certified ε: the papers' recipes, some seeds each, as a table for docs/mechanisms.md.

    python benchmarks/mechanisms.py [--seeds 3] [--jobs 1] [--only fed_cad ...] [--runs FOLDER] [--write]

What is finished is not played again, and what was cut short goes on, so that the table can be made in many sittings.
"""

import argparse
import hashlib
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sordino.compare.playing import finished, play_all
from sordino.recipe import Recipe
from sordino.report.reading import read
from sordino.report.view import RunView

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "mechanisms.md"
BEGIN, END = "<!-- measured: benchmarks/mechanisms.py -->", "<!-- end -->"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    recipe: str
    printed: str = "–"
    settings: tuple[str, ...] = ()

    @property
    def mechanism(self) -> str:
        return self.of(0).mechanism.name

    def of(self, seed: int) -> Recipe:
        return Recipe.load(ROOT / "recipes" / "papers" / f"{self.recipe}.toml", [*self.settings, f"run.seed={seed}"])


SHARED = ("mechanism.trust=distributed",)
ROOM = ("budget.epsilon=100000",)
"""The recipe's budget is for its own σ; another σ needs another, which then binds nobody."""
SELDOM = ("run.evaluate_every=10",)
"""What is measured is the end."""
ROWS = (
    Row("geometric"),
    Row("geometric", "–", SHARED),
    Row("geometric_faithful", "loss 0.889 (M = 17, Table II)"),
    Row("geometric_refined", "better than without (Fig. 6)"),
    Row("geometric_adult", "in Fig. 7 alone"),
    Row("dropout_robust_adult"),
    Row("a_dpfl_adult"),
    Row("fed_cad"),
    Row("fed_cad_faithful", "in Fig. 3 alone", ("mechanism.noise_multiplier=0.1", *ROOM)),
    Row("fed_cad_faithful", "4 points over Fed-LDP (§VII-C)", ROOM),
    Row("a_dpfl", "–", SELDOM),
    Row("component_adaptive", "–", SELDOM),
    Row("component_adaptive", "–", (*SHARED, *SELDOM)),
    Row("dropout_robust"),
    Row("dropout_robust_writers", "on FEMNIST: in Fig. 4 alone"),
)
"""What is printed of the others stands beside ours on the papers' pages (`sordino reproduce`)."""


@dataclass(frozen=True, eq=False)
class Job:
    """One seed of a row."""

    recipe: Recipe
    folder: Path


def jobs(row: Row, seeds: int, runs: Path) -> Iterator[Job]:
    for seed in range(seeds):
        recipe = row.of(seed)
        digest = hashlib.blake2b(recipe.to_toml().encode(), digest_size=8).hexdigest()
        yield Job(recipe, runs / f"{row.recipe}-{digest}")


def table(rows: Sequence[Row], seeds: int, runs: Path) -> list[str]:
    """Returns the table of what has been played, with the number of seeds where it is not all of them."""
    lines = [
        "| recipe | settings | test accuracy | rounds | certified ε: server | outsider | claimed ε | printed |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        views = [read(job.folder) for job in jobs(row, seeds, runs) if finished(job)]
        if views:
            lines.append(line(row, views, seeds))
    return lines


def line(row: Row, views: Sequence[RunView], seeds: int) -> str:
    ends = [100 * (view.last("accuracy") or 0.0) for view in views]
    spread = f" ± {statistics.stdev(ends):.1f}" if len(ends) > 1 else ""
    some = "" if len(views) == seeds else f" ({len(views)} seed{'s' * (len(views) > 1)})"
    lengths = sorted({len(view.rounds) for view in views})
    cells = (
        f"`{row.recipe}`",
        "<br>".join(f"`{setting}`" for setting in row.settings if setting not in (*ROOM, *SELDOM)),
        f"{statistics.mean(ends):.1f}{spread} %{some}",
        "–".join(map(str, {lengths[0]: 0, lengths[-1]: 0})),
        epsilon(views, "epsilon", "server"),
        epsilon(views, "epsilon", "outsider"),
        epsilon(views, "claimed_epsilon", "server", "–"),
        row.printed,
    )
    return "| " + " | ".join(cells) + " |"


def epsilon(views: Sequence[RunView], field: str, observer: str | None, missing: str = "∞") -> str:
    """Returns the largest ε of the seeds; under each adjacency by its name, where there are several."""
    found: dict[str, list[float | None]] = {}
    for view in views:
        for entry in view.certificate:
            if observer in (None, entry["observer"]):
                found.setdefault("" if observer is None else entry["adjacency"], []).append(entry[field])
    shown = {name: missing if None in values else number(max(values)) for name, values in found.items()}
    return "<br>".join(f"{value} ({name})" if len(shown) > 1 else value for name, value in shown.items()) or "–"


def number(value: float) -> str:
    return f"{value:,.2f}" if value < 1e4 else f"{value:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--only", nargs="+", default=None, help="mechanisms, or recipes, to play")
    parser.add_argument("--runs", type=Path, default=Path("mechanism-runs"), help="where runs are kept")
    parser.add_argument("--write", action="store_true", help="put the table into docs/mechanisms.md")
    parser.add_argument("--table", action="store_true", help="play nothing: only make the table of what there is")
    chosen = parser.parse_args()
    for row in () if chosen.table else ROWS:
        if chosen.only is None or {row.mechanism, row.recipe} & set(chosen.only):
            failed = play_all(list(jobs(row, chosen.seeds, chosen.runs)), chosen.jobs, lambda done, total: None)
            print(row.recipe, *row.settings, *set(failed.values()), file=sys.stderr, flush=True)
    found = "\n".join(table(ROWS, chosen.seeds, chosen.runs))
    print(found)
    if chosen.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{found}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
