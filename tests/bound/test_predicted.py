"""Predicted thresholds: Table II for all four optimisers, truncation around w_0, both allocations."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from sordino.bound.predicted import PredictedBox
from sordino.data.client_data import ClientData
from sordino.errors import SordinoError
from sordino.layout import Layout
from sordino.random.streams import Streams
from sordino.stages import Trace, Update
from sordino.train.settings import LocalTraining
from sordino.train.trainer import Trainer

OPTIMIZERS = {
    "sgd": lambda w: torch.optim.SGD(w, lr=0.05),
    "momentum": lambda w: torch.optim.SGD(w, lr=0.05, momentum=0.9),
    "adam": lambda w: torch.optim.Adam(w, lr=0.05, betas=(0.9, 0.999), eps=1e-7),
    "rmsprop": lambda w: torch.optim.RMSprop(w, lr=0.05, alpha=0.9, eps=1e-7),
}


def settings(name, steps):
    return LocalTraining(name, learning_rate=0.05, decay=0.9, damping=1e-7, steps=steps, epochs=None)


def squared(outputs, targets):
    return (outputs[:, 0] - targets).square() + outputs.square().square().sum(1) * 0.1


def cohort(clients=3, records=5, features=4):
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(clients * records, features, generator=generator)
    y = torch.randn(clients * records, generator=generator)
    return ClientData(np.arange(clients), np.arange(clients + 1) * records, x, y)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("steps", [2, 5])
def test_the_state_is_carried_one_step_forward_as_in_table_two(name, steps):
    torch.manual_seed(2)
    model, data = nn.Linear(4, 1), cohort()
    layout = Layout.of(model)
    w0 = layout.flatten({n: p.detach() for n, p in model.named_parameters()})
    update = Trainer(model, squared, settings(name, steps)).train(w0, data, Streams(0), 1, trace=True)
    predicted = PredictedBox(settings(name, steps)).predict(update.trace)
    for client in range(3):
        x, y = (t[data.offsets[client] : data.offsets[client + 1]] for t in (data.x, data.y))
        local = copy.deepcopy(model)
        optimiser = OPTIMIZERS[name](local.parameters())
        for _ in range(steps - 1):
            optimiser.zero_grad()
            squared(local(x), y).mean().backward()
            optimiser.step()
        optimiser.step()  # once more, with the gradient g_{K−1} of the step before
        expected = layout.flatten({n: p.detach() for n, p in local.named_parameters()})
        assert torch.allclose(predicted[client], expected, atol=1e-6)


def test_table_two_by_hand_for_momentum():
    # v_{K−1} = γv_{K−2} + ηg, Δ = γv_{K−1} + ηg; the state here is v without η, after step K−1
    g, v, w = 3.0, 2.0, 10.0
    trace = Trace(torch.tensor([[w]]), torch.tensor([[g]]), torch.tensor([[99.0]]), {"velocity": torch.tensor([[v]])})
    assert PredictedBox(settings("momentum", 2)).predict(trace).item() == pytest.approx(w - 0.05 * (0.9 * v + g))


def bounded(make_turn, rows, predicted, sizes=(1, 1), noise_multiplier=2.0, **options):
    start = torch.tensor([1.0, -2.0, 0.5, 0.0])
    trace = Trace(torch.tensor(predicted), torch.zeros(2, 4), torch.zeros(2, 4))
    turn = make_turn(noise_multiplier=noise_multiplier).but(weights=start)
    update = Update(np.arange(2), torch.tensor(rows), np.array(sizes), trace)
    return PredictedBox(settings("sgd", 2), **options).bound(update, turn)


PREDICTED = [[2.0, -1.0, 0.5, 0.0], [0.2, 0.4, 0.6, 0.8]]


def test_truncation_is_around_the_broadcast_model(make_turn):
    got = bounded(make_turn, [[5.0, -5.0, 0.1, 1.0], [0.0, 0.1, -9.0, 0.2]], PREDICTED, beta=1.0)
    # q = |ŵ|/2 around w_0, so the update u is cut to [−q, q]
    assert torch.allclose(got.rows, torch.tensor([[1.0, -0.5, 0.1, 0.0], [0.0, 0.1, -0.3, 0.2]]))
    assert got.clipped.tolist() == [True, True]


def test_clients_count_by_their_records(make_turn):
    got = bounded(make_turn, [[0.1, 0.1, 0.1, 0.0]] * 2, PREDICTED, sizes=(3, 7))
    assert got.weights.tolist() == [3, 7]
    assert torch.allclose(got.rows[1], torch.tensor([0.7, 0.7, 0.7, 0.0]))


@pytest.mark.parametrize("divisor", [1.0, 16.0])
def test_printed_noise_is_the_square_root_of_d_times_sigma_times_beta_w(make_turn, divisor):
    got = bounded(make_turn, [[0.0] * 4] * 2, PREDICTED, beta=1.1, sensitivity_divisor=divisor)
    expected = 4**0.5 * 2.0 * 1.1 * torch.tensor(PREDICTED).abs() / divisor
    assert torch.allclose(got.spread, expected)


def test_the_root_of_d_can_be_left_out(make_turn):
    with_it, without = (
        bounded(make_turn, [[0.0] * 4] * 2, PREDICTED, beta=1.1, root_dimension=root).spread for root in (True, False)
    )
    assert torch.allclose(with_it, 2.0 * without) and (without > 0).any()


@pytest.mark.parametrize("allocation", ["equal", "least_energy"])
def test_both_allocations_spend_the_same_and_the_second_adds_the_least_noise(make_turn, allocation):
    got = bounded(make_turn, [[0.0] * 4] * 2, [[2.0, 1.0, 0.5, 0.1]] * 2, beta=1.0, allocation=allocation)
    delta = torch.tensor([2.0, 1.0, 0.5, 0.1])
    assert ((delta / got.spread[0]) ** 2).sum() == pytest.approx(1 / 2.0**2, rel=1e-5)
    energy = float((got.spread[0] ** 2).sum())
    assert energy == pytest.approx(
        2.0**2 * float(delta.sum() ** 2 if allocation == "least_energy" else 4 * (delta**2).sum())
    )
    rng = np.random.default_rng(0)
    for _ in range(200):  # no other split of the same budget has less energy than the least one
        split = rng.dirichlet(np.ones(4)) / 2.0**2
        assert (delta.numpy() ** 2 / split).sum() >= 2.0**2 * float(delta.sum()) ** 2 * (1 - 1e-6)


def test_box_plots_come_from_the_notes(make_turn):
    got = bounded(make_turn, [[5.0, -5.0, 0.1, 1.0], [0.0, 0.1, -9.0, 0.2]], PREDICTED, beta=1.0)
    original = np.percentile([6.0, -7.0, 0.6, 1.0], [0, 25, 50, 75, 100])
    truncated = np.percentile([2.0, -2.5, 0.6, 0.0], [0, 25, 50, 75, 100])
    assert np.allclose(got.notes["original"][0], original, atol=1e-6)
    assert np.allclose(got.notes["truncated"][0], truncated, atol=1e-6)


def test_without_a_trace_it_refuses(make_turn):
    update = Update(np.arange(1), torch.zeros(1, 4), np.ones(1, np.int64))
    with pytest.raises(SordinoError, match="trace"):
        PredictedBox(settings("sgd", 2)).bound(update, make_turn(noise_multiplier=1.0))
