"""Clipping and summing in one go is clipping, then summing."""

import numpy as np
import pytest
import torch

from sordino import models
from sordino.bound.l2 import Clip, Presummed
from sordino.data.client_data import ClientData
from sordino.data.federation import Federation
from sordino.errors import SordinoError
from sordino.layout import Layout
from sordino.perturb.quantile import QuantileGaussian
from sordino.stages import UNCLIPPED, Update
from sordino.train.gradients import MARGIN
from sordino.train.local import LocalSteps, SummedSteps
from sordino.train.settings import LocalTraining
from sordino.train.trainer import Trainer


@pytest.mark.parametrize("settings", [LocalTraining(), LocalTraining(batch_size=3, epochs=2), LocalTraining("adam")])
def test_the_sum_and_the_clipped_are_the_same(settings, make_turn):
    rng = np.random.default_rng(0)
    federation = Federation.of(rng.normal(size=(60, 8)), rng.integers(0, 3, 60), clients=12, test=None)
    model = models.build("mlp", (8,), 3, hidden=(5,))
    layout = Layout.of(model)
    weights = layout.flatten({name: p.detach() for name, p in model.named_parameters()})
    trainer = Trainer(model, models.loss("auto", model, 3), settings)
    data = federation.gather(np.arange(12))
    norms = trainer.train(weights, data, make_turn().randomness, 1).rows.norm(dim=1)
    turn = make_turn(clip_norm=float(norms.quantile(0.5))).but(weights=weights, cohort=np.arange(12))

    apart = Clip().bound(LocalSteps().train(trainer, turn, data), turn)
    together = Presummed().bound(SummedSteps().train(trainer, turn, data), turn)
    assert 0 < apart.clipped.sum() < 12
    assert torch.equal(apart.clipped, together.clipped)
    assert torch.allclose(
        apart.rows.sum(0, dtype=torch.float64), together.rows[0], atol=12 * MARGIN * turn.knobs.clip_norm
    )
    assert together.weights.tolist() == [1.0] * 12


def test_a_sum_that_nobody_vouches_for_is_refused(make_turn):
    rows, clients = torch.ones(1, 3), np.arange(2)
    for more in ({}, {"client_clip": 2.0, "norms": torch.ones(2)}):
        with pytest.raises(SordinoError, match="clipped one by one"):
            Presummed().bound(Update(clients, rows, clients, **more), make_turn(clip_norm=1.0))
    norms = torch.tensor([float("nan"), 0.5])
    bounded = Presummed().bound(Update(clients, rows, clients, client_clip=1.0, norms=norms), make_turn(clip_norm=1.0))
    assert bounded.clipped.tolist() == [True, False]


def test_a_client_without_records_adds_nothing_to_the_count_either(make_turn):
    """Else its last record, clipped, would move (sum, count) by (norm, 1), where noise hides (norm, ½)."""
    rng = np.random.default_rng(0)
    federation = Federation.of(rng.normal(size=(6, 8)), rng.integers(0, 3, 6), clients=2, test=None)
    model = models.build("mlp", (8,), 3, hidden=(5,))
    layout = Layout.of(model)
    weights = layout.flatten({name: p.detach() for name, p in model.named_parameters()})
    trainer = Trainer(model, models.loss("auto", model, 3), LocalTraining())
    turn = make_turn(clip_norm=1e-3).but(weights=weights, cohort=np.arange(2))
    some = federation.gather(np.arange(1))
    none = ClientData(some.clients, np.zeros(2, np.int64), some.x[:0], some.y[:0])
    told = []
    for data in (some, none):
        bounded = Presummed().bound(SummedSteps().train(trainer, turn, data), turn)
        message = QuantileGaussian(2.0).shield(bounded, turn).message
        told.append(torch.cat([message.rows[0], message.side[UNCLIPPED][0]]).double())
    assert float((told[0] - told[1])[:-1].norm()) <= 1e-3
    assert abs(float(told[0][-1] - told[1][-1])) == 0.5 and not told[1].any()
