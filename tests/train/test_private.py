"""Local DP-SGD: the sums are clipped per example, the noise has the right size, drawn afresh for every step."""

import numpy as np
import pytest
import torch

from oracles import assert_normal
from sordino.models.losses import cross_entropy
from sordino.random.streams import Streams
from sordino.train import LocalTraining, Trainer
from sordino.train.gradients import MARGIN
from train.cohorts import clients, cohort, gradient, mlp, weights

SIZES = [7, 23, 12]


def trainer(**settings):
    return Trainer(mlp(), cross_entropy, LocalTraining(learning_rate=0.1, **settings))


def steps(clip_norm=0.5, noise_multiplier=0.0, rate=None, steps=2, round_=1, settings=None, **more):
    return trainer(**(settings or {})).private_steps(
        weights(mlp()), cohort(SIZES), clip_norm, noise_multiplier, rate, steps, Streams(4), round_, **more
    )


def clipped_mean(w, x, y, bound, divisor):
    each = torch.stack([gradient(mlp(), cross_entropy, w, x[j : j + 1], y[j : j + 1]) for j in range(len(x))])
    return (each * (bound * (1 - MARGIN) / each.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0) / divisor


@pytest.mark.parametrize("batch", [None, 10.0])
def test_without_noise_it_is_descent_on_clipped_means(batch):
    update = steps(batch=batch)
    for row, (x, y) in zip(update.rows, clients(cohort(SIZES)), strict=True):
        w = w0 = weights(mlp())
        for _ in range(2):
            w = w - 0.1 * clipped_mean(w, x, y, 0.5, batch or len(x))
        torch.testing.assert_close(row, w - w0, rtol=1e-4, atol=1e-6)


def test_poisson_batches_are_divided_by_their_expected_size():
    update = steps(rate=0.3, steps=1)
    data = cohort(SIZES)
    coins = np.split(Streams(4).uniforms("records", 1, data.clients, data.sizes, 0) < 0.3, data.offsets[1:-1])
    for row, kept, (x, y) in zip(update.rows, coins, clients(data), strict=True):
        mean = clipped_mean(weights(mlp()), x[kept], y[kept], 0.5, 0.3 * len(x)) if kept.any() else 0 * row
        torch.testing.assert_close(row, -0.1 * mean, rtol=1e-4, atol=1e-6)


def test_noise_has_its_size_and_is_fresh_for_client_step_and_round():
    silent, noisy = (steps(noise_multiplier=z, steps=1).rows for z in (0.0, 3.0))
    noise = (noisy - silent) / -0.1 * torch.tensor(SIZES)[:, None]
    ratio = float(noise.std() / (3.0 * 0.5))
    assert 2 / 3 < ratio < 3 / 2 and abs(ratio - 1) < 0.15
    assert not torch.allclose(noise[0], noise[1])
    other = steps(noise_multiplier=3.0, steps=1, round_=2).rows
    assert not torch.allclose(other, noisy)
    tiny = {"clip_norm": 1e-9, "noise_multiplier": 1e9}  # gradients vanish: two steps are the sum of two noises
    one, two = steps(steps=1, **tiny).rows, steps(steps=2, **tiny).rows
    assert not torch.allclose(two - one, one)
    assert abs(float((two - one).std() / one.std()) - 1) < 0.3


def test_the_printed_order_clips_the_noisy_gradient():
    update = steps(clip_norm=0.2, noise_multiplier=2.0, steps=1, order="noise_then_clip")
    assert (update.rows.norm(dim=1) <= 0.1 * 0.2 * (1 + 1e-5)).all()
    noise = Streams(4).normals("local noise/0", 1, cohort(SIZES).clients, len(weights(mlp())))
    for row, draw, (x, y) in zip(update.rows, noise, clients(cohort(SIZES)), strict=True):
        noisy = gradient(mlp(), cross_entropy, weights(mlp()), x, y) + draw * 2.0 * 0.2 / len(x)
        expected = -0.1 * noisy * min(1.0, 0.2 / float(noisy.norm()))
        torch.testing.assert_close(row, expected, rtol=1e-3, atol=1e-6)


def test_shuffled_batches_where_no_rate_is_given():
    whole, parted = steps(), steps(settings={"batch_size": 5})
    assert not torch.allclose(whole.rows, parted.rows)
    assert torch.equal(parted.rows, steps(settings={"batch_size": 5}).rows)


def test_an_empty_batch_steps_on_noise_alone():
    update = steps(rate=1e-9, noise_multiplier=1.0, batch=1.0, steps=1)
    assert_normal(update.rows.numpy(), 0.1 * 0.5)
