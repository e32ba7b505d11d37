"""The trainer against one client after the other with torch.optim; same bits, whatever the company."""

import numpy as np
import pytest
import torch
from torch import nn

from sordino.data.client_data import ClientData
from sordino.errors import ModelError
from sordino.layout import Layout
from sordino.models.losses import cross_entropy, mse
from sordino.random.streams import Streams
from sordino.train import LocalTraining, Trainer
from train.cohorts import Gated, clients, cnn, cohort, filled, gradient, mlp, weights

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.05),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.05),
}
SIZES = [7, 23, 1, 20, 20, 9]


def batches_of(client, size, settings, seed, round_):
    """Cuts the keyed orders of one client's epochs into batches, one step after the other."""
    batch = min(settings.batch_size or size, size)
    step, epoch = 0, 0
    while True:
        whole = batch == size
        order = np.arange(size) if whole else Streams(seed).orders("batches", round_, [client], np.array([size]), epoch)
        for start in range(0, size, batch):
            if step == settings.steps or (settings.epochs and epoch == settings.epochs):
                return
            yield order[start : start + batch]
            step += 1
        epoch += 1


def one_by_one(model, loss, settings, w0, data, seed=0, round_=1):
    """Returns every client's update and steps, by torch.optim."""
    rows = []
    for client, (x, y) in zip(data.clients, clients(data), strict=True):
        local = filled(model, w0)
        optimiser = OPTIMIZERS[settings.optimizer](local.parameters())
        for batch in batches_of(client, len(x), settings, seed, round_):
            optimiser.zero_grad()
            loss(local(x[batch]), y[batch]).mean().backward()
            optimiser.step()
        rows.append(weights(local) - w0)
    return torch.stack(rows)


@pytest.mark.parametrize("plan", [{"epochs": 2}, {"steps": 5, "epochs": None}], ids=["epochs", "steps"])
@pytest.mark.parametrize("batch_size", [None, 8])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_unequal_clients_against_torch(optimizer, batch_size, plan):
    settings = LocalTraining(optimizer, 0.05, batch_size=batch_size, **plan)
    model, data = mlp(), cohort(SIZES)
    update = Trainer(model, cross_entropy, settings).train(weights(model), data, Streams(0), 1)
    expected = one_by_one(model, cross_entropy, settings, weights(model), data)
    # where a gradient is next to 0, dividing it by its own size makes a step of its rounding, which depends on the CPU
    atol = 1e-4 if optimizer in ("adam", "rmsprop") else 1e-5
    torch.testing.assert_close(update.rows, expected, rtol=1e-4, atol=atol)
    assert (update.clients == data.clients).all() and (update.sizes == SIZES).all()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_regulariser_is_torchs_weight_decay(optimizer):
    settings = LocalTraining(optimizer, 0.05, batch_size=8, epochs=2, weight_decay=0.3)
    model, data = mlp(), cohort(SIZES)
    trainer = Trainer(model, cross_entropy, settings)
    update = trainer.train(weights(model), data, Streams(0), 1)
    rows = []
    for client, (x, y) in zip(data.clients, clients(data), strict=True):
        local = filled(model, weights(model))
        optimiser = OPTIMIZERS[optimizer](local.parameters())
        optimiser.param_groups[0]["weight_decay"] = 0.3
        for batch in batches_of(client, len(x), settings, 0, 1):
            optimiser.zero_grad()
            cross_entropy(local(x[batch]), y[batch]).mean().backward()
            optimiser.step()
        rows.append(weights(local) - weights(model))
    torch.testing.assert_close(update.rows, torch.stack(rows), rtol=1e-4, atol=1e-4)


