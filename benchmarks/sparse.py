"""Scales by component, and predicted steps, against plain noise: one-hot rows of Adult, bags of words, and features.

    python -m benchmarks.sparse --out sparse.json                        # words, which need no files
    python -m benchmarks.sparse --task words adult features              # Adult needs $SORDINO_DATA
    python -m benchmarks.sparse --same 0.1 10 --out same.json            # one setting for all, without a search
    python -m benchmarks.sparse --same 0.1 10 --out same.json --table    # what the file holds, and play nothing

Features: digits, one image a person (1,437), scattering with one scale, as in recipes/best/demo.toml. What the file
named by --out holds already is not played again.

Words: 1,000 people hold 20 texts of 30 words; word frequencies follow Zipf's law over 500 words, and each of two topics
makes half of the words rarer. Every contender plays the same grid (clip norm, server step) on another draw of the same
law, which stands in for all tasks (rows have norm 1 in all), and then competes with its best setting.
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

TASKS = ("words", "adult", "features")
WORDS, LENGTH, PEOPLE, EACH, TESTS = 500, 30, 1000, 20, 4000
TUNED = ": tuned to"
Told = dict[str, dict[str, dict[str, list[float]]]]
STAND_IN = 1000
"""Seed of the draw that settings are chosen on."""
COMMON = ("train.learning_rate=1", "run.rounds=20", "run.evaluate_every=20", "model.bias=false")
CONTENDERS = {
    trust: {
        f"plain ({plain})": (f"mechanism.name={plain}",),
        "component_adaptive": (*own,),
        "component_adaptive, equal": (*own, "mechanism.allocation=equal"),
        "component_adaptive, predicting": (*own, "mechanism.predict=true"),
    }
    for trust, plain, own in (
        ("local", "fed_ldp", ("mechanism.name=component_adaptive",)),
        ("distributed", "distributed_gaussian", ("mechanism.name=component_adaptive", "mechanism.trust=distributed")),
    )
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
        return ["data.name=adult", "data.normalise=unit", f"partition.clients={PEOPLE}"]
    if task == "features":
        return ["data.features=scattering", "data.feature_scales=1", "data.feature_norm=group"]
    path = folder / f"words-{seed}.npz"
    if not path.exists():
        (x, y), (test_x, test_y) = bags(seed, PEOPLE * EACH), bags(seed + 1_000_000, TESTS)
        np.savez(path, x=x, y=y, test_x=test_x, test_y=test_y, client=np.arange(len(y)) % PEOPLE)
    told = [f"public.population={PEOPLE}", f"public.records={PEOPLE * EACH}", "public.test=true", "public.classes=2"]
    return ["data.name=npz", f"data.file={path}", "data.normalise=unit", "partition.kind=by_key", *told]


def score(task: str, trust: str, settings: tuple[str, ...], seed: int, folder: Path) -> float:
    """Returns the test accuracy of one run, in percent."""
    told = [*settings_of(task, seed, folder), *COMMON, *settings, f"budget.epsilon={EPSILON[trust]}"]
    recipe = Recipe.load(None, [*told, f"run.seed={seed}"])
    with tempfile.TemporaryDirectory() as run:
        outcome = sordino.run(recipe, out=Path(run) / "run")
    assert outcome.accuracy is not None
    assert all(entry.epsilon is not None and entry.epsilon <= EPSILON[trust] for entry in outcome.certificate.entries)
    return 100 * outcome.accuracy


def row(trust: str, task: str, contender: str, found: list[float], plain: list[float], best: list[float]) -> str:
    """Returns a line of the table."""
    gain, p = "", ""
    if found is not plain:
        gain, p = f"{np.mean(found) - np.mean(plain):+.2f}", f"{stats.ttest_rel(found, plain).pvalue:.2g}"
    tuned = "clip {:g}, step {:g}".format(*best)
    spread = f"{np.mean(found):.2f} ± {np.std(found, ddof=1):.2f}"
    return f"| {task} | {trust}, {EPSILON[trust]:g} | {contender} | {spread} | {gain} | {p} | {tuned} |"


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, nargs="+", default=["words"])
    parser.add_argument("--trust", choices=tuple(CONTENDERS), nargs="+", default=list(CONTENDERS))
    parser.add_argument("--same", nargs=2, metavar=("CLIP", "STEP"), help="these settings for all, without a search")
    parser.add_argument("--table", action="store_true", help="play nothing: the table of what the file holds")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("sparse.json"))
    chosen = parser.parse_args()
    told: Told = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    if not chosen.table:
        with tempfile.TemporaryDirectory() as folder:
            play(chosen, told, Path(folder))
    print("| task | trust, ε | contender | accuracy (%) | less plain | p (paired) | tuned to |")
    print("|---|---|---|---:|---:|---:|---|")
    for task, trusts in told.items():
        for trust, found in trusts.items():
            plain = next(iter(found.values()))
            for contender in (name for name in found if TUNED not in name):
                print(row(trust, task, contender, found[contender], plain, found[contender + TUNED]))


def play(chosen: argparse.Namespace, told: Told, folder: Path) -> None:
    """Plays what is asked for and not known, and writes it down run by run."""
    same = chosen.same and (f"mechanism.clip_norm={chosen.same[0]}", f"server.learning_rate={chosen.same[1]}")
    for task in chosen.task:
        for trust in chosen.trust:
            for contender, settings in CONTENDERS[trust].items():
                if contender in told.get(task, {}).get(trust, {}):
                    continue
                best = same or max(GRID, key=lambda one: score("words", trust, (*settings, *one), STAND_IN, folder))
                found = [score(task, trust, (*settings, *best), seed, folder) for seed in range(chosen.seeds)]
                kept = told.setdefault(task, {}).setdefault(trust, {})
                kept[contender] = found
                kept[contender + TUNED] = [float(one.split("=")[1]) for one in best]
                chosen.out.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
