"""A network preconditioned from synthetic noise against the same network as it is: digits, one image a person, ε = 3.

    python -m benchmarks.preconditioned --out benchmarks/preconditioned.json

Both play the same paths on records that are drawn from a public law (`sordino tune`'s), and compete with their best.
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
from sordino.runs.setup import load
from sordino.tune.stand_in import SYNTHETIC, stand_in

ROOT = Path(__file__).resolve().parent.parent
NETWORK = (
    "data.features=none",
    "model.name=mlp",
    "model.hidden=[64]",
    "budget.epsilon=3",
    "run.evaluate_every=30",
)
CONTENDERS = {"as it is": (), "preconditioned": ("model.precondition=true",)}
PATHS = (25, 50, 100, 200, 400)


def score(recipe: Recipe) -> float:
    """Returns the test accuracy of one run, in percent."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = sordino.run(recipe, out=Path(folder) / "run")
    assert outcome.accuracy is not None
    return 100 * outcome.accuracy


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("preconditioned.json"))
    chosen = parser.parse_args()
    told: dict[str, dict[str, object]] = {}
    found: dict[str, list[float]] = {}
    for name, settings in CONTENDERS.items():

        def recipe(path: float, seed: int, settings: tuple[str, ...] = settings) -> Recipe:
            played = [*NETWORK, *settings, f"server.path={path}", f"run.seed={seed}"]
            return Recipe.load(ROOT / "recipes" / "best" / "digits-eps-1.toml", played)

        with tempfile.TemporaryDirectory() as folder:
            drawn = [stand_in(recipe(path, 0), load(recipe(path, 0)), SYNTHETIC, Path(folder)) for path in PATHS]
            tried = {path: score(one) for path, one in zip(PATHS, drawn, strict=True)}
        best = max(tried, key=lambda path: tried[path])
        found[name] = [score(recipe(best, seed)) for seed in range(chosen.seeds)]
        told[name] = {"stand-in": tried, "path": best, "accuracy": found[name]}
        chosen.out.write_text(json.dumps(told, indent=2) + "\n")
        print(f"| {name} | {best} | {np.mean(found[name]):.2f} ± {np.std(found[name], ddof=1):.2f} |", flush=True)
    print(f"p = {stats.ttest_rel(*found.values()).pvalue:.2g}")


if __name__ == "__main__":
    main()
