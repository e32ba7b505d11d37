"""Measures recipes/best through the product, and writes the tables of docs/utility.md from what was measured.

python -m benchmarks.utility                          # every recipe, seeds 0 to 4; what is measured is not run again
python -m benchmarks.utility --only mnist --seeds 1   # some recipes, by how their names begin
python -m benchmarks.utility --ablation --only adult  # one part left out, added or changed; also: digits, mnist-…
python -m benchmarks.utility --defaults               # nothing set but the features; also with --only
python -m benchmarks.utility --write                  # the tables alone

Data sets are looked for in $SORDINO_DATA. Results are kept in benchmarks/utility.jsonl, one line a run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from scipy import stats

import sordino
from benchmarks import defaults
from sordino.recipe import Recipe

ROOT = Path(__file__).resolve().parent.parent
RECIPES = ROOT / "recipes" / "best"
RESULTS = ROOT / "benchmarks" / "utility.jsonl"
PAGE = ROOT / "docs" / "utility.md"
SEEDS = 5
GOALS = {
    "mnist-eps-0.3": 97.3,
    "mnist-eps-0.5": 97.8,
    "mnist-eps-1": 98.2,
    "mnist-eps-3": 98.9,
    "fashion-mnist-eps-0.5": 87.0,
    "fashion-mnist-eps-1": 88.5,
    "fashion-mnist-eps-3": 90.0,
    "cifar10-eps-1": 63.0,
    "cifar10-eps-2": 67.3,
    "cifar10-eps-3": 70.0,
    "cifar10-eps-3-scattering": 70.0,
    "mnist-writers-eps-8": 90.0,
    "adult-eps-1": 84.5,
    "digits-eps-0.5": 87.0,
    "digits-eps-1": 91.5,
    "demo": 90.4,
}
"""Test accuracy that each recipe is meant to reach, in percent, in the order of the table."""
AS_IT_IS = "as it is"
FLOATS = ("aggregate.kind=plain",)
MEDIAN = ("mechanism.trust=central", "mechanism.quantile=0.5")
NO_WHITENING = ("opening.channel_moment=0", "opening.ridge=0.2")
NO_OPENING = ("opening.feature_mean=0", *NO_WHITENING)
ABLATION: dict[str, dict[str, tuple[str, ...]]] = {
    "digits-eps-1": {
        AS_IT_IS: (),
        "pixels of norm 1 in place of scattering": (
            "data.features=none",
            "data.feature_scales=2",
            "data.feature_norm=auto",
            "data.normalise=unit",
        ),
        "random patterns in place of scattering": (
            "data.features=random",
            "data.feature_count=32",
            "data.feature_scales=2",
            "data.feature_norm=auto",
        ),
        "two scales": ("data.feature_scales=2",),
        "with roots (`root`)": ("data.feature_norm=root",),
        "with a bias": ("model.bias=true",),
        "with the mean": ("opening.feature_mean=0.1",),
        "with whitening": ("opening.channel_moment=0.2",),
        "with momentum 0.9, a tenth of the step": ("server.momentum=0.9", "server.path=40"),
        "average of the second half": ("server.average=0.5",),
        "clip norm 0.5, the same path": ("mechanism.clip_norm=0.5",),
        "10 rounds, the same path": ("run.rounds=10",),
        "usual path (`auto`)": ("server.path=auto",),
        "floats in place of integers": FLOATS,
        "a trusted server": ("mechanism.trust=central",),
        "a trusted server, a clip norm that follows the median": MEDIAN,
    },
    "adult-eps-1": {
        AS_IT_IS: (),
        "with whitening": ("opening.channel_moment=0.2",),
        "with whitening, ridge 1": ("opening.channel_moment=0.2", "opening.ridge=1"),
        "40 rounds, the same path": ("run.rounds=40",),
        "40 rounds, with whitening": ("run.rounds=40", "opening.channel_moment=0.2"),
        "with the mean": ("opening.feature_mean=0.1",),
        "with a bias": ("model.bias=true",),
    },
    "mnist-eps-1": {
        AS_IT_IS: (),
        "pixels in place of scattering": ("data.features=none", "data.normalise=unit"),
        "without whitening": NO_WHITENING,
        "without the mean": ("opening.feature_mean=0",),
        "with momentum 0.9, a tenth of the step": ("server.momentum=0.9", "server.path=1400"),
        "average of the second half": ("server.average=0.5",),
        "with a bias": ("model.bias=true",),
        "a trusted server": ("mechanism.trust=central",),
        "a trusted server, a clip norm that follows the median": MEDIAN,
        "floats in place of integers": FLOATS,
        "patches in place of scattering": ("data.features=patches", "data.feature_count=256"),
        "random patterns in place of scattering": ("data.features=random", "data.feature_count=256"),
        "without any opening": NO_OPENING,
        "without roots (`group`)": ("data.feature_norm=group",),
        "clip norm 0.5, the same path": ("mechanism.clip_norm=0.5",),
        "20 rounds, the same path": ("run.rounds=20",),
        "usual path (`auto`)": ("server.path=auto",),
    },
    "mnist-writers-eps-8": {
        AS_IT_IS: (),
        "pixels in place of scattering": ("data.features=none", "data.normalise=unit"),
        "without whitening": NO_WHITENING,
        "without any opening": NO_OPENING,
        "the last model in place of an average": ("server.average=0",),
        "a trusted server": ("mechanism.name=dp_fedavg",),
        "a trusted server, without any opening": ("mechanism.name=dp_fedavg", *NO_OPENING),
        "a trusted server, without any opening, a clip norm that follows the median": (
            "mechanism.name=dp_fedavg_adaptive",
            *NO_OPENING,
        ),
    },
}
"""What is left out, added or changed, one at a time, from a recipe."""


def results() -> list[dict[str, Any]]:
    """Returns everything that was measured so far."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def measure(name: str, seed: int, settings: tuple[str, ...] = (), label: str = "") -> None:
    """Runs a recipe once and keeps what came out, unless that is known."""
    known = {(row["recipe"], row["seed"], row["label"]) for row in results()}
    if (name, seed, label) in known:
        return
    bare = label == defaults.LABEL
    recipe = Recipe.begin(settings=settings) if bare else Recipe.load(RECIPES / f"{name}.toml", settings)
    recipe = recipe.but(run={"seed": seed})
    with TemporaryDirectory() as folder:
        cpu = time.process_time()
        outcome = sordino.run(recipe, out=Path(folder) / "run")
        cpu = time.process_time() - cpu
    assert outcome.accuracy is not None
    spent = {f"{entry.unit}/{entry.observer}": entry.epsilon for entry in outcome.certificate.entries}
    row = {
        "recipe": name,
        "label": label,
        "seed": seed,
        "accuracy": round(100 * outcome.accuracy, 2),
        "epsilon": spent[f"{outcome.context.mechanism.unit}/server"],
        "rounds": outcome.rounds,
        "seconds": round(outcome.seconds, 1),
        "cpu_seconds": round(cpu, 1),
    }
    if bare:
        chosen = outcome.context.recipe
        opening = [name for name in ("feature_mean", "channel_moment") if getattr(chosen.opening, name)]
        row |= {"path": chosen.server.path, "opening": " and ".join(opening) or "none"}
    with RESULTS.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def summary(accuracies: list[float]) -> tuple[str, str]:
    """Returns mean ± standard deviation, and the number of seeds."""
    spread = f" ± {stdev(accuracies):.2f}" if len(accuracies) > 1 else ""
    return f"{mean(accuracies):.2f}{spread}", str(len(accuracies))


