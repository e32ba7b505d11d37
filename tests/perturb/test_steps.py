"""Local DP-SGD as a release: noise where it is charged, counts that are noised and charged, and nothing vouched for."""

import numpy as np
import pytest
import torch
from torch import nn

from oracles import assert_normal
from played import summed_of
from sordino.aggregate.plain import PlainSum
from sordino.bound.vouched import AsTrained, NoisedSteps
from sordino.data.client_data import ClientData
from sordino.data.federation import Federation
from sordino.errors import SordinoError
from sordino.events import ComposedDpEvent, GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, Unbounded
from sordino.models.losses import cross_entropy
from sordino.perturb.steps import AnswerCount, StepNoise
from sordino.stages import Update
from sordino.terms import Knobs
from sordino.train.noisy import PrivateSteps, right_answers
from sordino.train.settings import LocalTraining
from sordino.train.trainer import Trainer

CLIENTS, EACH, INPUTS = 6, 20, 400
KNOBS = {"clip_norm": 0.5, "noise_multiplier": 3.0}


@pytest.fixture(scope="module")
def trainer():
    return Trainer(nn.Linear(INPUTS, 3, bias=False), cross_entropy, LocalTraining(learning_rate=0.2, batch_size=5))


def people(x=None):
    x = torch.zeros(CLIENTS * EACH, INPUTS) if x is None else x
    y = torch.arange(CLIENTS * EACH) % 3
    return Federation.of(x, y, np.repeat(np.arange(CLIENTS), EACH), test=None).gather(np.arange(CLIENTS))


def sent(make_turn, trainer, part, round_=1, data=None, seed=0):
    turn = make_turn(round_, width=3 * INPUTS, cohort=CLIENTS, seed=seed, **KNOBS)
    update = part.train(trainer, turn, people() if data is None else data)
    bounder = NoisedSteps() if part.order == "clip_then_noise" else AsTrained()
    return bounder.bound(update, turn), turn


def test_what_leaves_a_client_carries_the_noise_of_every_step(make_turn, trainer):
    """Zero inputs have zero gradients, so the message is noise alone: √steps · η·z·C/B on each coordinate."""
    bounded, turn = sent(make_turn, trainer, PrivateSteps(0.25, 4, 5.0))
    part = StepNoise(0.25, 4, 0.2 / 5.0)
    message = part.shield(bounded, turn).message
    stddev = np.sqrt(4) * 0.2 * 3.0 * 0.5 / 5.0
    assert_normal(message.rows.numpy(), stddev)
    assert np.abs(np.corrcoef(message.rows.numpy()) - np.eye(CLIENTS)).max() < 0.15
    released = part.release(summed_of(part, PlainSum(None), turn, bounded), turn)
    assert released.stddev == pytest.approx(stddev / np.sqrt(CLIENTS))
    assert_normal(released.mean.numpy(), released.stddev)


def test_steps_and_rounds_draw_fresh_noise(make_turn, trainer):
    one, _ = sent(make_turn, trainer, PrivateSteps(0.25, 1, 5.0))
    two, _ = sent(make_turn, trainer, PrivateSteps(0.25, 2, 5.0))
    later, _ = sent(make_turn, trainer, PrivateSteps(0.25, 1, 5.0), round_=2)
    for other in (two.rows - one.rows, later.rows):
        both = np.stack([one.rows.numpy().ravel(), other.numpy().ravel()])
        assert abs(np.corrcoef(both)[0, 1]) < 0.1
    again, _ = sent(make_turn, trainer, PrivateSteps(0.25, 1, 5.0))
    assert torch.equal(again.rows, one.rows)


def test_one_record_moves_a_noiseless_step_by_at_most_the_clip_norm(make_turn, trainer):
    x = torch.randn(CLIENTS * EACH, INPUTS, generator=torch.Generator().manual_seed(1)) * 100
    turn = make_turn(1, width=3 * INPUTS, cohort=CLIENTS, clip_norm=0.5, noise_multiplier=1e-9)
    data = people(x)
    zeroed = torch.cat([torch.zeros_like(x[:1]), x[1:]])  # a zero record has no gradient
    without = ClientData(data.clients, data.offsets, zeroed, data.y)
    part = PrivateSteps(1.0, 1, 5.0)
    gap = part.train(trainer, turn, data).rows - part.train(trainer, turn, without).rows
    assert gap[0].norm() * 5.0 / 0.2 == pytest.approx(0.5, rel=1e-3)
    assert gap[1:].abs().max() == 0


def test_the_printed_order_bounds_the_message_and_not_the_record(make_turn, trainer):
    x = torch.randn(CLIENTS * EACH, INPUTS, generator=torch.Generator().manual_seed(1)) * 1000
    bounded, turn = sent(make_turn, trainer, PrivateSteps(None, 1, None, "noise_then_clip"), data=people(x))
    assert (bounded.rows.norm(dim=1) <= 0.2 * 0.5 * (1 + 1e-5)).all()
    calm = turn.but(knobs=turn.knobs.but(noise_multiplier=1e-12))
    exact = PrivateSteps(None, 1, None, "noise_then_clip").train(trainer, calm, people(x)).rows
    # the gradient drowns the noise: what leaves the client is the private direction itself
    assert torch.nn.functional.cosine_similarity(exact, bounded.rows).min() > 0.99


