"""Sums of clipped updates and of clipped per-example gradients, against rows and micro-batches."""

import numpy as np
import pytest
import torch

from sordino.data.client_data import ClientData
from sordino.models.losses import cross_entropy
from sordino.random.streams import Streams
from sordino.train import LocalTraining, Trainer
from sordino.train.gradients import MARGIN
from train.cohorts import Gated, clients, cnn, cohort, gradient, mlp, weights

SIZES = [7, 23, 1, 20, 20, 9]
MODELS = {"mlp": (mlp, (6,)), "cnn": (cnn, (2, 9, 9)), "own module": (Gated, (6,))}


def clip(vectors, bound):
    vectors = vectors.double()
    return vectors * (bound * (1 - MARGIN) / vectors.norm(dim=-1, keepdim=True)).clamp(max=1)


def examples(model, w, x, y):
    return torch.stack([gradient(model, cross_entropy, w, x[j : j + 1], y[j : j + 1]) for j in range(len(x))])


@pytest.mark.parametrize(
    "settings", [{}, {"batch_size": 5, "steps": 1, "epochs": None}, {"batch_size": 5}, {"optimizer": "adam"}]
)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("times", [1, 20], ids=["few", "in groups"])
@pytest.mark.parametrize("narrow", [0, 2**17], ids=["wide", "narrow"])
def test_clipped_sum_is_the_sum_of_clipped_updates(name, settings, times, narrow, monkeypatch):
    monkeypatch.setattr("sordino.train.layered.NARROW", narrow)
    make, shape = MODELS[name]
    model, data = make(), cohort(SIZES * times, shape=shape)
    trainer = Trainer(model, cross_entropy, LocalTraining(learning_rate=0.3, **settings))
    rows = trainer.train(weights(model), data, Streams(0), 1).rows
    bound = float(rows.norm(dim=1).median())
    total, norms = trainer.clipped_sum(weights(model), data, bound, Streams(0), 1)
    torch.testing.assert_close(norms, rows.norm(dim=1), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(total, clip(rows, bound).sum(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_example_sums_against_micro_batches(name):
    make, shape = MODELS[name]
    model, data = make(), cohort([6, 11, 1], shape=shape)
    w = weights(model)
    each = [examples(model, w, x, y) for x, y in clients(data)]
    bound = float(torch.cat(each).norm(dim=1).median())
    expected = torch.stack([clip(e, bound).sum(0) for e in each])
    trainer = Trainer(model, cross_entropy, LocalTraining())
    rows, counts, _ = trainer.example_sum(w, data, bound, None, Streams(0), 1, per_client=True)
    torch.testing.assert_close(rows.double(), expected, rtol=1e-4, atol=1e-5)
    assert (counts == data.sizes).all()
    total, *_ = trainer.example_sum(w, data, bound, None, Streams(0), 1)
    torch.testing.assert_close(total, expected.sum(0), rtol=1e-4, atol=1e-5)


def test_poisson_sums_hold_exactly_the_drawn_records():
    model, data = mlp(), cohort(SIZES)
    w, rate = weights(model), 0.4
    rows, counts, _ = Trainer(model, cross_entropy, LocalTraining()).example_sum(
        w, data, 0.7, rate, Streams(3), 2, per_client=True
    )
    coins = Streams(3).uniforms("records", 2, data.clients, data.sizes)
    for row, count, kept, (x, y) in zip(
        rows, counts, np.split(coins < rate, data.offsets[1:-1]), clients(data), strict=True
    ):
        kept = torch.from_numpy(kept)
        expected = clip(examples(model, w, x[kept], y[kept]), 0.7).sum(0) if kept.any() else 0 * row.double()
        torch.testing.assert_close(row.double(), expected, rtol=1e-4, atol=1e-5)
        assert count == kept.sum()


@pytest.mark.parametrize("rate", [0.02, 0.4, 1.0])
def test_what_is_counted_beside_one_sum_over_all_is_what_each_client_counts(rate):
    model, data = mlp(), cohort([7, 23, 1, 20, 20, 9])
    trainer, draws = Trainer(model, cross_entropy, LocalTraining()), (rate, Streams(3), 2)
    rows, *counted = trainer.example_sum(weights(model), data, 0.7, *draws, per_client=True)
    total, *found = trainer.example_sum(weights(model), data, 0.7, *draws)
    torch.testing.assert_close(total, rows.double().sum(0), rtol=1e-5, atol=1e-6)
    assert all((one == other).all() for one, other in zip(found, counted, strict=True))
    assert rate < 0.1 or 0 < found[1].sum() < found[0].sum()


@pytest.mark.parametrize("chunk", [1, 2, None])
def test_chunks_change_only_the_last_digits(chunk):
    model, data = mlp(), cohort(SIZES)
    alone = Trainer(model, cross_entropy, LocalTraining(), chunk=6)
    parted = Trainer(model, cross_entropy, LocalTraining(), chunk=chunk)
    for way in ("clipped", "examples"):
        found, expected = (
            trainer.clipped_sum(weights(model), data, 0.1, Streams(0), 1)[0]
            if way == "clipped"
            else trainer.example_sum(weights(model), data, 0.1, 0.5, Streams(0), 1)[0]
            for trainer in (parted, alone)
        )
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_one_record_changes_the_sum_by_at_most_the_bound():
    model, before, after = mlp(), cohort([30]), cohort([30])
    after.x[29] *= 1e6
    trainer, bound = Trainer(model, cross_entropy, LocalTraining()), 0.05
    first, second = (
        trainer.example_sum(weights(model), data, bound, None, Streams(0), 1)[0] for data in (before, after)
    )
    assert 0 < (first - second).norm() <= 2 * bound * (1 + 1e-4)
    fewer = ClientData(before.clients, np.array([0, 29]), before.x[:29], before.y[:29])
    without, *_ = trainer.example_sum(weights(model), fewer, bound, None, Streams(0), 1)
    assert 0 < (first - without).norm() <= bound * (1 + 1e-4)