def main_table() -> str:
    """Returns the table of recipes."""
    lines = [
        "| recipe | goal | accuracy (%) | seeds | certified ε | rounds | minutes (CPU) |",
        "|---|---|---|---|---|---|---|",
    ]
    everything = [row for row in results() if not row["label"]]
    for name, goal in GOALS.items():
        rows = sorted((row for row in everything if row["recipe"] == name), key=lambda row: row["seed"])
        if not rows:
            continue
        told, seeds = summary([row["accuracy"] for row in rows])
        verdict = "" if mean(row["accuracy"] for row in rows) >= goal else " (missed)"
        dearest = max(row["epsilon"] for row in rows)
        minutes = (
            f"{mean(row['seconds'] for row in rows) / 60:.1f} ({mean(row['cpu_seconds'] for row in rows) / 60:.1f})"
        )
        lines.append(
            f"| `{name}` | {goal:g} | **{told}**{verdict} | {seeds} | {dearest:.4g} | {rows[0]['rounds']} | {minutes} |"
        )
    return "\n".join(lines)


def ablation_table() -> str:
    """Returns the table of parts that were left out, added or changed, each beside the same seeds of the recipe."""
    lines = ["| | accuracy (%) | against the recipe | p (paired) | seeds |", "|---|---|---|---|---|"]
    for recipe, variants in ABLATION.items():
        found = {label: scores(recipe, "" if label == AS_IT_IS else label) for label in variants}
        for label, accuracies in found.items():
            if accuracies:
                told, seeds = summary(list(accuracies.values()))
                pairs = [(one, found[AS_IT_IS][seed]) for seed, one in accuracies.items() if seed in found[AS_IT_IS]]
                lines.append(f"| `{recipe}`, {label} | {told} | {beside(label, pairs)} | {seeds} |")
    return "\n".join(lines)


