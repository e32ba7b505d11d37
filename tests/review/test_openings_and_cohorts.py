"""A release of everybody before rounds of drawn cohorts: both are in one promise, and the run comes to its end."""

import numpy as np
import pytest

from sordino import run
from sordino.data.federation import Federation
from sordino.data.public import PublicCounts

DRAWN = {"fixed": {"kind": "fixed", "size": 5}, "poisson": {"kind": "poisson", "rate": 0.2}}


@pytest.mark.parametrize(("kind", "hides", "rounds"), [("fixed", "zero_out", 3), ("poisson", "add_remove", 14)])
@pytest.mark.parametrize("mechanism", ["dp_fedavg", "dropout_robust"])
def test_an_opening_goes_with_drawn_cohorts(tmp_path, mechanism, kind, hides, rounds):
    """It ended a central run of fixed cohorts after the opening, and a Poisson run without a certificate."""
    x = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)
    data = Federation.of(x, (x[:, 0] > 0).astype(int), None, None, 2, public=PublicCounts(30, 30, 2))
    costs = {}
    for share in (0.0, 0.5):
        outcome = run(
            federation=data,
            out=tmp_path / f"{share}",
            progress=False,
            mechanism={"name": mechanism, "noise_multiplier": 4.0},
            budget={"epsilon": 3.0},
            select=DRAWN[kind],
            opening={"feature_mean": share},
            run={"rounds": rounds},
        )
        (told,) = [one for one in outcome.certificate.entries if one.observer == "outsider"]
        assert (outcome.rounds, outcome.stopped, told.adjacency) == (rounds, "rounds", hides)
        costs[share] = told.epsilon
    assert costs[0.5] > costs[0.0] + 0.2
