"""What one bad client can do: it moves a plain secure sum anywhere, and a median of shards nowhere."""

import numpy as np
import pytest

from aggregate.rounding import round_row
from sordino.aggregate.integers import Grid, from_residues, to_residues
from sordino.aggregate.secure.errors import TooFewClients
from sordino.aggregate.secure.graph import choose
from sordino.aggregate.secure.robust import ONE_CLIENT_CAN_SPOIL, SHARDS_ARE_RELEASES, combine_shards
from sordino.aggregate.secure.session import secure_sum
from sordino.errors import RecipeError
from sordino.perturb.skellam import SkellamShares, random_bits
from sordino.random.streams import Streams

CLIENTS, WIDTH, BITS = np.arange(100, 140), 300, 40
GRID = Grid.fine(WIDTH, 1.0)
SHARDS = [np.sort(part) for part in np.array_split(np.random.default_rng(1).permutation(CLIENTS), 5)]


def topology(size):
    return choose(size, dropout=0.2, corrupt=0.0)


def in_shards(vectors, shards, dropouts=(), **options):
    """Sums each shard of the cohort by itself."""
    return [
        secure_sum(
            vectors[np.searchsorted(CLIENTS, shard)],
            clients=shard,
            modulus_bits=BITS,
            topology=topology(len(shard)),
            dropouts={"mask": set(dropouts) & set(shard.tolist())},
            **options,
        )
        for shard in shards
    ]


def residues(liar=None):
    rows = np.random.default_rng(0).normal(0.03, 0.02, (len(CLIENTS), WIDTH))
    rounded = np.stack([round_row(GRID, row, np.random.default_rng(i)) for i, row in enumerate(rows)])
    if liar is not None:
        rounded[liar] = 2 ** (BITS - 2)  # the largest vector that the modulus lets through
    return to_residues(rounded, BITS), rounded


@pytest.mark.parametrize("fidelity", ["exact", "full"])
@pytest.mark.parametrize("rule", ["median", "trimmed_mean"])
def test_one_client_spoils_one_shard_and_nothing_else(fidelity, rule):
    honest, rounded = residues()
    results = []
    for vectors in (honest, residues(liar=7)[0]):
        outcomes = in_shards(vectors, SHARDS, fidelity=fidelity)
        sums = np.stack([from_residues(outcome.total, BITS) for outcome in outcomes])
        results.append(combine_shards(sums, np.array([len(shard) for shard in SHARDS]), rule))
    truth, spread = rounded.mean(0), GRID.scale * 0.02 / np.sqrt(8)
    assert np.abs(results[0] - truth).max() < 5 * spread
    assert np.abs(results[1] - truth).max() < 8 * spread
    whole = secure_sum(
        residues(liar=7)[0], clients=CLIENTS, modulus_bits=BITS, topology=topology(40), fidelity=fidelity
    )
    assert np.abs(from_residues(whole.total, BITS) / 40 - truth).min() > 10**6 * spread  # summed as one, it is lost


def test_every_shard_carries_the_whole_noise_target():
    variance, least = 400.0, topology(8).smallest_cohort
    noise, streams = SkellamShares(variance, least), Streams(3)
    drawn = {c: noise.draw(20_000, random_bits(streams, "noise", 1, c)) for c in CLIENTS.tolist()}
    outcomes = in_shards(
        to_residues(np.stack([drawn[c].values for c in CLIENTS.tolist()]), BITS),
        SHARDS,
        dropouts=[int(SHARDS[0][0])],
        reveal=lambda c, survivors: noise.removable(drawn[c], survivors, random_bits(streams, "split", 1, c)),
    )
    for outcome in outcomes:
        left = from_residues(outcome.total, BITS).var() / variance
        assert abs(left - 1) < 5 * np.sqrt(2 / 20_000)
        assert all(abs(left - wrong) > 5 * np.sqrt(2 / 20_000) for wrong in (4 / 9, 9 / 4))


def test_a_shard_that_loses_too_many_releases_nothing():
    with pytest.raises(TooFewClients):
        in_shards(residues()[0], SHARDS[2:3], dropouts=SHARDS[2][:4].tolist())


def test_what_does_not_suit_the_rule_is_refused():
    sums, sizes = np.zeros((4, 2)), np.full(4, 3)
    for call in (
        lambda: combine_shards(np.full((4, 2), np.nan), sizes),
        lambda: combine_shards(sums, sizes[:3]),
        lambda: combine_shards(sums, np.zeros(4, np.int64)),
        lambda: combine_shards(sums, sizes, "trimmed_mean", 2),
        lambda: combine_shards(sums, sizes, "mean"),
    ):
        with pytest.raises(RecipeError):
            call()


def test_the_remarks_say_what_holds():
    assert "one client" in ONE_CLIENT_CAN_SPOIL and "release of its own" in SHARDS_ARE_RELEASES
