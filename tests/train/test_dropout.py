"""Keyed dropout: fresh in every step, the same however a cohort is cut, off in evaluation, and right on average."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sordino.data.federation import Federation
from sordino.errors import ModelError
from sordino.layout import Layout
from sordino.models.checks import check
from sordino.models.losses import loss
from sordino.random.streams import Streams
from sordino.train.dropout import KeyedDropout, dropping, mark
from sordino.train.settings import LocalTraining
from sordino.train.trainer import Trainer

MODEL = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))


def data(clients: int = 4):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(10 * clients, 6, generator=generator)
    y = (x[:, 0] > 0).long()
    return Federation.of(x, y, np.repeat(np.arange(clients), 10), test=(x, y)).gather(np.arange(clients))


def trainer(chunk: int | None = None) -> Trainer:
    settings = LocalTraining(learning_rate=0.1, batch_size=5, steps=4, epochs=None)
    return Trainer(MODEL, loss("auto", MODEL, 2), settings, "batched", chunk)


def start() -> torch.Tensor:
    return Layout.of(MODEL).flatten({name: p.detach() for name, p in MODEL.named_parameters()}).clone()


def test_runs_repeat_whatever_the_chunks_and_the_global_generator() -> None:
    check(MODEL, (6,))
    torch.manual_seed(1)
    first = trainer().train(start(), data(), Streams(0), 1).rows
    torch.manual_seed(2)
    assert torch.equal(first, trainer().train(start(), data(), Streams(0), 1).rows)
    alone = trainer(chunk=1).train(start(), data(), Streams(0), 1).rows
    assert torch.allclose(first, alone, atol=1e-6)  # other units would move weights by a hundredth
    for other in (trainer().train(start(), data(), Streams(0), 2), trainer().train(start(), data(), Streams(1), 1)):
        assert not torch.allclose(first, other.rows)


def test_units_are_dropped_in_steps_alone() -> None:
    layer, x = KeyedDropout("d", 0.25), torch.ones(400, 50)
    x[:, 0] = torch.arange(400.0)  # or they were one record
    assert torch.equal(layer(x), x)
    with dropping(Streams(0), 1, 0):
        mark([layer], x)
        found, again = layer(x)[:, 1:], layer(x)[:, 1:]
    with dropping(Streams(0), 1, 1):
        later = layer(x)[:, 1:]
    assert torch.equal(found, again) and not torch.equal(found, later)
    assert found.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert abs(float((found == 0).float().mean()) - 0.25) < 5 * (0.25 * 0.75 / found.numel()) ** 0.5
    assert not torch.equal(found[0], found[1])


def test_an_example_keeps_its_units_whoever_is_beside_it() -> None:
    layer, x = KeyedDropout("d", 0.5), torch.randn(5, 30, generator=torch.Generator().manual_seed(3))
    with dropping(Streams(0), 1, 0):
        mark([layer], x)
        together = layer(x)
        mark([layer], x[2:3])
        assert torch.equal(layer(x[2:3])[0], together[2])
        with pytest.raises(ModelError, match="first dimension counts records"):
            layer(x)


def test_clipped_sums_hold_their_bound_with_dropout() -> None:
    sums, taken, _ = trainer().example_sum(start(), data(), 0.01, None, Streams(0), 1, per_client=True)
    assert float(sums.norm(dim=1).max()) <= 0.01 * taken.max()
    without = trainer().example_sum(start(), data(), 0.01, None, Streams(5), 1, per_client=True)[0]
    assert not torch.allclose(sums, without)


def test_evaluation_drops_nothing() -> None:
    x, y = data().x, data().y
    with torch.no_grad():
        right = float((MODEL.eval()(x).argmax(1) == y).float().mean())
    assert trainer().evaluate(start(), x, y)[1] == pytest.approx(right)
