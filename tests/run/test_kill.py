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

KILLS = 24
RECIPE = {
    "mechanism": {"name": "dp_fedavg_adaptive", "clip_norm": 0.1},
    "select": {"kind": "poisson", "rate": 0.2},
    "dropout": {"rate": 0.1},
    "run": {"rounds": 8},
}


def play(out):
    torch.set_num_threads(1)
    sordino.run(sordino.recipe_of(RECIPE), out=out, resume=True)
    os._exit(0)


def test_killed_at_random_moments_it_ends_bit_equal(tmp_path):
    whole = sordino.run(sordino.recipe_of(RECIPE), out=tmp_path / "whole")
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
        assert load_file(folder / "model.safetensors").keys() == load_file(whole.folder / "model.safetensors").keys()
        for name, tensor in load_file(whole.folder / "model.safetensors").items():
            assert torch.equal(load_file(folder / "model.safetensors")[name], tensor)
        assert len((folder / "metrics.jsonl").read_text().splitlines()) == 8
        with Ledger.open(folder / "ledger.db", write=False) as ledger:
            ledger.verify()
            assert [entry.round_ for entry in ledger.entries] == list(range(1, 9))
            assert all(entry.settled for entry in ledger.entries)
    assert kills == KILLS


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
