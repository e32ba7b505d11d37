"""Charged sums before the first round: what one unit changes, the noise that is there, its price, and its use."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from scipy import stats

import sordino
from sordino.account.accountants.accountant import price
from sordino.account.accountants.exact import separation_for
from sordino.account.ledger.ledger import Ledger
from sordino.client.side import ClientSide
from sordino.client_state import ClientState
from sordino.data.client_data import ClientData
from sordino.data.federation import Federation
from sordino.data.public import PublicCounts
from sordino.errors import RecipeError
from sordino.mechanism import Preparation
from sordino.opening.channel_moment import ChannelMoment, packed, unpacked, whitening
from sordino.opening.feature_map import MEAN, TURN, FeatureMap
from sordino.opening.feature_mean import FeatureMean
from sordino.opening.sums import short_rows
from sordino.random.streams import Streams
from sordino.recipe import Recipe
from sordino.runs.setup import assemble
from sordino.stopwatch import Stopwatch
from sordino.terms import Terms, Turn, Vanished

CLIENTS, CHANNELS, PLACES = 8, 3, 2
SHAPE = (CHANNELS, PLACES, 1)
OPENING = ("opening.feature_mean=0.3", "opening.channel_moment=0.4")
TRUSTS = {
    "distributed": ("mechanism.name=dp_sgd",),
    "central": ("mechanism.name=dp_sgd", "mechanism.trust=central"),
    "local, client": ("mechanism.name=fed_ldp",),
    "distributed, client": ("mechanism.name=dropout_robust",),
    "central, client": ("mechanism.name=dp_fedavg",),
}


def people(scale: float = 1.0, records: int = 10, seed: int = 0) -> Federation:
    """Clients whose records lie around a point, in few directions."""
    generator = torch.Generator().manual_seed(seed)
    total = CLIENTS * records
    y = torch.arange(total) % 2
    x = torch.randn(total, *SHAPE, generator=generator) * torch.tensor([1.0, 0.3, 0.1])[:, None, None]
    x[:, 0] += 2
    x[:, 1] += y[:, None, None].float() * 0.7
    x = scale * x / x.flatten(1).norm(dim=1)[:, None, None, None]
    told = PublicCounts(CLIENTS, total, 2)
    return Federation.of(x, y, np.arange(total) % CLIENTS, (x, y), 2, public=told)


def statistics(unit: str) -> list[FeatureMean | ChannelMoment]:
    return [FeatureMean(SHAPE, unit), ChannelMoment(SHAPE, unit)]


def rows_of(statistic: FeatureMean | ChannelMoment, x: torch.Tensor) -> torch.Tensor:
    data = ClientData(np.array([5]), np.array([0, len(x)]), x, torch.zeros(len(x), dtype=torch.int64))
    return statistic.train(None, None, data).rows[0]  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.floats(1e-3, 1e6), st.integers(0, 2**31), st.sampled_from([0.0, math.nan, math.inf]))
def test_one_record_moves_a_clients_row_by_at_most_1_whatever_it_is(
    count: int, scale: float, seed: int, odd: float
) -> None:
    x = torch.randn(count + 1, *SHAPE, generator=torch.Generator().manual_seed(seed)) * scale
    if odd:
        x[0, 0, 0, 0] = odd
    for statistic in statistics("record"):
        with_it, without = rows_of(statistic, x), rows_of(statistic, x[1:])
        assert torch.isfinite(with_it).all()
        assert float((with_it - without).norm()) <= 1 + 1e-6
        update = statistic.train(None, None, ClientData(np.array([0]), np.array([0, count + 1]), x, x))  # type: ignore[arg-type]
        assert update.example_clip == 1.0


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.floats(1e-3, 1e6), st.integers(0, 2**31))
def test_a_client_says_at_most_1_however_much_it_holds(count: int, scale: float, seed: int) -> None:
    x = torch.randn(count, *SHAPE, generator=torch.Generator().manual_seed(seed)) * scale
    for statistic in statistics("client"):
        assert float(rows_of(statistic, x).norm()) <= 1


@pytest.mark.parametrize("statistic", statistics("record"))
def test_openings_copy_one_clients_records_at_a_time_and_say_the_same(statistic: FeatureMean | ChannelMoment) -> None:
    borrowed = people().gather(np.array([6, 1, 3]))
    said = statistic.train(None, None, borrowed).rows  # type: ignore[arg-type]
    assert "x" not in vars(borrowed)  # cached there once somebody gathers everything
    whole = ClientData(borrowed.clients, borrowed.offsets, borrowed.x, borrowed.y)
    assert torch.equal(said, statistic.train(None, None, whole).rows)  # type: ignore[arg-type]


def test_the_bound_of_1_is_reached() -> None:
    one = torch.zeros(1, *SHAPE)
    one[0, 1, 0, 0] = 5.0
    for unit in ("record", "client"):
        for statistic in statistics(unit):
            assert float(rows_of(statistic, one).norm()) == pytest.approx(1, abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(0, 2**31))
def test_packing_keeps_the_norm_and_can_be_undone(size: int, seed: int) -> None:
    half = torch.randn(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    matrix = half + half.T
    assert float(packed(matrix).norm()) == pytest.approx(float(matrix.norm()))
    assert torch.allclose(unpacked(packed(matrix), size), matrix)


def test_whitening_makes_directions_alike_and_survives_a_moment_of_noise_alone() -> None:
    moment = torch.diag(torch.tensor([100.0, 1.0, 0.01], dtype=torch.float64))
    turn = whitening(moment, 1e-9)
    assert torch.allclose(turn @ moment @ turn.T / moment.trace() * 3, torch.eye(3, dtype=torch.float64), atol=1e-4)
    assert torch.equal(whitening(-moment, 0.1), torch.eye(3, dtype=torch.float64))
    softened = whitening(moment, 1.0)
    assert float(softened.diagonal().max() / softened.diagonal().min()) < 3


def test_the_map_is_applied_record_by_record_and_rows_have_norm_1() -> None:
    x = people().train_x
    lens = FeatureMap(x.mean(0), torch.tensor([[2.0, 0, 0], [0, 1, 0.5], [0, 0, 3]]))
    out = lens(x)
    expected = x - x.mean(0)
    expected = expected / expected.flatten(1).norm(dim=1)[:, None, None, None]
    expected = torch.einsum("dc,ncpq->ndpq", lens.turn, expected)
    expected = expected / expected.flatten(1).norm(dim=1)[:, None, None, None]
    assert torch.allclose(out, expected, atol=1e-5)
    assert torch.equal(lens(x[3:4]), out[3:4]) or torch.allclose(lens(x[3:4]), out[3:4], atol=1e-6)
    assert torch.allclose(lens(x.repeat(100, 1, 1, 1))[: len(x)], out, atol=1e-6), "in blocks"
    assert FeatureMap(None, lens.turn)(x.flatten(1)[:, :3]).shape == (len(x), 3), "flat records"
    assert lens(x[:0]).shape == (0, *SHAPE)
    zero = torch.zeros(1, *SHAPE)
    assert torch.equal(FeatureMap(None, lens.turn)(zero), zero)


def context_of(*chosen: str, federation: Federation | None = None):
    base = ["model.bias=false", "run.rounds=3", "budget.epsilon=2", "data.normalise=none", *OPENING]
    return assemble(Recipe.load(None, [*base, *chosen]), federation=federation or people())


def released(one: Preparation, federation: Federation, seed: int) -> np.ndarray:
    """Returns what a preparation releases, through its parts and in their order."""
    mechanism, everyone = one.mechanism, np.arange(CLIENTS)
    knobs = mechanism.adapter.start()
    turn = Turn(Terms(0, torch.zeros(one.statistic.width), knobs, everyone), Streams(seed))
    update = mechanism.local.train(None, turn, federation.gather(everyone))  # type: ignore[arg-type]
    bounded = mechanism.bounder.bound(update, turn)
    partial = mechanism.aggregator.start(turn.terms, bounded.sensitivity)
    partial = mechanism.aggregator.add(partial, mechanism.perturber.shield(bounded, turn).message)
    summed = mechanism.aggregator.finish(partial, Vanished())
    return mechanism.perturber.release(summed, turn).mean.double().numpy()


@pytest.mark.parametrize("trust", TRUSTS)
def test_the_noise_is_the_one_that_is_charged(trust: str) -> None:
    """Two-sided: the standard deviation is accepted, two thirds and three halves of it are not."""
    context, nothing = context_of(*TRUSTS[trust]), people(scale=1e-9)
    units = CLIENTS * 10 if context.mechanism.unit == "record" else CLIENTS
    for one in context.mechanism.preparation:
        draws = np.concatenate([released(one, nothing, seed) for seed in range(40)]) * units
        messages = CLIENTS if context.mechanism.trust == "local" else 1  # each carries all of the noise by itself
        draws /= one.mechanism.adapter.start().noise_multiplier * math.sqrt(messages)
        low, high = (stats.chi2.ppf(tail, len(draws)) for tail in (1e-4, 1 - 1e-4))
        energy = float((draws**2).sum())
        assert low < energy < high, (trust, one.mechanism.name, energy / len(draws))
        assert not low < energy * 1.5**2 < high and not low < energy / 1.5**2 < high


@pytest.mark.parametrize("trust", TRUSTS)
def test_what_is_charged_is_the_price_and_all_of_it_is_in_the_budget(trust: str, tmp_path: Path) -> None:
    recipe = Recipe.load(None, ["run.rounds=3", "budget.epsilon=2", "data.normalise=none", *OPENING, *TRUSTS[trust]])
    outcome = sordino.run(recipe, federation=people(), out=tmp_path / "run")
    mechanism = outcome.context.mechanism
    with Ledger.open(tmp_path / "run" / "private" / "ledger.db", write=False) as ledger:
        before = [entry for entry in ledger.entries if entry.round_ == 0]
    assert len(before) == 2 and all(entry.settled for entry in before)
    for entry, one in zip(before, mechanism.preparation, strict=True):
        assert entry.charges == one.mechanism.quote(one.mechanism.adapter.start(), 0)
    bounded = [entry.epsilon for entry in outcome.certificate.entries if entry.epsilon is not None]
    assert max(bounded) == pytest.approx(2, abs=1e-3), "nothing is left over, and nothing is spent twice"


def test_leaving_the_opening_out_of_calibration_would_exceed_the_budget() -> None:
    mechanism = context_of(*TRUSTS["distributed"]).mechanism
    none = ("opening.feature_mean=0", "opening.channel_moment=0")
    plain = context_of(*TRUSTS["distributed"], *none).mechanism
    assert plain.preparation == ()
    before = [charge for one in mechanism.preparation for charge in one.mechanism.quote(one.mechanism.adapter.start())]
    enough, too_little = (made.adapter.start().noise_multiplier for made in (mechanism, plain))
    assert enough > too_little * 1.1
    for multiplier, fits in ((enough, True), (too_little, False)):
        charges = [*before, *mechanism.quote(mechanism.adapter.start().but(noise_multiplier=multiplier)) * 3]
        events = Counter(charge.event for charge in charges if charge.guarantee.observer == "server")
        assert (price(events, "pld", "add_remove").epsilon(1e-5) <= 2 + 1e-9) is fits


def test_the_shares_are_those_of_mu() -> None:
    mu = separation_for(2.0, 1e-5)
    first, second = context_of(*TRUSTS["central"]).mechanism.preparation
    assert first.mechanism.adapter.start().noise_multiplier == pytest.approx(1 / (0.3 * mu))
    assert second.mechanism.adapter.start().noise_multiplier == pytest.approx(1 / (0.4 * mu))


def test_a_model_takes_features_as_they_were_and_the_map_is_published_with_it(tmp_path: Path) -> None:
    base = [
        "mechanism.name=dp_sgd",
        "model.bias=false",
        "budget.epsilon=50",
        "run.rounds=20",
        "server.learning_rate=30",
    ]
    recipe = Recipe.load(None, [*base, "data.normalise=none", *OPENING])
    outcome = sordino.run(recipe, federation=people(), out=tmp_path / "run")
    federation = people()
    right = float((outcome.predict(federation.test_x) == federation.test_y).float().mean())
    assert right == pytest.approx(outcome.accuracy) and right > 0.8
    published = load_file(tmp_path / "run" / "public" / "model.safetensors")
    lens = FeatureMap(published["opening/mean"], published["opening/turn"])
    scores = lens(federation.test_x).flatten(1) @ published["1.weight"].T
    assert torch.equal(scores.argmax(1), outcome.predict(federation.test_x))


def test_a_run_that_goes_on_pays_once_and_ends_the_same(tmp_path: Path) -> None:
    recipe = Recipe.load(None, ["mechanism.name=dp_sgd", "run.rounds=4", "data.normalise=none", *OPENING])

    class Stop(Exception):
        pass

    def stop(metrics):
        if metrics["round"] == 2:
            raise Stop

    whole = sordino.run(recipe, federation=people(), out=tmp_path / "whole")
    with pytest.raises(Stop):
        sordino.run(recipe, federation=people(), out=tmp_path / "cut", watcher=stop)
    rest = sordino.run(recipe, federation=people(), out=tmp_path / "cut", resume=True)
    assert torch.equal(rest.weights, whole.weights) and rest.accuracy == whole.accuracy
    assert [e.epsilon for e in rest.certificate.entries] == [e.epsilon for e in whole.certificate.entries]


def test_a_client_on_a_network_maps_its_own_records_as_the_simulation_does() -> None:
    context = context_of(*TRUSTS["distributed"])
    federation, lens = context.federation, FeatureMap(torch.full(SHAPE, 0.1), torch.eye(3) * 2)
    knobs = context.mechanism.adapter.start().plus({MEAN: lens.mean, TURN: lens.turn})
    turn = Turn(Terms(1, context.weights, knobs, np.arange(CLIENTS)), context.randomness)
    side = ClientSide(context.mechanism, context.trainer, context.randomness)
    ids, blank = np.array([2]), ClientState.blank(1)
    own = side.contribute(turn, federation.gather(ids), blank, Stopwatch())
    mapped = replace(side, mapped=True).contribute(turn, federation.mapped(lens).gather(ids), blank, Stopwatch())
    plain = replace(side, mapped=True).contribute(turn, federation.gather(ids), blank, Stopwatch())
    assert torch.equal(own.message.rows, mapped.message.rows) and not torch.equal(own.message.rows, plain.message.rows)


def test_what_cannot_be_prepared_is_refused_in_a_sentence() -> None:
    with pytest.raises(RecipeError, match=r"opening\.feature_mean"):
        context_of("mechanism.name=a_dpfl")
    with pytest.raises(RecipeError, match="faithful"):
        context_of("mechanism.name=dropout_robust", "mechanism.mode=faithful")
    with pytest.raises(RecipeError, match="leave nothing"):
        Recipe.load(None, ["opening.feature_mean=0.8", "opening.channel_moment=0.7"])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e20, 1e35, 1e37, 1e38, 3e38])
def test_records_are_short_however_long_they_were(size: float) -> None:
    """Beyond 10³⁷ factors have few digits in single precision: rows came out longer than what is charged."""
    rows = short_rows(torch.randn(400, 784, generator=torch.Generator().manual_seed(1)).mul(size).clamp(-3e38, 3e38))
    lengths = torch.linalg.vector_norm(rows.double(), dim=1)
    assert (lengths <= 1).all() and (size > 1e30 or (lengths > 0).all())
