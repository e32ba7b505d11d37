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
    set_noise: float | None = None,
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
        set_noise: the largest noise multiplier of any round, where the user set it and nothing is calibrated.

    Raises:
        RecipeError: `replace` is a promise about single messages; sums hide presence.
    """
    if adjacency == "replace" and trust != "local":
        raise RecipeError(f"mechanism.adjacency is 'replace', which {trust} trust does not promise: leave it out")
    hides: Adjacency = "add_remove" if unit == "record" else adjacency
    if trust == "distributed":
        return _shared(unit, clip_norm, facts, denominator, hides, sampling_rate, set_noise)
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
    set_noise: float | None,
) -> NoiseAndSum:
    if not facts.secure:
        shares = GaussianShares(unit, adjacency, facts.tolerance, sampling_rate)
        return NoiseAndSum(shares, PlainSum(denominator, facts.tolerance))
    if facts.tolerance + facts.corrupt / 2 >= 0.5:
        raise RecipeError(
            f"aggregate.tolerance is {facts.tolerance:g} and aggregate.corrupt {facts.corrupt:g}: "
            "a secure sum needs tolerance + corrupt / 2 below 0.5"
        )
    rounding = _rounding(unit, clip_norm, facts, set_noise)
    integers = IntegerShares(rounding, unit, adjacency, facts.tolerance, sampling_rate, facts.corrupt)
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


def _inflation(facts: PublicFacts) -> float:
    """Returns by what share rounding may raise the sensitivity: as set, or more where noise would be too wide else.

    Noise of at most 2^30 in variance is drawn, and priced as the Gaussian that dominates it. With a share s the
    sensitivity is (1 + s)·√d/s in integers, so the noise that plain releases need fits if needed·√d·(1 + 1/s) ≤ 2^15; a
    grid that would have to cost more than the noise again is not taken.
    """
    if facts.target.epsilon is None:
        return facts.rounding
    needed = math.sqrt(facts.rounds) / separation_for(facts.target.epsilon, facts.target.delta)
    room = math.sqrt(LARGEST_VARIANCE) / (math.sqrt(facts.layout.width) * 1.1 * needed)
    return max(facts.rounding, 1 / (room - 1)) if room >= 2 else facts.rounding


def _rounding(unit: Unit, clip_norm: float, facts: PublicFacts, set_noise: float | None) -> Grid | Dither:
    """Returns the grid, or a coarser one for noise that is set so high that it would be too wide to draw.

    Whatever the grid, the price is that of the rounded vectors' sensitivity (`Grid.event`, `Dither.event`). Beside
    noise of 2^15 steps, rounding to a step is nothing.
    """
    width, inflation = facts.layout.width, _inflation(facts)
    if unit == "client":
        fine: Grid | Dither = Grid.fine(width, clip_norm, inflation)
    else:
        fine = Dither.fine(width, clip_norm, facts.most_in_all, inflation)
    widest = math.sqrt(LARGEST_VARIANCE) * (1 - 1e-9) / (clip_norm * set_noise) if set_noise else math.inf
    return fine if fine.scale <= widest else replace(fine, scale=widest)