def test_a_regulariser_counts_in_single_and_in_private_steps():
    """One step: without records that pull, w ← (1 − ηλ)·w, whichever way the step is taken."""
    model, data = mlp(), cohort([4, 4])
    w = weights(model)
    plain, decayed = (
        Trainer(model, cross_entropy, LocalTraining("sgd", 0.05, epochs=1, weight_decay=decay)) for decay in (0.0, 0.3)
    )
    expected = (-0.05 * 0.3 * w).expand(2, -1)
    one = decayed.train(w, data, Streams(0), 1).rows - plain.train(w, data, Streams(0), 1).rows
    torch.testing.assert_close(one, expected, rtol=1e-3, atol=1e-6)
    sums = [trainer.clipped_sum(w, data, 1e9, Streams(0), 1)[0] for trainer in (decayed, plain)]
    torch.testing.assert_close(sums[0] - sums[1], expected.sum(0).double(), rtol=1e-3, atol=1e-6)
    private = [t.private_steps(w, data, 1.0, 0.5, 0.5, 1, Streams(0), 1).rows for t in (decayed, plain)]
    torch.testing.assert_close(private[0] - private[1], expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("engine", ["layers", "vmap", "loop"])
def test_every_engine_trains_a_convolutional_network(engine):
    settings = LocalTraining("momentum", 0.05, batch_size=4, epochs=2)
    model, data = cnn(), cohort([9, 4, 6], shape=(2, 9, 9))
    update = Trainer(model, cross_entropy, settings, engine).train(weights(model), data, Streams(0), 1)
    expected = one_by_one(model, cross_entropy, settings, weights(model), data)
    torch.testing.assert_close(update.rows, expected, rtol=1e-4, atol=1e-5)


def test_own_modules_and_frozen_weights_train():
    model, data = Gated(), cohort([5, 8])
    model.b.weight.requires_grad_(False)
    settings = LocalTraining(learning_rate=0.05, batch_size=3)
    layout = Layout.of(model)
    w0 = layout.flatten({name: p.detach() for name, p in model.named_parameters() if p.requires_grad})
    update = Trainer(model, cross_entropy, settings).train(w0, data, Streams(0), 1)
    for row, client, (x, y) in zip(update.rows, data.clients, clients(data), strict=True):
        local = Gated()
        local.b.weight.requires_grad_(False)
        optimiser = torch.optim.SGD(local.parameters(), lr=0.05)
        for batch in batches_of(client, len(x), settings, 0, 1):
            optimiser.zero_grad()
            cross_entropy(local(x[batch]), y[batch]).mean().backward()
            optimiser.step()
        expected = layout.flatten({name: p.detach() for name, p in local.named_parameters() if p.requires_grad}) - w0
        torch.testing.assert_close(row, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_trace_holds_the_last_two_steps(optimizer):
    model, data, batch = mlp(), cohort(SIZES), 8
    w0 = weights(model)

    def train(epochs, steps=None, trace=False, only=None):
        settings = LocalTraining(optimizer, 0.05, batch_size=batch, epochs=epochs, steps=steps)
        return Trainer(model, cross_entropy, settings).train(w0, data if only is None else only, Streams(0), 1, trace)

    trace = train(2, trace=True).trace
    for place, (client, (x, y)) in enumerate(zip(data.clients, clients(data), strict=True)):
        alone = ClientData(np.array([client]), np.array([0, len(x)]), x, y)
        plan = list(batches_of(client, len(x), LocalTraining(batch_size=batch, epochs=2), 0, 1))
        before = w0 + train(None, len(plan) - 1, only=alone).rows[0]
        earlier = w0 + train(None, len(plan) - 2, only=alone).rows[0] if len(plan) > 2 else w0
        torch.testing.assert_close(trace.before[place], before, rtol=1e-4, atol=1e-5)
        for found, at, records in ((trace.last_gradient, before, plan[-1]), (trace.gradient, earlier, plan[-2])):
            expected = gradient(model, cross_entropy, at, x[records], y[records])
            torch.testing.assert_close(found[place], expected, rtol=1e-3, atol=1e-5)
    settings = LocalTraining(optimizer, 0.05, batch_size=batch, epochs=2)
    trainer = Trainer(model, cross_entropy, settings)
    delta, _ = trainer.optimizer.step(trace.state, trace.last_gradient)
    torch.testing.assert_close(trace.before + delta - w0, train(2).rows, rtol=1e-4, atol=1e-5)
    assert trace.steps == 6


def test_one_step_has_no_gradient_before_it():
    model, data = mlp(), cohort([5, 6])
    trace = Trainer(model, cross_entropy, LocalTraining()).train(weights(model), data, Streams(0), 1, True).trace
    assert not trace.gradient.any() and torch.equal(trace.before, weights(model).expand(2, -1))
    assert trace.last_gradient.any() and trace.steps == 1


def test_same_seed_same_bits_and_other_draws_differ():
    model, data = mlp(), cohort(SIZES)
    trainer = Trainer(model, cross_entropy, LocalTraining(batch_size=4))
    first = trainer.train(weights(model), data, Streams(0), 1).rows
    again = Trainer(model, cross_entropy, LocalTraining(batch_size=4)).train(weights(model), data, Streams(0), 1).rows
    assert torch.equal(first, again)
    assert not torch.equal(first, trainer.train(weights(model), data, Streams(1), 1).rows)
    assert not torch.equal(first, trainer.train(weights(model), data, Streams(0), 2).rows)


@pytest.mark.parametrize("chunk", [1, 2, 4, None])
def test_chunks_and_company_change_only_the_last_digits(chunk):
    model, data = mlp(), cohort(SIZES)
    settings = LocalTraining(batch_size=4, epochs=3)
    expected = Trainer(model, cross_entropy, settings, chunk=6).train(weights(model), data, Streams(0), 1).rows
    found = Trainer(model, cross_entropy, settings, chunk=chunk).train(weights(model), data, Streams(0), 1).rows
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    some = ClientData(data.clients[1:4], data.offsets[1:5] - 7, data.x[7:51], data.y[7:51])
    alone = Trainer(model, cross_entropy, settings).train(weights(model), some, Streams(0), 1).rows
    torch.testing.assert_close(alone, expected[1:4], rtol=1e-5, atol=1e-6)


def test_after_step_is_applied_after_every_step():
    model, data = mlp(), cohort(SIZES)

    def halfway(w, w0):
        return w0 + (w - w0) / 2

    settings = LocalTraining(learning_rate=0.2, steps=2, epochs=None)
    update = Trainer(model, cross_entropy, settings, after_step=halfway).train(weights(model), data, Streams(0), 1)
    for row, (x, y) in zip(update.rows, clients(data), strict=True):
        w = w0 = weights(model)
        for _ in range(2):
            w = halfway(w - 0.2 * gradient(model, cross_entropy, w, x, y), w0)
        torch.testing.assert_close(row, w - w0, rtol=1e-4, atol=1e-6)


def test_the_users_module_is_left_alone():
    model, data = mlp(), cohort([4, 5])
    before = weights(model)
    Trainer(model, cross_entropy, LocalTraining()).train(before + 1, data, Streams(0), 1)
    assert torch.equal(weights(model), before) and all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("engine", ["layers", "vmap", "loop"])
def test_evaluation(engine):
    model, data = mlp(), cohort([100])
    loss, accuracy = Trainer(model, cross_entropy, LocalTraining(), engine).evaluate(
        weights(model), data.x, data.y, batch=32
    )
    with torch.no_grad():
        outputs = model(data.x)
    assert loss == pytest.approx(float(cross_entropy(outputs, data.y).mean()), rel=1e-5)
    assert accuracy == int((outputs.argmax(1) == data.y).sum()) / 100


def test_regression_has_no_accuracy_and_one_score_decides_by_its_sign():
    model, data = nn.Sequential(nn.Linear(6, 1)), cohort([50], classes=2)
    trainer = Trainer(model, mse, LocalTraining())
    assert trainer.evaluate(weights(model), data.x, data.y.float())[1] is None

    def margin(outputs, targets):
        return (1 - outputs[:, 0] * (2 * targets - 1)).clamp_min(0)

    _, accuracy = Trainer(model, margin, LocalTraining()).evaluate(weights(model), data.x, data.y)
    assert accuracy == float(((model(data.x)[:, 0] > 0) == (data.y > 0)).double().mean())


def test_clear_error_for_wrong_weights():
    model = mlp()
    with pytest.raises(ModelError, match="one flat row"):
        Trainer(model, cross_entropy, LocalTraining()).train(weights(model)[1:], cohort([4]), Streams(0), 1)


@pytest.mark.parametrize("settings", [{"steps": 3, "epochs": None}, {"epochs": 2}, {"epochs": 1, "batch_size": 2}])
def test_a_client_without_records_adds_nothing_and_changes_nobody(settings):
    model, w0 = mlp(), weights(mlp())
    trainer = Trainer(model, cross_entropy, LocalTraining(**settings))
    with_it = trainer.train(w0, cohort([4, 0, 5]), Streams(0), 1).rows
    assert not with_it[1].any() and with_it[[0, 2]].any(1).all()
    data = cohort([4, 0, 5])
    without_it = trainer.train(w0, data.some(np.array([True, False, True])), Streams(0), 1).rows
    assert torch.equal(with_it[[0, 2]], without_it)
    sums, counts, clipped = trainer.example_sum(w0, data, 1.0, 0.5, Streams(0), 1, per_client=True)
    assert not sums[1].any() and counts[1] == clipped[1] == 0
    noised = trainer.private_steps(w0, data, 1.0, 1.0, 0.5, 2, Streams(0), 1, batch=2.0).rows
    assert torch.isfinite(noised).all() and noised[1].any(), "its steps are noise alone"
    total, norms = trainer.clipped_sum(w0, data, 1.0, Streams(0), 1)
    assert torch.isfinite(total).all() and norms[1] == 0


def test_an_empty_cohort_gives_nothing():
    model, nobody = mlp(), cohort([])
    trainer, w0 = Trainer(model, cross_entropy, LocalTraining()), weights(model)
    update = trainer.train(w0, nobody, Streams(0), 1, trace=True)
    assert update.rows.shape == update.trace.before.shape == (0, len(w0))
    total, norms = trainer.clipped_sum(w0, nobody, 1.0, Streams(0), 1)
    assert not total.any() and norms.shape == (0,)
    for per_client, shape in ((True, (0, len(w0))), (False, (len(w0),))):
        sums, counts, _ = trainer.example_sum(w0, nobody, 1.0, 0.5, Streams(0), 1, per_client)
        assert sums.shape == shape and not sums.any() and len(counts) == 0
    assert trainer.private_steps(w0, nobody, 1.0, 1.0, 0.5, 2, Streams(0), 1).rows.shape == (0, len(w0))
