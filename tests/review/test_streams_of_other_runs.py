"""Two different runs never draw the same noise, also on fresh ledgers; the same run does, wherever its files lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

import sordino
from sordino.data.federation import Federation
from sordino.recipe import Recipe
from sordino.runs.folder import RunFolder
from sordino.runs.setup import assemble
from sordino.tune.charged import charged
from sordino.tune.grid import SettingsGrid

pytestmark = pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
SETTINGS: dict[str, Any] = {
    "mechanism": {"name": "dp_fedavg", "noise_multiplier": 8.0},
    "budget": {"epsilon": 3.0},
    "run": {"rounds": 1},
    "train": {"steps": 1},
}


class Warm(nn.Module):
    """A model with a setting that neither its weights nor its printed structure show."""

    def __init__(self, heat: float = 1.0, start: float = 0.0) -> None:
        super().__init__()
        self.layer, self.heat = nn.Linear(4, 2), heat
        for parameter in self.parameters():
            nn.init.constant_(parameter, start)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.heat * x.flatten(1))


def people(holders: int = 0, public: int = 0) -> Federation:
    draws = np.random.default_rng(0)
    x, y = draws.standard_normal((40, 4)), np.arange(40) % 2
    held = np.roll(np.arange(40) % 10, holders)
    federation = Federation.of(x, y, clients=held, test=(x[:4] + public, y[:4]))
    assert isinstance(federation, Federation)
    return federation


def stream(out: Path, **more: Any) -> str:
    sordino.run(out=out, progress=False, **{**SETTINGS, **more})
    return str(RunFolder(out).facts()["stream"])


OTHERS: dict[str, dict[str, Any]] = {
    "a setting of the model": {"model": Warm(heat=3.0)},
    "the model's start": {"model": Warm(start=0.1)},
    "who holds what": {"federation": people(holders=1)},
    "the test records": {"federation": people(public=1)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_the_recipe_does_not_tell_names_the_noise_too(what: str, tmp_path: Path) -> None:
    public = {"population": 10, "records": 40, "classes": 2}
    own = {"model": Warm(), "federation": people(), "public": public}
    first = stream(tmp_path / "a", **own)
    assert stream(tmp_path / "b", **own) == first  # it repeats to the bit
    assert stream(tmp_path / "c", **{**own, **OTHERS[what]}) != first


def test_an_own_mechanism_names_the_noise(tmp_path: Path) -> None:
    made = assemble(Recipe.begin(SETTINGS)).mechanism
    first = stream(tmp_path / "a", mechanism=made)
    assert stream(tmp_path / "b", mechanism=made) == first
    assert stream(tmp_path / "c", mechanism=replace(made, server_learning_rate=0.5)) != first


def test_where_files_lie_changes_no_draw(tmp_path: Path) -> None:
    draws = np.random.default_rng(1)
    x, y = draws.standard_normal((60, 4)).astype(np.float32), np.arange(60) % 2
    found = []
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        file = tmp_path / place / "records.npz"
        np.savez(file, x=x, y=y, test_x=x[:5], test_y=y[:5])
        data = {"name": "npz", "file": str(file)}
        more: dict[str, Any] = {"public": {"population": 10, "records": 60, "classes": 2}}
        more |= {"data": data, "partition": {"clients": 10}, "ledger": {"path": str(tmp_path / place / "ledger.db")}}
        found.append(stream(tmp_path / place / "run", **more))
    assert found[0] == found[1]


def test_a_second_search_on_the_ledger_has_trials_of_its_own(tmp_path: Path) -> None:
    told = ["partition.clients=24", "run.rounds=2", "budget.epsilon=4", "data.public_fraction=0.2", "train.steps=1"]
    told += ["mechanism.name=dp_fedavg", "mechanism.noise_multiplier=9", f"ledger.path={tmp_path / 'ledger.db'}"]
    recipe, found = Recipe.load(None, [*told, "budget.epsilon=none"]), []
    grid = SettingsGrid.parse(["server.learning_rate=2"])
    for name in ("a", "b"):
        charged(recipe, grid, 3, tmp_path / name, lambda done, of: None)
        trials = sorted((tmp_path / name / "private" / "trials").iterdir())
        found.append({RunFolder(one).facts()["stream"] for one in trials})
    assert not found[0] & found[1]
