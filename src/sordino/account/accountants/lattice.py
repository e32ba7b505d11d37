"""How Gaussian integer noise is: the least Gaussian that dominates every shift of it (docs/accounting.md).

Write F for the distribution function of the noise on one coordinate and Z(j) = Φ⁻¹(F(j)). Telling "shifted by k" from
"not shifted" is done best by a threshold, and threshold j has the errors of two Gaussians at distance Z(j) − Z(j−k).
So the pair is dominated by Gaussians at distance k·g, where g is the largest step Z(j) − Z(j−1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri_exp

from sordino.errors import AccountingError
from sordino.types import FloatArray

LARGEST_VARIANCE = 2.0**30
"""Of Skellam noise: the recurrence takes a number of steps that grows with its root."""
_SMALLEST = -690.0
"""Natural logarithm of the smallest probability that is looked at."""
_CHECKED = -665.0
_FORGOTTEN = math.log(1e-150)
_WIDE = 4096.0
_MARGIN = 1e-6
"""Relative margin on the step, far above the rounding errors of its computation (below 1e-7 at variance 2^30)."""


@dataclass(frozen=True)
class Domination:
    """Shifts by k ≤ `reach` cost no more than Gaussians at distance k·`step`, but for a chance of 10⁻¹⁵⁰."""

    step: float
    reach: int


@lru_cache(maxsize=4096)
def skellam(variance: float) -> Domination:
    """Returns the Gaussian that dominates Skellam noise; its variance is about `variance` − 1/3.

    Formal guarantees: the mass function is P(0)·Π r_i with r_i = I_{i+1}/I_i at `variance`; the ratios come from the
    recurrence r_{i−1} = 1/(2i/variance + r_i), which forgets its start when it runs downwards.
    """
    if not (math.isfinite(variance) and 0 < variance <= LARGEST_VARIANCE):
        raise AccountingError(f"variance {variance:g} of Skellam noise must lie in (0, 2^30]")
    top = math.ceil(44 * math.sqrt(variance) + 150)
    ratio, ratios = variance / (top + 0.5 + math.hypot(variance, top + 1.0)), list[float]()
    for term in (2 * np.arange(top, 0, -1) / variance).tolist():  # lists: the steps cannot be made all at once
        ratio = 1 / (term + ratio)
        ratios.append(ratio)
    return _domination(np.concatenate([[0.0], np.cumsum(np.log(ratios[::-1]))]))


@lru_cache(maxsize=4096)
def discrete_gaussian(stddev: float) -> Domination:
    """Returns the Gaussian that dominates discrete Gaussian noise; its variance is about stddev² − 1/12.

    Formal guarantees: above stddev 4096 it is stddev² − 18, by another argument: a Gaussian of that variance, rounded
    at random by a discrete Gaussian of variance 18, is the noise but for a factor within 1 ± 10⁻¹⁵³.
    """
    if not (math.isfinite(stddev) and stddev > 0):
        raise AccountingError(f"stddev {stddev:g} of discrete Gaussian noise must be finite and above 0")
    if stddev > _WIDE:
        return Domination((stddev**2 - 18) ** -0.5, 2**62)
    return _domination(-(np.arange(math.ceil(38 * stddev) + 3) ** 2) / (2 * stddev**2))


def _domination(log_mass: FloatArray) -> Domination:
    """Returns the largest step of Z for a symmetric, log-concave mass function, given at 0, 1, 2, … up to a factor."""
    log_mass = log_mass[log_mass > _SMALLEST]
    mass = np.exp(log_mass)
    above = np.cumsum(mass[::-1])[::-1]  # P(X ≥ j), up to the factor
    log_above = np.log(above) - math.log(2 * above[0] - mass[0])
    # Beyond `checked` the sums lack what was cut off; up to there that is less than 1e-10 of them.
    checked = max(2, int(np.count_nonzero(log_above > _CHECKED)))
    z = -ndtri_exp(log_above[:checked])  # Z(−1), Z(0), Z(1), …; negative places mirror these
    reach = checked - int(np.count_nonzero(log_above > _FORGOTTEN)) - 2
    return Domination(float(np.diff(z).max()) * (1 + _MARGIN), max(0, reach))
