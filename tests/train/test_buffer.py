"""Data sets are lent to workers once: the same bits, never stale, and given back."""

import os

import numpy as np
import pytest
import torch

from sordino.data.client_data import Borrowed
from sordino.models.losses import cross_entropy
from sordino.random.streams import Streams
from sordino.train import LocalTraining, Trainer, buffer, worker_pool
from sordino.train.buffer import Library, SharedBuffer
from sordino.train.worker import Worker
from train.cohorts import mlp, weights

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="workers need memfd")


@pytest.fixture(scope="module", autouse=True)
def worker():
    with pytest.MonkeyPatch.context() as patch:
        workers = [Worker()]
        patch.setattr(worker_pool, "_all_workers", lambda: workers)
        yield
    workers[0].dismiss()


def _read(loan):
    return SharedBuffer(loan.descriptor).tensor(0, loan.shape, loan.dtype)


@pytest.mark.parametrize("batch", [4, None])
def test_lending_changes_no_bit(batch):
    generator, rng = torch.Generator().manual_seed(0), np.random.default_rng(0)
    x, y = torch.randn(60, 6, generator=generator), torch.randint(0, 4, (60,), generator=generator)
    records = rng.permutation(60)[:40]
    model, settings = mlp(), LocalTraining("sgd", 0.1, batch_size=batch)
    alone, together = (Trainer(model, cross_entropy, settings, engine) for engine in ("batched", "processes"))
    for round_ in range(4):  # copied rows in the first, lent tensors from the second on
        if round_ == 3:
            x.mul_(2.0)
        data = Borrowed(np.arange(4), np.arange(5) * 10, records, x, y)
        found = [trainer.train(weights(model), data, Streams(0), round_).rows for trainer in (alone, together)]
        assert torch.equal(*found)


def test_a_tensor_is_lent_from_the_second_time_on_and_copied_again_when_it_changed():
    library, tensor = Library(), torch.arange(5.0)
    assert library.lend(tensor) is None
    first = library.lend(tensor)
    assert first is not None and library.lend(tensor) == first
    assert torch.equal(_read(first), tensor)
    tensor[0] = 7
    second = library.lend(tensor)
    assert second.number != first.number
    assert torch.equal(_read(second), tensor)


def test_memory_is_given_back_with_the_original():
    library, tensor = Library(), torch.ones(3)
    library.lend(tensor)
    loan = library.lend(tensor)
    os.fstat(loan.descriptor)
    del tensor
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(loan.descriptor)


def test_what_is_too_large_is_never_lent(monkeypatch):
    monkeypatch.setattr(buffer, "_LENT_BYTES", 10)
    library, tensor = Library(), torch.ones(3)
    assert [library.lend(tensor) for _ in range(3)] == [None] * 3
