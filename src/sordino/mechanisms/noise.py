"""Noise and a sum for whichever trust is asked for, so that a mechanism's idea need not care.

* local: each client adds all of it to its own message.
* distributed: clients share it out, in integers (Skellam), and the server sees the sum alone, through the secure sum at
  any fidelity. With `aggregate.kind = "plain"` float shares and a plain sum stand in for it, at the same price, but
  nothing covers the low bits of their sum (`perturb/shares.py`).
* central: a trusted server adds it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sordino.account.accountants.exact import separation_for
from sordino.account.accountants.lattice import LARGEST_VARIANCE
from sordino.aggregate.dither import Dither
from sordino.aggregate.integers import Grid
from sordino.aggregate.plain import PlainSum
from sordino.aggregate.secure_sum import SecureSum
from sordino.errors import RecipeError
from sordino.mechanism import Aggregator, Perturber
from sordino.mechanisms.facts import PublicFacts
from sordino.perturb.gaussian import CentralGaussian, LocalGaussian
from sordino.perturb.integer_shares import IntegerShares
from sordino.perturb.shares import GaussianShares
from sordino.types import Adjacency, Trust, Unit


@dataclass(frozen=True)
class NoiseAndSum:
    """Who adds noise, and who sums."""

    perturber: Perturber
    aggregator: Aggregator


def noise_for(
    trust: Trust,
    unit: Unit,
    clip_norm: float,
    facts: PublicFacts,
    denominator: float,
    adjacency: Adjacency = "zero_out",
    sampling_rate: float = 1.0,
    thin: bool = True,
) -> NoiseAndSum:
    """Returns noise under this trust, and the sum that goes with it.

    Args:
        trust: who adds the noise.
        unit: `client`: rows of norm at most clip_norm; `record`: rows that are sums of such vectors, one a record.
        clip_norm: what integers are laid out for, where a secure sum needs them.
        facts: public facts.
        denominator: the public constant that the sum is divided by.
        adjacency: what a single message hides (client unit; records come and go: add_remove).
        sampling_rate: probability that a record is in a round's batch (record unit).
        thin: whether shared noise is brought down to the target once survivors are counted (distributed).

    Raises:
        RecipeError: `replace` is a promise about single messages; sums hide presence.
    """
    if adjacency == "replace" and trust != "local":
        raise RecipeError(f"mechanism.adjacency is 'replace', which {trust} trust does not promise: leave it out")
    hides: Adjacency = "add_remove" if unit == "record" else adjacency
    if trust == "distributed":
        return _shared(unit, clip_norm, facts, denominator, hides, sampling_rate, thin)
    if trust == "central":
        return NoiseAndSum(CentralGaussian(unit, hides, sampling_rate), PlainSum(denominator))
    least = facts.least_survivors
    return NoiseAndSum(LocalGaussian(unit, hides, least), PlainSum(denominator, least=least))


def _shared(
    unit: Unit,
    clip_norm: float,
    facts: PublicFacts,
    denominator: float,
    adjacency: Adjacency,
    sampling_rate: float,
    thin: bool,
) -> NoiseAndSum:
    if not facts.secure:
        shares = GaussianShares(unit, adjacency, facts.tolerance, sampling_rate, thin)
        return NoiseAndSum(shares, PlainSum(denominator, facts.tolerance))
    if facts.tolerance + facts.corrupt / 2 >= 0.5:
        raise RecipeError(
            f"aggregate.tolerance is {facts.tolerance:g} and aggregate.corrupt {facts.corrupt:g}: "
            "a secure sum needs tolerance + corrupt / 2 below 0.5"
        )
    rounding = _rounding(unit, clip_norm, facts)
    integers = IntegerShares(rounding, unit, adjacency, facts.tolerance, sampling_rate, facts.corrupt, thin)
    secure = SecureSum(
        denominator, facts.tolerance, integers.modulus_bits, facts.fidelity, facts.corrupt, rounding.scale
    )
    return NoiseAndSum(integers, secure)


def _inflation(facts: PublicFacts) -> float:
    """Returns by what share rounding may raise the sensitivity: as set, or more where noise would be too wide else.

    Noise of at most 2^30 in variance is priced as the Gaussian that dominates it; a coarser grid keeps it there, as
    long as rounding then costs no more than a twentieth. What is needed is at most the noise of plain releases.
    """
    if facts.target.epsilon is None:
        return facts.rounding
    needed = math.sqrt(facts.rounds) / separation_for(facts.target.epsilon, facts.target.delta)
    coarse = math.sqrt(facts.layout.width) * 1.1 * needed / math.sqrt(LARGEST_VARIANCE)
    return max(facts.rounding, coarse) if coarse <= 0.05 else facts.rounding


def _rounding(unit: Unit, clip_norm: float, facts: PublicFacts) -> Grid | Dither:
    width, inflation = facts.layout.width, _inflation(facts)
    if unit == "client":
        return Grid.fine(width, clip_norm, inflation)
    return Dither.fine(width, clip_norm, facts.most_in_all, inflation)
