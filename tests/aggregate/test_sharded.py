"""A cohort in shards: each carries the whole noise, one bad client spoils one of them, and the price is that of one."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sordino.aggregate.secure.robust import ONE_CLIENT_CAN_SPOIL, SHARDS_ARE_RELEASES
from sordino.aggregate.secure_sum import SecureSum
from sordino.data.federation import Federation
from sordino.errors import ProtocolError, RecipeError
from sordino.recipe import Recipe
from sordino.runs.run import run
from sordino.runs.setup import assemble
from sordino.stages import Shielded
from sordino.terms import HONEST_NOISE, Knobs, Sharding, Terms, Vanished

CLIENTS, BAD = 80, 17
ZERO = torch.zeros(3)


def terms(cohort, round_=1):
    return Terms(round_, ZERO, Knobs(1.0, 1.0), np.asarray(cohort))


def recipe(*settings):
    chosen = ["mechanism.name=dropout_robust", "run.rounds=6", "budget.epsilon=none", "mechanism.noise_multiplier=0.2"]
    return Recipe.load(None, [*chosen, "mechanism.clip_norm=1.0", *settings])


@pytest.fixture(scope="module")
def people():
    generator = torch.Generator().manual_seed(0)
    x, owners = torch.randn(20 * CLIENTS, 8, generator=generator), np.repeat(np.arange(CLIENTS), 20)
    y = (x[:, 0] + x[:, 1] > 0).long()
    federation = Federation.of(x, y, owners, test=(x[:400], y[:400]))
    return federation.declare(replace(federation.proposed(), sizes=True))


def test_one_client_more_moves_nobody_else_to_another_shard():
    sharding = Sharding(5, 0.0, 0.0)
    with_it, without = terms(np.arange(100)), terms(np.delete(np.arange(100), 40))
    changed = [
        set(a.terms.cohort.tolist()) ^ set(b.terms.cohort.tolist())
        for a, b in zip(sharding.shards(with_it), sharding.shards(without), strict=True)
    ]
    assert sorted(map(len, changed)) == [0, 0, 0, 0, 1]
    assert sorted(c for shard in sharding.shards(with_it) for c in shard.terms.cohort.tolist()) == list(range(100))


def test_shards_are_of_similar_size_and_change_from_round_to_round():
    sharding = Sharding(10, 0.0, 0.0)
    sizes = [np.bincount(sharding.deal(np.arange(10_000), round_), minlength=10) for round_ in range(1, 6)]
    assert np.abs(np.array(sizes) - 1000).max() < 5 * np.sqrt(900)
    together = (sharding.deal(np.arange(10_000), 1) == sharding.deal(np.arange(10_000), 2)).mean()
    assert 0.08 < together < 0.12


def test_all_corrupt_clients_may_sit_in_one_shard():
    shards = Sharding(4, 0.0, 0.05).shards(terms(np.arange(80)))
    assert all(round(shard.corrupt * len(shard.terms.cohort)) == 4 for shard in shards)
    small = Sharding(20, 0.0, 0.1).shards(terms(np.arange(80)))  # 8 corrupt, shards of 4 on average
    assert all(len(shard.terms.cohort) > 8 for shard in small if shard.summed)
    assert sum(shard.summed for shard in small) < 3


@pytest.mark.parametrize("fidelity", ["exact", "masked", "full"])
def test_every_shard_carries_the_whole_noise_and_the_sum_is_right_without_any(people, fidelity):
    context = assemble(recipe("aggregate.shards=4", f"aggregate.fidelity={fidelity}"), federation=people)
    summing, turn = context.mechanism.aggregator, terms(np.arange(40))
    rows = torch.from_numpy(np.random.default_rng(1).integers(-50, 50, (40, 3)))
    message = Shielded(turn.cohort, rows, torch.ones(40), torch.full((40,), 0.01, dtype=torch.float64))
    summed = summing.finish(summing.add(summing.start(turn, None), message), Vanished())
    dealt = summing.sharding.deal(turn.cohort, 1)
    sums = np.sort([rows[torch.from_numpy(dealt == s)].sum(0).numpy() for s in range(4)], axis=0)
    assert summed.total.tolist() == pytest.approx((4 * sums[1:3].mean(0)).tolist())
    assert sorted(summed.side[HONEST_NOISE].tolist()) == pytest.approx(sorted(0.01 * np.bincount(dealt)))
    assert summed.survivors.tolist() == list(range(40))


def test_what_shards_release_costs_what_one_sum_costs_the_server(people):
    whole, parts = (assemble(recipe(f"aggregate.shards={n}"), federation=people).mechanism for n in (1, 4))
    knobs = whole.adapter.start()
    costs = [{charge.guarantee.observer: charge for charge in each.quote(knobs)} for each in (whole, parts)]
    assert costs[0]["server"].event == costs[1]["server"].event == costs[1]["outsider"].event
    assert costs[0]["server"].guarantee == costs[1]["server"].guarantee
    assert costs[1]["outsider"].guarantee.adjacency == "zero_out"  # whether a shard is summed depends on who is there
    assert ONE_CLIENT_CAN_SPOIL in whole.aggregator.remarks and SHARDS_ARE_RELEASES in parts.aggregator.remarks
    assert (whole.aggregator.shards, parts.aggregator.shards) == (1, 4)


def test_no_amplification_by_secret_cohorts_where_a_shard_may_be_too_small(people):
    chosen = ("select.kind=poisson", "select.rate=0.5")
    whole, parts = (
        {charge.guarantee.observer: charge for charge in mechanism.quote(mechanism.adapter.start())}
        for mechanism in (
            assemble(recipe(f"aggregate.shards={n}", *chosen), federation=people).mechanism for n in (1, 3)
        )
    )
    assert whole["outsider"].event != whole["server"].event
    assert "PoissonSampled" not in type(parts["outsider"].event).__name__


def test_what_a_round_settles_is_what_was_quoted_with_dropouts_too(people, tmp_path):
    settings = ["aggregate.shards=4", "dropout.rate=0.1", 'dropout.stages=["train", "upload", "unmask"]']
    outcome = run(recipe(*settings, "run.rounds=3", "aggregate.tolerance=0.4"), federation=people, out=tmp_path / "run")
    assert all(entry.status == "certified" for entry in outcome.certificate.entries)


def accuracy(people, monkeypatch, folder, *settings):
    """How well a model does that is trained with one client that sends the largest vector there is."""
    honest = SecureSum.add

    def spoilt(self, partial, message):
        rows = message.rows.clone()
        rows[torch.from_numpy(message.clients == BAD)] = 2 ** (partial.bits - 1) - 1
        return honest(self, partial, replace(message, rows=rows))

    monkeypatch.setattr(SecureSum, "add", spoilt)
    outcome = run(recipe(*settings), federation=people, out=folder)
    monkeypatch.setattr(SecureSum, "add", honest)
    with torch.no_grad():
        return float((outcome.model(people.test_x).argmax(1) == people.test_y).float().mean())


def test_one_client_with_the_largest_vector_spoils_a_sum_but_not_shards(people, monkeypatch, tmp_path):
    assert accuracy(people, monkeypatch, tmp_path / "whole") < 0.65
    for rule in ("trimmed_mean", "median"):
        learnt = accuracy(people, monkeypatch, tmp_path / rule, "aggregate.shards=6", f"aggregate.combine={rule}")
        assert learnt > 0.85


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["aggregate.shards=2"], "aggregate.shards is 2: trimmed_mean needs at least 3"),
        (["aggregate.shards=4", "aggregate.trim=2"], "needs at least 5"),
        (["aggregate.shards=9"], "at most 8 with 10 clients each"),
        (["aggregate.shards=4", "aggregate.corrupt=0.3"], "may sit in one of 4 shards"),
        (["aggregate.shards=4", "aggregate.kind=plain"], "makes no secure sums"),
        (["aggregate.shards=4", "mechanism.name=dp_fedavg"], "makes no secure sums"),
    ],
)
def test_shards_that_make_no_sense_are_refused_with_a_sentence(people, settings, sentence):
    chosen = Recipe.load(None, ["mechanism.name=dropout_robust", *settings])
    with pytest.raises(RecipeError, match=sentence):
        assemble(chosen, federation=people)


def test_too_few_shards_that_could_be_summed_abort_the_round(people):
    summing, turn = assemble(recipe("aggregate.shards=4"), federation=people).mechanism.aggregator, terms(np.arange(12))
    message = Shielded(turn.cohort, torch.zeros(12, 3, dtype=torch.int64), torch.ones(12), torch.ones(12).double())
    with pytest.raises(ProtocolError, match="shards could be summed: nothing is released"):
        summing.finish(summing.add(summing.start(turn, None), message), Vanished())
