"""Rounds after the last checkpoint are played again to the bit, and cost nothing twice."""

import subprocess
import sys

import numpy as np
import pytest
from tests.runs.test_folder import recipe

import sordino
from sordino.account.ledger.ledger import Ledger
from sordino.recipe import Recipe
from sordino.runs.client_store import ClientStore
from sordino.runs.folder import RunFolder


@pytest.fixture(autouse=True)
def _nothing_is_saved_between(monkeypatch):
    monkeypatch.setattr("sordino.runs.loop._SAVED", 1e9)


KILLED = """
import os, sys
import sordino.runs.loop
from sordino.recipe import Recipe

sordino.runs.loop._SAVED = 1e9
stop = lambda metrics: metrics["round"] == int(sys.argv[3]) and os._exit(9)
sordino.run(Recipe.load(sys.argv[1]), out=sys.argv[2], watcher=stop)
"""


def killed_in(path, round_, **sections):
    """A run whose process is gone, as by `kill -9`, after this round; nothing was saved before."""
    file = path.with_suffix(".toml")
    file.write_text(recipe(**sections).to_toml())
    child = subprocess.run([sys.executable, "-W", "ignore", "-c", KILLED, file, path, str(round_)], check=False)
    assert child.returncode == 9
    return RunFolder(path)


def test_whoever_interrupts_a_run_finds_its_last_whole_round(tmp_path):
    def stop(metrics):
        if metrics["round"] == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sordino.run(recipe(), out=tmp_path / "run", watcher=stop)
    assert RunFolder(tmp_path / "run").load(ClientStore()).here.round_ == 3


@pytest.mark.parametrize("mechanism", ["dp_fedavg", "dp_fedavg_adaptive"])
@pytest.mark.parametrize("every", [1, 3])
def test_what_is_told_of_a_release_is_told_after_its_settlement_is_written(tmp_path, every, mechanism):
    """Scores, and knobs that follow from a release: if it is played again and comes out otherwise, that is found."""
    written = []

    def look(metrics):
        with Ledger.open(RunFolder(tmp_path / "run").ledger, write=False) as ledger:
            written.append(ledger.entries[-1].settled)

    run = {"rounds": 5, "evaluate_every": every}
    sordino.run(recipe(run=run, mechanism={"name": mechanism}), out=tmp_path / "run", watcher=look)
    tells = [every == 1 or mechanism == "dp_fedavg_adaptive" or round_ in (3, 5) for round_ in range(1, 6)]
    assert written == tells
    with Ledger.open(RunFolder(tmp_path / "run").ledger, write=False) as ledger:
        assert all(entry.settled for entry in ledger.entries)


def test_a_killed_run_ends_with_the_same_bits_and_the_same_cost(tmp_path):
    folder = killed_in(tmp_path / "run", 4)
    assert folder.load(ClientStore()) is None  # four rounds are on the books, and none in a checkpoint
    again = sordino.run(recipe(), out=folder.path, resume=True)
    whole = sordino.run(recipe(), out=tmp_path / "whole")
    assert np.array_equal(again.weights.numpy(), whole.weights.numpy())
    assert [p.numbers for p in again.document.promises] == [p.numbers for p in whole.document.promises]


def test_another_run_meanwhile_neither_changes_what_is_played_again_nor_is_its_cost_forgotten(tmp_path):
    shared = {
        "ledger": {"path": str(tmp_path / "books.db")},
        "select": {"kind": "fixed", "size": 40},
        "mechanism": {"name": "dp_fedavg", "noise_multiplier": 3.0},
        "budget": {"epsilon": 3.0},
        "dropout": {"rate": 0.0},
    }
    folder = killed_in(tmp_path / "one", 4, **shared)
    sordino.run(recipe(**shared, run={"rounds": 2, "seed": 918273645}), out=tmp_path / "two")
    resumed = sordino.run(recipe(**shared), out=folder.path, resume=True)
    assert (resumed.stopped, resumed.rounds) == ("budget", 4)  # six rounds are paid for: four of this run's, two others
    with Ledger.open(tmp_path / "books.db", write=False) as ledger:
        told = [(entry.run == folder.facts()["run"], entry.round_, bool(entry.charges)) for entry in ledger.entries]
        assert told == [
            *((True, round_, True) for round_ in (1, 2, 3, 4)),
            (False, 1, True),
            (False, 2, True),
            (True, 5, False),  # that it ended there, for the certificates of later runs
        ]


def test_a_first_round_that_diverges_is_written_down_whatever_the_knobs(tmp_path):
    settings = (
        "mechanism.name=component_adaptive",
        "server.learning_rate=1e35",
        "run.rounds=2",
        "partition.clients=20",
    )
    outcome = sordino.run(Recipe.load(None, settings), out=tmp_path / "r", progress=False)
    assert outcome.stopped == "diverged" and outcome.rounds == 1
