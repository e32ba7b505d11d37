"""Noise and a sum for whichever trust is asked for, so that a mechanism's idea need not care.

* local: each client adds all of it to its own message.
* distributed: clients share it out, in integers (Skellam), and the server sees the sum alone, through the secure sum at
  any fidelity. With `aggregate.kind = "plain"` float shares and a plain sum stand in for it, at the same price, but
  nothing covers the low bits of their sum (`perturb/shares.py`).
* central: a trusted server adds it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from sordino.account.accountants.exact import separation_for
from sordino.account.accountants.lattice import LARGEST_VARIANCE
from sordino.aggregate.dither import Dither
from sordino.aggregate.integers import Grid
from sordino.aggregate.plain import PlainSum
from sordino.aggregate.secure_sum import SecureSum
from sordino.aggregate.sharded_sum import ShardedSum
from sordino.errors import RecipeError
from sordino.mechanism import Aggregator, Perturber
from sordino.mechanisms.facts import PublicFacts
from sordino.perturb.gaussian import CentralGaussian, LocalGaussian
from sordino.perturb.integer_shares import IntegerShares
from sordino.perturb.sharded import ShardedShares
from sordino.perturb.shares import GaussianShares
from sordino.terms import Sharding
from sordino.types import Adjacency, Trust, Unit

_COARSER = (0.015, 0.02, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.125, 0.2, 0.3, 0.5, 1.0)
"""Shares by which rounding may raise the sensitivity where a finer grid would need too wide a noise."""


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
    noise: float | None = None,
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
        noise: the noise multiplier that integers are laid out for, if known; else the most that rounds can need.
        thin: whether shared noise is brought down to the target once survivors are counted (distributed).

    Raises:
        RecipeError: `replace` is a promise about single messages; sums hide presence.
    """
    if adjacency == "replace" and trust != "local":
        raise RecipeError(f"mechanism.adjacency is 'replace', which {trust} trust does not promise: leave it out")
    hides: Adjacency = "add_remove" if unit == "record" else adjacency
    if trust == "distributed":
        return _shared(unit, clip_norm, facts, denominator, hides, sampling_rate, noise, thin)
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
    noise: float | None,
    thin: bool,
) -> NoiseAndSum:
    if not facts.secure:
        shares = GaussianShares(unit, adjacency, facts.tolerance, sampling_rate, thin, facts.vanishing)
        return NoiseAndSum(shares, PlainSum(denominator, facts.tolerance))
    if facts.tolerance + facts.corrupt / 2 >= 0.5:
        raise RecipeError(
            f"aggregate.tolerance is {facts.tolerance:g} and aggregate.corrupt {facts.corrupt:g}: "
            "a secure sum needs tolerance + corrupt / 2 below 0.5"
        )
    rounding = _rounding(unit, clip_norm, facts, noise)
    integers = IntegerShares(
        rounding, unit, adjacency, facts.tolerance, sampling_rate, facts.corrupt, thin, facts.vanishing
    )
    secure = SecureSum(
        denominator, facts.tolerance, integers.modulus_bits, facts.fidelity, facts.corrupt, rounding.scale
    )
    return NoiseAndSum(integers, secure) if facts.shards == 1 else _sharded(integers, secure, facts)


def _sharded(integers: IntegerShares, secure: SecureSum, facts: PublicFacts) -> NoiseAndSum:
    """Returns the parts for a cohort that is summed in shards.

    Raises:
        RecipeError: the shards would be too small, or too few for the rule.
    """
    sharding = Sharding(facts.shards, facts.tolerance, facts.corrupt)
    least, most = 2 * facts.trim + 1 if facts.combine == "trimmed_mean" else 3, int(facts.expected / 10)
    if not least <= facts.shards <= most:
        raise RecipeError(
            f"aggregate.shards is {facts.shards}: {facts.combine} needs at least {least}, and a cohort of "
            f"{facts.expected:g} has at most {most} with 10 clients each; change it, aggregate.trim, or the cohort"
        )
    if facts.tolerance + facts.corrupt * facts.shards / 2 >= 0.5:
        raise RecipeError(
            f"aggregate.corrupt is {facts.corrupt:g}, and all of these may sit in one of {facts.shards} shards: it "
            "needs tolerance + corrupt · shards / 2 below 0.5; take fewer shards"
        )
    shares = ShardedShares(integers, sharding)
    whole = {field.name: getattr(secure, field.name) for field in fields(SecureSum)}
    summing = ShardedSum(
        **whole, sharding=sharding, rule=facts.combine, trim=facts.trim, shard_bits=shares.modulus_bits
    )
    return NoiseAndSum(shares, summing)


def _rounding(unit: Unit, clip_norm: float, facts: PublicFacts, noise: float | None) -> Grid | Dither:
    """Returns how floats become integers: as finely as is set, or more coarsely where noise would be too wide else.

    Noise of at most 2^30 in variance is drawn, and priced as the Gaussian that dominates it; a coarser grid keeps it
    there. Whatever the grid, the price is that of the rounded vectors' sensitivity (`Grid.event`, `Dither.event`).
    What is needed is at most the noise of plain releases, as long as rounding does not cost more than the noise again;
    noise that is set is followed in any case: beside 2^15 steps of it, rounding to one step is nothing.
    """
    fine = _layout(unit, clip_norm, facts, facts.rounding)
    if noise is not None:
        needed = noise
    elif facts.target.epsilon is not None:
        separation = separation_for(facts.target.epsilon, facts.target.delta)
        needed = math.sqrt(facts.rounds) / facts.left / separation
    else:
        return fine
    tried = [facts.rounding, *(share for share in _COARSER if share > facts.rounding)]
    found = (_layout(unit, clip_norm, facts, share) for share in tried)
    fits = next((one for one in found if _variance(one, needed) <= LARGEST_VARIANCE), None)
    if fits is not None or noise is None:
        return fits or fine
    widest = math.sqrt(LARGEST_VARIANCE) * (1 - 1e-9) / (clip_norm * noise)
    return replace(fine, scale=min(fine.scale, widest))


def _variance(rounding: Grid | Dither, noise_multiplier: float) -> float:
    """Returns the variance in integers that this multiplier of the rounded sensitivity needs, with a margin."""
    return (1.02 * noise_multiplier * rounding.event(1.0).l2_sensitivity) ** 2


def _layout(unit: Unit, clip_norm: float, facts: PublicFacts, inflation: float) -> Grid | Dither:
    width = facts.layout.width
    if unit == "client":
        return Grid.fine(width, clip_norm, inflation)
    return Dither.fine(width, clip_norm, facts.most_in_all, inflation)
