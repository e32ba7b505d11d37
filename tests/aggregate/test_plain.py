"""What a sum says of the noise in it, as messages are added and shares are taken away again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conftest import turn_of
from sordino.aggregate.integers import Grid
from sordino.aggregate.plain import PlainSum
from sordino.aggregate.secure_sum import SecureSum
from sordino.bound.l2 import Clip
from sordino.mechanism import Aggregator, Perturber
from sordino.perturb.integer_shares import IntegerShares
from sordino.perturb.shares import GaussianShares
from sordino.stages import Bounded
from sordino.terms import Survivors, Vanished

COHORT, WIDTH, MULTIPLIER, TOLERANCE = 10, 6, 2.0, 0.4
INTEGERS = IntegerShares(Grid.fine(WIDTH, 1.0, 0.01), tolerance=TOLERANCE)
WAYS = [
    (GaussianShares(tolerance=TOLERANCE), PlainSum(10.0, TOLERANCE)),
    (INTEGERS, SecureSum(10.0, TOLERANCE, INTEGERS.modulus_bits)),
]


@pytest.mark.parametrize(("perturber", "aggregator"), WAYS)
@pytest.mark.parametrize("answering", [COHORT, 7, 0])
def test_what_is_revealed_is_taken_from_the_stated_noise(
    perturber: Perturber, aggregator: Aggregator, answering: int
) -> None:
    """All survive: drawn for six, n shares of z²/6; each that reveals leaves z²/10 of it."""
    turn = turn_of(1, WIDTH, COHORT, clip_norm=1.0, noise_multiplier=MULTIPLIER)
    clients, bound = turn.cohort, Clip().sensitivity(turn.knobs)
    bounded = Bounded(clients, torch.zeros(COHORT, WIDTH), torch.ones(COHORT), torch.zeros(COHORT).bool(), bound)
    sent = perturber.shield(bounded, turn)
    partial = aggregator.add(aggregator.start(turn.terms, bound), sent.message)
    assert sent.kept is not None
    revealed = perturber.reveal(sent.kept, Survivors(1, clients), turn)
    assert revealed is not None
    there = np.arange(COHORT) < answering
    shown = type(revealed)(clients[there], revealed.rows[there], revealed.squared_multipliers[there])
    partial = aggregator.subtract(partial, shown) if answering else partial
    summed = aggregator.finish(partial, Vanished())
    expected = MULTIPLIER**2 * (answering / COHORT + (COHORT - answering) / 6)
    assert summed.squared_multiplier == pytest.approx(expected)
    released = perturber.release(summed, turn)
    assert released.stddev == pytest.approx(expected**0.5 / 10)
    assert released.prices == perturber.price(turn.knobs)
