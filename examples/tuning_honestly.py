"""Tuning that costs nothing: settings are chosen on stand-in data, and the private data are trained on once.

python examples/tuning_honestly.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import sordino
from sordino.compare.playing import play
from sordino.runs.setup import load
from sordino.tune.grid import SettingsGrid, with_settings
from sordino.tune.search import candidates, scored
from sordino.tune.stand_in import stand_in

RECIPE = sordino.Recipe.load(
    None, ["mechanism.name=dp_sgd", "partition.clients=50", "run.rounds=10", "run.evaluate_every=10"]
)


def main(folder: Path) -> tuple[tuple[str, ...], sordino.Outcome]:
    """Returns the settings that did best on made-up data of the same shape, and the one private run with them.

    `sordino tune recipe.toml` does the same from the command line.
    """
    grid = SettingsGrid.parse(["server.learning_rate=0.1,4"])
    public = stand_in(RECIPE, load(RECIPE), "synthetic", folder)  # nobody's records, the declared shape and counts
    tried = candidates(public, grid, [0], folder / "trials")
    failed = {one.folder: why for one in tried if (why := play(one.recipe, one.folder)) is not None}
    best = scored(tried, failed)[0]
    return best.settings, sordino.run(with_settings(RECIPE, best.settings), out=folder / "run")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as aside:
        settings, outcome = main(Path(aside))
        print("chosen:", ", ".join(settings))
        print(outcome.scores.words() if outcome.scores else "", outcome.certificate, sep="\n")