def test_updates_that_nobody_vouches_for_are_refused(make_turn, trainer):
    turn = make_turn(1, width=3 * INPUTS, cohort=CLIENTS, **KNOBS)
    printed = PrivateSteps(None, 1, None, "noise_then_clip").train(trainer, turn, people())
    for update in (
        printed,
        Update(np.arange(2), torch.zeros(2, 3), np.ones(2, np.int64)),
        Update(np.arange(2), torch.zeros(2, 3), np.ones(2, np.int64), example_clip=0.5),
        Update(np.arange(2), torch.zeros(2, 3), np.ones(2, np.int64), example_clip=0.6, noise_multiplier=3.0),
        Update(np.arange(2), torch.zeros(2, 3), np.ones(2, np.int64), example_clip=0.5, noise_multiplier=2.9),
    ):
        with pytest.raises(SordinoError):
            NoisedSteps().bound(update, turn)


@pytest.mark.parametrize("bounder", [NoisedSteps(), AsTrained()])
def test_rows_that_are_not_finite_become_zero_and_everybody_counts_one(bounder, make_turn):
    rows = torch.tensor([[1.0, 2.0], [float("nan"), 1.0], [float("inf"), 1.0]])
    update = Update(np.arange(3), rows, np.array([5, 1, 9]), example_clip=0.5, noise_multiplier=3.0)
    bounded = bounder.bound(update, make_turn(**KNOBS))
    assert torch.equal(bounded.rows, torch.tensor([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]))
    assert bounded.clipped.tolist() == [False, True, True] and bounded.weights.tolist() == [1, 1, 1]


def test_counts_are_of_the_clients_own_records_under_the_broadcast_model(trainer):
    x = torch.randn(CLIENTS * EACH, INPUTS, generator=torch.Generator().manual_seed(2))
    data, weights = people(x), torch.randn(3 * INPUTS, generator=torch.Generator().manual_seed(3))
    right = ((x @ weights.view(3, INPUTS).T).argmax(1) == torch.arange(CLIENTS * EACH) % 3).view(CLIENTS, EACH)
    assert right_answers(trainer, weights, data)[:, 0].tolist() == right.sum(1).tolist()


def test_counts_leave_with_the_noise_that_is_charged_and_only_when_due(make_turn, trainer):
    part = PrivateSteps(0.25, 1, 5.0, count_every=3)
    noise = StepNoise(0.25, 1, 0.04, AnswerCount(7.0, 3, EACH))
    errors = []
    for seed in range(150):
        bounded, turn = sent(make_turn, trainer, part, 3, seed=seed)
        errors.append((noise.shield(bounded, turn).message.side["right"] - bounded.side["right"]).numpy())
    assert_normal(np.concatenate(errors), 7.0)
    later, turn = sent(make_turn, trainer, part, 6, seed=149)
    again = (noise.shield(later, turn).message.side["right"] - later.side["right"]).numpy()
    assert np.abs(again - errors[-1]).min() > 1e-3 and len(np.unique(errors[-1])) == CLIENTS
    quiet, turn = sent(make_turn, trainer, part, 4)
    assert not quiet.side and not noise.shield(quiet, turn).message.side


def test_the_released_share_is_the_noisy_count_over_the_survivors_records(make_turn, trainer):
    part, noise = PrivateSteps(0.25, 1, 5.0, count_every=1), StepNoise(0.25, 1, 0.04, AnswerCount(1e-9, 1, EACH))
    bounded, turn = sent(make_turn, trainer, part)
    total = summed_of(noise, PlainSum(None), turn, bounded)
    assert float(noise.release(total, turn).side["right"]) == pytest.approx(
        float(bounded.side["right"].sum()) / (CLIENTS * EACH)
    )


def test_prices_compose_the_steps_and_the_count_when_it_is_due():
    steps = SelfComposedDpEvent(PoissonSampledDpEvent(0.25, GaussianDpEvent(3.0)), 4)
    part = StepNoise(0.25, 4, 0.04, AnswerCount(7.0, 3, EACH))
    kinds = {(g.unit, g.observer, g.adjacency) for g, _ in part.price(Knobs(**KNOBS))}
    assert kinds == {("record", "server", "add_remove"), ("record", "outsider", "add_remove")}
    assert {event for _, event in part.price(Knobs(**KNOBS))} == {steps}
    due = ComposedDpEvent((steps, GaussianDpEvent(7.0)))
    assert {event for _, event in part.price(Knobs(**KNOBS), 3)} == {due}
    whole = StepNoise(1.0, 4, 0.04).price(Knobs(**KNOBS))
    assert whole[0][1] == SelfComposedDpEvent(GaussianDpEvent(3.0), 4)
    assert StepNoise(0.25, 4, 0.04, unproved="because").price(Knobs(**KNOBS))[0][1] == Unbounded("because")
