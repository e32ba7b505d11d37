"""Workers compute the same bits; whatever happens to them, the work gets done."""

import os
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from sordino.models.losses import cross_entropy
from sordino.random.streams import Streams
from sordino.train import LocalTraining, Trainer, worker_pool
from sordino.train.worker import Worker
from sordino.train.worker_pool import WorkerPool
from train.cohorts import cnn, cohort, mlp, weights

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="workers need memfd")


def double(x, factor):
    return x * factor, {"first": np.arange(3)}


def whoami():
    return os.getpid()


def slowly():
    time.sleep(0.01)
    return os.getpid()


def fail():
    raise ValueError("no")


@pytest.fixture(scope="module")
def worker():
    with pytest.MonkeyPatch.context() as patch:
        workers = [Worker()]
        patch.setattr(worker_pool, "_all_workers", lambda: workers)
        yield workers[0]
    workers[0].dismiss()


def test_results_come_in_order_from_both_sides(worker):
    jobs = [(torch.full((3, 1000), float(place)), 2.0) for place in range(5)]
    for (tensor, extra), (x, _) in zip(WorkerPool("always").each(double, jobs), jobs, strict=True):
        assert torch.equal(tensor, 2 * x) and (extra["first"] == np.arange(3)).all()
    assert len(set(WorkerPool("always").each(whoami, [()] * 4))) == 2
    assert set(WorkerPool("alone").each(whoami, [()] * 4)) == {os.getpid()}


def test_what_else_there_is_to_do_begins_once_the_worker_has_its_share(worker, monkeypatch):
    seen, ask = list[str](), Worker.ask
    monkeypatch.setattr(Worker, "ask", lambda self, *words: (seen.append("asked"), ask(self, *words)))
    trainer = Trainer(mlp(), cross_entropy, LocalTraining("sgd", 0.1, batch_size=4), "processes")
    alone = worker_pool._alone
    monkeypatch.setattr(worker_pool, "_alone", lambda *words: (seen.append("own share"), alone(*words))[1])
    with trainer.meanwhile(lambda: seen.append("meanwhile")):
        trainer.train(weights(mlp()), cohort([9, 9, 9, 9]), Streams(0), 1)
    trainer.train(weights(mlp()), cohort([9, 9, 9, 9]), Streams(0), 2)
    assert seen == ["asked", "meanwhile", "own share", "asked", "own share"]


def test_messages_grow_with_their_arrays(worker):
    for size in (10, 10**6, 10, 3 * 10**6):
        found = WorkerPool("always").each(double, [(torch.ones(size), 1.0)] * 2)
        assert all(float(tensor.sum()) == size for tensor, _ in found)


def test_what_cannot_travel_is_done_here(worker):
    here = WorkerPool("always")
    assert here.each(lambda x: x + 1, [(1,), (2,)]) == [2, 3]
    with pytest.raises(ValueError, match="no"):
        here.each(fail, [(), ()])
    with pytest.raises(pickle.PicklingError):
        raise pickle.PicklingError  # the worker is still there after another's failure
    assert len(set(here.each(whoami, [()] * 2))) == 2


@pytest.mark.parametrize("make, shape", [(mlp, (6,)), (cnn, (2, 9, 9))])
def test_company_changes_no_bit(worker, make, shape):
    model, data = make(), cohort([7, 23, 1, 20, 20, 9], shape=shape)
    settings = LocalTraining("adam", 0.01, batch_size=5, epochs=2)
    alone, together = (Trainer(model, cross_entropy, settings, engine) for engine in ("batched", "processes"))
    first, second = (trainer.train(weights(model), data, Streams(0), 1, trace=True) for trainer in (alone, together))
    assert torch.equal(first.rows, second.rows)
    assert torch.equal(first.trace.before, second.trace.before)
    assert all(torch.equal(value, second.trace.state[name]) for name, value in first.trace.state.items())
    sums = [trainer.example_sum(weights(model), data, 0.1, 0.5, Streams(0), 1)[0] for trainer in (alone, together)]
    assert torch.equal(*sums)
    rows = [
        trainer.private_steps(weights(model), data, 0.1, 1.0, 0.5, 2, Streams(0), 1).rows
        for trainer in (alone, together)
    ]
    assert torch.equal(*rows)


def test_a_killed_worker_costs_nothing_but_time():
    with pytest.MonkeyPatch.context() as patch:
        workers = [Worker()]
        patch.setattr(worker_pool, "_all_workers", lambda: workers)
        here = WorkerPool("always")
        assert len(set(here.each(whoami, [()] * 2))) == 2
        workers[0]._process.kill()
        workers[0]._process.wait()
        assert here.each(double, [(torch.ones(2), 3.0)] * 3)[0][0].tolist() == [3.0, 3.0]
        assert set(WorkerPool("always").each(whoami, [()] * 2)) == {os.getpid()}
        workers[0].dismiss()


def test_workers_are_called_only_when_it_pays(monkeypatch):
    monkeypatch.setattr(worker_pool, "_all_workers", lambda: pytest.fail("called too early"))
    for worked in (0.0, 100.0):
        monkeypatch.setattr(worker_pool._WORKED, "seconds", worked)
        WorkerPool("when it pays").each(double, [(torch.ones(2), 3.0)] * 3)


def test_workers_are_called_when_it_pays(worker, monkeypatch):
    monkeypatch.setattr(worker_pool._WORKED, "seconds", 100.0)
    here = WorkerPool("when it pays")
    assert worker.ready(patience=60)  # one that is still starting is not asked
    assert len(set(here.each(slowly, [()] * 2))) == 1
    assert len(set(here.each(slowly, [()] * 2))) == 2


def test_pytorch_is_left_one_core():
    # conftest has left it only one already, so that the count itself shows only in a fresh process
    code = "import torch; from sordino.train.worker_pool import cores; torch.set_num_threads(3); n = cores(); "
    code += "print(n == min(3, __import__('os').cpu_count()) and cores() == n and torch.get_num_threads() == 1)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "True"
