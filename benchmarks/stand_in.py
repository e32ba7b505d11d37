"""Whether settings that are best on drawn stand-in data are good on the data: a grid on both, one seed each.

    python -m benchmarks.stand_in                    # digits, features of digits, MNIST, Adult
    python -m benchmarks.stand_in --only mnist

For each task: the score of every setting on drawn records and on test records, and what the choice costs in points.
This looks at test records, which `sordino tune` never does; nothing is chosen by it.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import sordino
from sordino.errors import SordinoWarning
from sordino.recipe import Recipe
from sordino.runs.setup import load, settle
from sordino.tune.grid import DEFAULT, SettingsGrid, with_settings
from sordino.tune.stand_in import SYNTHETIC, stand_in

_CLIENTS = ("mechanism.name=dp_fedavg",)
_PEOPLE = (*_CLIENTS, "partition.clients=1000", "budget.epsilon=2")
TASKS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "digits": ((*_CLIENTS, "run.rounds=40", "budget.epsilon=1"), DEFAULT),
    "features": (
        ("mechanism.name=dp_sgd", "mechanism.trust=central", "data.features=scattering", "budget.epsilon=1"),
        ("server.path=217.25,434.5,869,1738,3476",),
    ),
    "mnist": (
        (*_PEOPLE, "data.name=mnist", "run.rounds=15", "train.learning_rate=0.1"),
        ("mechanism.clip_norm=0.3,1", "server.learning_rate=0.3,1,3"),
    ),
    "adult": ((*_PEOPLE, "data.name=adult", "run.rounds=20"), DEFAULT),
}
"""Settings of each task, under central trust for speed, and the grid."""


def score(recipe: Recipe) -> float:
    """Returns the test accuracy of one run, in percent."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", SordinoWarning)
        outcome = sordino.run(recipe, out=Path(folder) / "run", progress=False, idle_settings="warn")
    assert outcome.accuracy is not None
    return 100 * outcome.accuracy


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="how the names of the tasks begin")
    chosen = parser.parse_args()
    for name in (name for name in TASKS if name.startswith(chosen.only)):
        settings, grid = TASKS[name]
        recipe = settle(Recipe.begin(settings=settings)).recipe
        recipe = recipe.but(run={"evaluate_every": recipe.run.rounds})
        with tempfile.TemporaryDirectory() as folder:
            drawn = stand_in(recipe, load(recipe), SYNTHETIC, Path(folder))
            rows = [
                (score(with_settings(drawn, point)), score(with_settings(recipe, point)), ", ".join(point))
                for point in SettingsGrid.parse(grid).points()
            ]
        for on_drawn, on_test, point in rows:
            print(f"| {name} | {point} | {on_drawn:.1f} | {on_test:.2f} |", flush=True)
        best = max(rows, key=lambda row: row[0])
        lost = max(row[1] for row in rows) - best[1]
        print(f"{name}: chosen {best[2]}: {best[1]:.2f} %, {lost:.2f} points below the best", flush=True)


if __name__ == "__main__":
    main()
