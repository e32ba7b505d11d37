"""A run that is killed at any moment resumes, and ends with the same model, to the bit."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import sordino
from sordino.account.ledger.ledger import Ledger
from sordino.recipe import Recipe
from sordino.runs.folder import RunFolder

KILLS = 24
RECIPE = {
    "mechanism": {"name": "dp_fedavg_adaptive", "clip_norm": 0.1},
    "select": {"kind": "poisson", "rate": 0.2},
    "dropout": {"rate": 0.1},
    "run": {"rounds": 8},
}


def play(out):
    torch.set_num_threads(1)
    # a run that was killed before it began is begun, one that began is resumed
    sordino.run(Recipe.from_dict(RECIPE), out=out, resume=RunFolder(out).begun)
    os._exit(0)


def test_killed_at_random_moments_it_ends_bit_equal(tmp_path):
    whole = sordino.run(Recipe.from_dict(RECIPE), out=tmp_path / "whole")
    context, rng, kills, run = multiprocessing.get_context("fork"), np.random.default_rng(7), 0, 0
    while kills < KILLS:
        folder, done = tmp_path / f"run{run}", False
        run += 1
        while not done:
            child = context.Process(target=play, args=(folder,))
            child.start()
            time.sleep(rng.uniform(0.0, whole.seconds * 0.6))
            if child.is_alive() and kills < KILLS:
                os.kill(child.pid, signal.SIGKILL)
                kills += 1
            child.join()
            done = child.exitcode == 0
            assert done or child.exitcode == -signal.SIGKILL
        assert (
            load_file(folder / "public" / "model.safetensors").keys()
            == load_file(whole.folder / "public" / "model.safetensors").keys()
        )
        for name, tensor in load_file(whole.folder / "public" / "model.safetensors").items():
            assert torch.equal(load_file(folder / "public" / "model.safetensors")[name], tensor)
        assert len((folder / "private" / "metrics.jsonl").read_text().splitlines()) == 8
        with Ledger.open(folder / "private" / "ledger.db", write=False) as ledger:
            ledger.verify()
            assert [entry.round_ for entry in ledger.entries] == list(range(1, 9))
            assert all(entry.settled for entry in ledger.entries)
    assert kills == KILLS


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
