"""dp_sgd whose clip norm follows a private quantile of the records' gradients (record unit, central trust)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

import sordino
from sordino.errors import RecipeError
from sordino.events import GaussianDpEvent, PoissonSampledDpEvent, Unbounded
from sordino.random.streams import Streams
from sordino.recipe import Recipe
from sordino.runs.setup import assemble
from sordino.stages import UNCLIPPED
from sordino.terms import Terms, Turn, Vanished

CENTRAL = (
    "mechanism.name=dp_sgd",
    "mechanism.trust=central",
    "mechanism.quantile=0.5",
    "partition.clients=20",
    "data.normalise=none",
)


def context_of(*settings: str):
    return assemble(Recipe.load(None, [*CENTRAL, "run.rounds=5", *settings]))


def released(context, seed: int, clip_norm: float, quiet: bool = False):
    mechanism, everyone = context.mechanism, np.arange(20)
    knobs = mechanism.adapter.start().but(clip_norm=clip_norm)
    turn = Turn(Terms(1, context.weights, knobs, everyone), Streams(seed))
    update = mechanism.local.train(context.trainer, turn, context.federation.gather(everyone))
    if quiet:
        update = replace(update, rows=update.rows * 0, side={UNCLIPPED: update.side[UNCLIPPED] * 0})
    bounded = mechanism.bounder.bound(update, turn)
    partial = mechanism.aggregator.start(turn.terms, bounded.sensitivity)
    partial = mechanism.aggregator.add(partial, mechanism.perturber.shield(bounded, turn).message)
    return update, mechanism.perturber.release(mechanism.aggregator.finish(partial, Vanished()), turn)


def test_a_client_counts_halves_and_one_record_moves_its_count_by_one_half() -> None:
    context = context_of()
    for clip_norm, share in ((1e9, 0.5), (1e-9, -0.5)):
        update, _ = released(context, 0, clip_norm)
        assert torch.equal(update.side[UNCLIPPED][:, 0], share * torch.from_numpy(update.sizes).float())
    gradients = np.sort(_norms(context))
    place = 400 + int(np.argmax(np.diff(gradients[400:1000])))  # a gap, so that rounding decides nothing
    update, _ = released(context, 0, float(gradients[place : place + 2].mean()))
    unclipped = place + 1
    assert float(update.side[UNCLIPPED].sum()) == pytest.approx(unclipped - len(gradients) / 2)


def _norms(context) -> np.ndarray:
    """By hand: at zero weights a record's gradient is (1/10 − y) ⊗ (x, 1)."""
    x = context.federation.train_x.flatten(1).double()
    return (math.sqrt(0.9) * (x.square().sum(1) + 1).sqrt()).numpy()


@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_the_price_is_that_of_plain_noise_with_the_count_inside(rate: float) -> None:
    mechanism = context_of(f"mechanism.sampling_rate={rate}").mechanism
    knobs = mechanism.adapter.start()
    (server, seen), (outsider, event) = mechanism.perturber.price(knobs)
    assert server.unit == outsider.unit == "record" and outsider.adjacency == "add_remove"
    plain = GaussianDpEvent(knobs.noise_multiplier)
    assert isinstance(seen, Unbounded) and event == (plain if rate == 1 else PoissonSampledDpEvent(rate, plain))


def test_both_noises_together_are_the_gaussian_that_is_charged() -> None:
    context = context_of()
    perturber, z = context.mechanism.perturber, context.mechanism.adapter.start().noise_multiplier
    found = [released(context, seed, 0.5, quiet=True)[1] for seed in range(60)]
    records = 1437
    sums = np.concatenate([one.mean.double().numpy() for one in found]) * records / 0.5
    counts = np.array([float(one.side[UNCLIPPED][0] - 0.5) for one in found]) * records
    on_sum = (z**-2 - (2 * perturber.bit_stddev) ** -2) ** -0.5
    for draws, scale in ((sums, on_sum), (counts, perturber.bit_stddev)):
        energy = float((draws**2).sum()) / scale**2
        low, high = (stats.chi2.ppf(tail, len(draws)) for tail in (1e-4, 1 - 1e-4))
        assert low < energy < high
        assert not low < energy * 2.25 < high and not low < energy / 2.25 < high


def test_the_clip_norm_finds_the_quantile_and_the_budget_is_kept(tmp_path) -> None:
    settings = [*CENTRAL, "mechanism.clip_norm=1", "run.rounds=40", "budget.epsilon=20"]
    outcome = sordino.run(Recipe.load(None, [*settings, "server.learning_rate=0.001"]), out=tmp_path / "run")
    assert outcome.stopped == "rounds"
    last = sordino.runs.folder.RunFolder(tmp_path / "run").metrics()[-1]["knobs"]["clip_norm"]
    norms = _norms(outcome.context)
    assert np.quantile(norms, 0.3) < last < np.quantile(norms, 0.7), (
        "the model hardly moved, so norms are those at zero"
    )
    assert max(entry.epsilon for entry in outcome.certificate.entries if entry.epsilon) == pytest.approx(20, abs=1e-3)


def test_a_secure_sum_is_laid_out_for_one_clip_norm() -> None:
    with pytest.raises(RecipeError, match="central"):
        context_of("mechanism.trust=distributed")