def scores(recipe: str, label: str) -> dict[int, float]:
    """Returns accuracies by seed."""
    return {row["seed"]: row["accuracy"] for row in results() if (row["recipe"], row["label"]) == (recipe, label)}


def beside(label: str, pairs: list[tuple[float, float]]) -> str:
    """Returns the mean difference, and how likely chance makes one as large (paired t-test)."""
    if label == AS_IT_IS:
        return " | "
    gains = [one - other for one, other in pairs]
    chance = f"{stats.ttest_1samp(gains, 0).pvalue:.2g}" if len(gains) > 2 and stdev(gains) > 0 else ""
    return f"{mean(gains):+.2f} | {chance}"


def write() -> None:
    """Puts the tables into the page, between their marks."""
    text = PAGE.read_text()
    tables = {"recipes": main_table(), "ablation": ablation_table(), "defaults": defaults.table(results())}
    for mark, table in tables.items():
        begin, end = f"<!-- {mark} -->\n", f"\n<!-- end of {mark} -->"
        head, _, rest = text.partition(begin)
        _, found, tail = rest.partition(end)
        if not found:
            sys.exit(f"{PAGE} has no marks for the table of {mark}: put them back")
        text = f"{head}{begin}{table}{end}{tail}"
    PAGE.write_text(text)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="how the names of the recipes to run begin")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds, from 0 on")
    parser.add_argument("--ablation", action="store_true", help="leave out one part at a time")
    parser.add_argument("--defaults", action="store_true", help="recipes that set nothing but the features")
    parser.add_argument("--write", action="store_true", help="write the tables and run nothing")
    chosen = parser.parse_args()
    if not chosen.write:
        for seed in range(chosen.seeds):
            if chosen.defaults:
                for name in (name for name in defaults.TASKS if name.startswith(chosen.only)):
                    measure(name, seed, defaults.TASKS[name], defaults.LABEL)
                continue
            if chosen.ablation:
                for name in (name for name in ABLATION if name.startswith(chosen.only)):
                    for label, settings in ABLATION[name].items():
                        measure(name, seed, settings, "" if label == AS_IT_IS else label)
                continue
            for name in GOALS:
                if name.startswith(chosen.only) and (RECIPES / f"{name}.toml").exists():
                    measure(name, seed)
    write()


if __name__ == "__main__":
    main()
