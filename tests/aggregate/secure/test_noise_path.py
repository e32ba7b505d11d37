"""Floats to a noisy secure sum and back: the survivors' rounded rows, plus exactly the noise that was asked for."""

import numpy as np
import pytest

from aggregate.rounding import round_row
from perturb.variances import remaining
from sordino.aggregate.integers import Grid, from_residues, to_residues
from sordino.aggregate.secure.graph import Topology
from sordino.aggregate.secure.session import secure_sum
from sordino.perturb.skellam import SkellamShares, random_bits
from sordino.random.streams import Entropy, Streams

CLIENTS, WIDTH = np.arange(8), 20_000
GRID = Grid.fine(WIDTH, clip_norm=1.0)
NOISE = SkellamShares(500.0, smallest_cohort=5)
TOPOLOGY = Topology(threshold=5, smallest_cohort=5)


def noisy_sum(fidelity, dropouts, streams):
    """Plays a round as clients would, and returns the decoded sum, the rounded rows and who survived."""
    bits = GRID.modulus_bits(len(CLIENTS), len(CLIENTS) * float(NOISE.share_variance()))
    rows = np.random.default_rng(1).standard_normal((len(CLIENTS), WIDTH))
    rounded = {c: round_row(GRID, rows[c], Streams(5).generator("round", 3, c)) for c in CLIENTS.tolist()}
    noise = {c: NOISE.draw(WIDTH, random_bits(streams, "noise", 3, c)) for c in CLIENTS.tolist()}
    summed = secure_sum(
        to_residues(np.stack([rounded[c] + noise[c].values for c in CLIENTS.tolist()]), bits),
        clients=CLIENTS,
        modulus_bits=bits,
        topology=TOPOLOGY,
        round_=3,
        dropouts=dropouts,
        fidelity=fidelity,
        reveal=lambda c, survivors: NOISE.removable(noise[c], survivors, random_bits(streams, "split", 3, c)),
    )
    return from_residues(summed.total, bits), sum(rounded[c] for c in summed.survivors.tolist()), summed


@pytest.mark.parametrize("streams", [Streams(9), Entropy()], ids=["simulation", "deployment"])
@pytest.mark.parametrize(
    ("dropouts", "variance"),
    [
        ({}, 500),
        ({"mask": {0, 1, 2}}, 500),
        ({"share": {7}, "mask": {1}}, 500),
        ({"mask": {1}, "unmask": {2, 3}}, 5 * 500 / 7 + 2 * 100),
    ],
)
def test_what_is_left_is_exactly_the_target_or_more(dropouts, variance, streams):
    total, rows, summed = noisy_sum("full", dropouts, streams)
    noise = total - rows
    assert remaining(NOISE, len(summed.survivors), len(summed.responders)) == pytest.approx(variance)
    spread = 5 * np.sqrt(2 / WIDTH)
    assert abs(noise.var() / variance - 1) < spread
    for wrong in ((2 / 3) ** 2, (3 / 2) ** 2):
        assert abs(noise.var() / (wrong * variance) - 1) > spread
    assert abs(noise.mean()) < 5 * np.sqrt(variance / WIDTH)


def test_the_same_seed_gives_the_same_sum_at_every_fidelity():
    dropouts = {"advertise": {4}, "mask": {1}, "unmask": {2}}
    totals = [noisy_sum(fidelity, dropouts, Streams(9))[0] for fidelity in ("exact", "masked", "full", "full")]
    assert all((total == totals[0]).all() for total in totals)
    assert (totals[0] != noisy_sum("exact", dropouts, Streams(10))[0]).any()


def test_the_event_is_that_of_the_rounded_vector():
    event = GRID.event(NOISE.variance)
    assert event.variance == 500
    assert event.l2_sensitivity == pytest.approx(GRID.clip_norm * GRID.scale, rel=0.011)
    rounded = round_row(GRID, np.full(WIDTH, 1.0), np.random.default_rng(0))
    assert np.linalg.norm(rounded) <= event.l2_sensitivity and np.abs(rounded).sum() <= event.l1_sensitivity
