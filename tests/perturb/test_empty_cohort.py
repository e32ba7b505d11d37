"""Where nobody's coin fell, what is released still carries the noise that is charged: an outsider must not see it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conftest import turn_of
from oracles import assert_normal
from sordino.aggregate.integers import Grid
from sordino.aggregate.plain import PlainSum
from sordino.aggregate.secure_sum import SecureSum
from sordino.bound.l2 import Clip
from sordino.mechanism import Aggregator, Perturber
from sordino.perturb.integer_shares import IntegerShares
from sordino.perturb.shares import GaussianShares
from sordino.terms import Vanished

WIDTH, CLIP, MULTIPLIER, DENOMINATOR = 400, 0.25, 3.0, 7.0

INTEGERS = IntegerShares(Grid.fine(WIDTH, CLIP, 0.01))
WAYS = [
    (GaussianShares(), PlainSum(DENOMINATOR)),
    (GaussianShares(tolerance=0.3), PlainSum(DENOMINATOR, 0.3)),
    (INTEGERS, SecureSum(DENOMINATOR, 0.0, INTEGERS.modulus_bits)),
    (INTEGERS, SecureSum(DENOMINATOR, 0.0, INTEGERS.modulus_bits, "full")),
]


@pytest.mark.parametrize(("perturber", "aggregator"), WAYS)
def test_an_empty_cohort_releases_the_noise_that_is_charged(perturber: Perturber, aggregator: Aggregator) -> None:
    draws = []
    for round_ in range(1, 6):
        turn = turn_of(round_, WIDTH, 0, clip_norm=CLIP, noise_multiplier=MULTIPLIER)
        empty = aggregator.start(turn.terms, Clip().sensitivity(turn.knobs))
        released = perturber.release(aggregator.finish(empty, Vanished()), turn)
        assert released.stddev == pytest.approx(MULTIPLIER * CLIP / DENOMINATOR)
        assert released.prices == perturber.price(turn.knobs, round_)
        draws.append(released.mean)
    assert_normal(torch.stack(draws).numpy(), MULTIPLIER * CLIP / DENOMINATOR)
    assert len(np.unique(torch.stack(draws).numpy(), axis=0)) == len(draws)
