"""Scales by component against plain noise on sparse data: one-hot rows of Adult, and bags of words.

    python -m benchmarks.sparse --out sparse.json     # words, which need no files
    python -m benchmarks.sparse --task words adult    # Adult needs $SORDINO_DATA
    python -m benchmarks.sparse --same 0.1 10         # one setting for all, without a search

Words: 1,000 people hold 20 texts of 30 words; word frequencies follow Zipf's law over 500 words, and each of two topics
makes half of the words rarer. Every contender plays the same grid (clip norm, server step) on another draw of the same
law, which stands in for both tasks (rows have norm 1 in both), and then competes with its best setting.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

import sordino
from sordino.recipe import Recipe

WORDS, LENGTH, PEOPLE, EACH, TESTS = 500, 30, 1000, 20, 4000
STAND_IN = 1000
"""Seed of the draw that settings are chosen on."""
COMMON = ("data.normalise=unit", "train.learning_rate=1", "run.rounds=20", "run.evaluate_every=20", "model.bias=false")
CONTENDERS = {
    "local": {
        "plain (fed_ldp)": ("mechanism.name=fed_ldp",),
        "component_adaptive": ("mechanism.name=component_adaptive",),
        "component_adaptive, equal": ("mechanism.name=component_adaptive", "mechanism.allocation=equal"),
    },
    "distributed": {
        "plain (distributed_gaussian)": ("mechanism.name=distributed_gaussian",),
        "component_adaptive": ("mechanism.name=component_adaptive", "mechanism.trust=distributed"),
        "component_adaptive, equal": (
            "mechanism.name=component_adaptive",
            "mechanism.trust=distributed",
            "mechanism.allocation=equal",
        ),
    },
}
EPSILON = {"local": 8.0, "distributed": 1.0}
GRID = [
    (f"mechanism.clip_norm={clip}", f"server.learning_rate={step}") for clip in (0.03, 0.1, 0.3) for step in (2, 10, 30)
]


def bags(seed: int, records: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns counts of words in texts, and their topics."""
    law, draw = np.random.default_rng(7), np.random.default_rng(seed)
    zipf = 1 / (np.arange(WORDS) + 3)
    tilt = np.where(law.random((2, WORDS)) < 0.5, 0.6, 1.0)
    topics = draw.integers(0, 2, records)
    counts = np.empty((records, WORDS), np.float32)
    for topic in (0, 1):
        chance = zipf * tilt[topic]
        counts[topics == topic] = draw.multinomial(LENGTH, chance / chance.sum(), int((topics == topic).sum()))
    return counts, topics.astype(np.int64)


def settings_of(task: str, seed: int, folder: Path) -> list[str]:
    """Returns the settings that name a task's data."""
    if task == "adult":
        return ["data.name=adult", f"partition.clients={PEOPLE}"]
    path = folder / f"words-{seed}.npz"
    if not path.exists():
        (x, y), (test_x, test_y) = bags(seed, PEOPLE * EACH), bags(seed + 1_000_000, TESTS)
        np.savez(path, x=x, y=y, test_x=test_x, test_y=test_y, client=np.arange(len(y)) % PEOPLE)
    told = [f"public.population={PEOPLE}", f"public.records={PEOPLE * EACH}", "public.test=true", "public.classes=2"]
    return ["data.name=npz", f"data.file={path}", "partition.kind=by_key", *told]


def score(task: str, trust: str, settings: tuple[str, ...], seed: int, folder: Path) -> float:
    """Returns the test accuracy of one run, in percent."""
    told = [*settings_of(task, seed, folder), *COMMON, *settings, f"budget.epsilon={EPSILON[trust]}"]
    recipe = Recipe.load(None, [*told, f"run.seed={seed}"])
    with tempfile.TemporaryDirectory() as run:
        outcome = sordino.run(recipe, out=Path(run) / "run")
    assert outcome.accuracy is not None
    assert all(entry.epsilon is not None and entry.epsilon <= EPSILON[trust] for entry in outcome.certificate.entries)
    return 100 * outcome.accuracy


def row(trust: str, task: str, contender: str, found: list[float], plain: list[float], best: tuple[str, ...]) -> str:
    """Returns a line of the table."""
    gain, p = "", ""
    if found is not plain:
        gain, p = f"{np.mean(found) - np.mean(plain):+.2f}", f"{stats.ttest_rel(found, plain).pvalue:.2g}"
    tuned = ", ".join(one.partition(".")[2].replace("=", " ") for one in best)
    spread = f"{np.mean(found):.2f} ± {np.std(found, ddof=1):.2f}"
    return f"| {task} | {trust}, {EPSILON[trust]:g} | {contender} | {spread} | {gain} | {p} | {tuned} |"


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=("words", "adult"), nargs="+", default=["words"])
    parser.add_argument("--trust", choices=tuple(CONTENDERS), nargs="+", default=list(CONTENDERS))
    parser.add_argument("--same", nargs=2, metavar=("CLIP", "STEP"), help="these settings for all, without a search")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("sparse.json"))
    chosen = parser.parse_args()
    told: dict[str, dict[str, dict[str, list[float]]]] = {}
    same = chosen.same and (f"mechanism.clip_norm={chosen.same[0]}", f"server.learning_rate={chosen.same[1]}")
    print("| task | trust, ε | contender | accuracy (%) | less plain | p (paired) | tuned to |")
    print("|---|---|---|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for trust in chosen.trust:
            plain: dict[str, list[float]] = {}
            for contender, settings in CONTENDERS[trust].items():
                best = same or max(GRID, key=lambda one: score("words", trust, (*settings, *one), STAND_IN, folder))
                for task in chosen.task:
                    found = [score(task, trust, (*settings, *best), seed, folder) for seed in range(chosen.seeds)]
                    kept = told.setdefault(task, {}).setdefault(trust, {})
                    kept[contender] = found
                    kept[contender + ": tuned to"] = [float(one.split("=")[1]) for one in best]
                    chosen.out.write_text(json.dumps(told, indent=2) + "\n")
                    print(row(trust, task, contender, found, plain.setdefault(task, found), best), flush=True)


if __name__ == "__main__":
    main()
