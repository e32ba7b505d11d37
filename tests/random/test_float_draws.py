"""The float radius of error, against an independent library: on many points, in the tails, and near one."""

import mpmath
import numpy as np
import pytest

from draws import gaussian, laplace, more, words
from sordino.random.float_draws import RADIUS, Gaussian, LaplaceDraws

EDGES = [0, 1, 2, 3, 2**10, 2**20, 2**32, 2**46, 2**47, 2**48, 2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2**47]
EDGES += [2**64 - 2**46, 2**64 - 2**20, 2**64 - 2**11, 2**64 - 2, 2**64 - 1, 3 * 2**62, 2**61, 7 * 2**61]


def table(count):
    """Words at random, words with few bits set on either side, and all pairs of edges."""
    some = words(1, count, 8)[0]
    tails = some[: count // 4] >> (np.arange(count // 4, dtype=np.uint64) % np.uint64(64))
    pairs = np.array([(a, b) for a in EDGES for b in EDGES], np.uint64)
    lengths = np.concatenate([some[: count // 2], tails, ~tails, pairs[:, 0]])
    angles = np.concatenate([some[count // 2 :], tails[::-1], tails[::-1], pairs[:, 1]])
    return np.concatenate([lengths, angles])[None, :]


@pytest.mark.parametrize("law", [Gaussian, LaplaceDraws])
def test_true_draws_lie_within_the_radius(law):
    numbers = table(4000)
    draws = law(1.0, numbers, more)
    columns = np.arange(numbers.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        fast = draws.fast(numbers)[0]
        close, radius = draws.close(np.zeros_like(columns), columns)
    assert np.isfinite(fast).mean() > 0.5
    nearest, common = 0.0, 0.0
    with mpmath.workprec(300):
        for column in columns:
            truth = (gaussian if law is Gaussian else laplace)(numbers, 0, int(column))
            if np.isfinite(fast[column]):
                common = max(common, float(abs(truth - mpmath.mpf(fast[column])) / RADIUS))
            if np.isfinite(close[column]) and np.isfinite(radius[column]):
                nearest = max(nearest, float(abs(truth - mpmath.mpf(close[column])) / mpmath.mpf(radius[column])))
    assert 0.01 < common < 1 and 0.01 < nearest < 1, (common, nearest)


@pytest.mark.parametrize(("function", "oracle", "low", "high"), [
    (np.log, mpmath.log, 2.0**-63, 1.0),
    (np.tan, mpmath.tan, -np.pi / 2, np.pi / 2),
])  # fmt: skip
def test_the_float_library_keeps_what_the_radius_assumes(function, oracle, low, high):
    draw = np.random.default_rng(1)
    points = np.concatenate(
        [draw.uniform(low, high, 3000), np.nextafter([low, high], 0), high * 2.0 ** -draw.uniform(0, 60, 3000)]
    )
    values = function(points)
    with mpmath.workprec(300):
        for point, value in zip(points, values, strict=True):
            assert abs(oracle(mpmath.mpf(point)) - mpmath.mpf(value)) <= 8 * np.spacing(abs(value))
