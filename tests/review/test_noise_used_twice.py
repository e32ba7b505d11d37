"""A run that is killed and resumed otherwise must not use its noise for two different releases."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sordino
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError, RecipeError
from sordino.runs.folder import RunFolder

SETTINGS: dict[str, Any] = {
    "mechanism": {"name": "dp_fedavg", "noise_multiplier": 8.0},
    "budget": {"epsilon": 3.0},
    "run": {"rounds": 1},
    "partition": {"clients": 20},
    "train": {"steps": 1},
}


class Killed(BaseException):
    """Ends a process, as nothing in it expects."""


class Warm(nn.Module):
    """A model with a setting that neither its weights nor its printed structure show."""

    def __init__(self, heat: float) -> None:
        super().__init__()
        self.layer, self.heat = nn.Linear(64, 10), heat
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.heat * x.flatten(1))


def killed(monkeypatch: pytest.MonkeyPatch, **more: Any) -> Tensor:
    """Returns the model that a run showed before it was killed, just before it could write its checkpoint."""
    shown = []

    def kill(folder: RunFolder, checkpoint: Any, store: Any) -> None:
        shown.append(checkpoint.here.weights.clone())
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(RunFolder, "save", kill)
        sordino.run(progress=False, **SETTINGS, **more)
    return shown[0]


@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
def test_the_same_run_goes_on_and_another_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = killed(monkeypatch, out=tmp_path / "r", model=Warm(1.0))
    with pytest.raises(LedgerError, match="under the same noise"):
        sordino.run(out=tmp_path / "r", model=Warm(3.0), resume=True, progress=False)
    outcome = sordino.run(out=tmp_path / "r", model=Warm(1.0), resume=True, progress=False)
    assert torch.equal(outcome.weights, first)


@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
def test_less_noise_from_the_same_stream_would_show_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(monkeypatch, out=tmp_path / "r")
    file = tmp_path / "r" / "private" / "recipe.toml"
    text = file.read_text()
    file.write_text(text.replace("noise_multiplier = 8.0", "noise_multiplier = 4.0"))
    with pytest.raises(RecipeError, match="edited since the run began"):
        sordino.run(out=tmp_path / "r", resume=True, progress=False)
    # nor where the file's digest is edited, too: the ledger knows what was released
    facts = tmp_path / "r" / "private" / "run.json"
    lines = [line for line in facts.read_text().splitlines() if '"recipe"' not in line]
    facts.write_text("\n".join(lines).replace("},\n}", "}\n}"))
    with pytest.raises(LedgerError, match="under the same noise"):
        sordino.run(out=tmp_path / "r", resume=True, progress=False)


@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
def test_a_round_of_noise_that_remembers_is_not_shown_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**SETTINGS, "mechanism": {"name": "banded", "groups": 2, "noise_multiplier": 20.0}}
    settings["run"] = {"rounds": 3, "entropy": True}
    save = RunFolder.save

    def kill(folder: RunFolder, checkpoint: Any, store: Any) -> None:
        if checkpoint.here.round_ > 1:
            raise Killed
        save(folder, checkpoint, store)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", kill)
        for resume in (False, True, True, True):  # the last time nothing is left to play
            with nullcontext() if resume and played(tmp_path) == 3 else pytest.raises(Killed):
                sordino.run(out=tmp_path / "r", resume=resume, progress=False, **({} if resume else settings))
    with Ledger.open(tmp_path / "r" / "private" / "ledger.db") as ledger:
        assert [entry.round_ for entry in ledger.entries] == [1, 2, 3]


@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
def test_two_copies_of_a_folder_do_not_both_show_what_their_noise_remembers(tmp_path: Path) -> None:
    """On a ledger outside of the folder a copy that was played meanwhile passed for a second participation: rounds 4 to
    6 were released twice, and those of rounds 2 and 3, who are in both, paid for one."""
    books = tmp_path / "ledger.db"
    settings = {**SETTINGS, "mechanism": {"name": "banded", "groups": 3, "noise_multiplier": 20.0}}
    settings |= {"run": {"rounds": 6, "entropy": True}, "ledger": {"path": str(books)}}

    def copied(metrics: Mapping[str, Any]) -> None:
        if metrics["round"] == 3:
            shutil.copytree(tmp_path / "r", tmp_path / "copy")
            sordino.run(out=tmp_path / "copy", resume=True, progress=False)

    with pytest.raises(LedgerError, match="played from a copy of its folder"):
        sordino.run(out=tmp_path / "r", watcher=copied, progress=False, **settings)
    assert sordino.run(out=tmp_path / "r", resume=True, progress=False).certificate.releases == 6
    with Ledger.open(books, write=False) as ledger:
        assert [entry.round_ for entry in ledger.entries] == [1, 2, 3, 4, 5, 6]


def played(folder: Path) -> int:
    """Returns how many rounds a run's ledger holds."""
    with Ledger.open(folder / "r" / "private" / "ledger.db") as ledger:
        return len(ledger.entries)
