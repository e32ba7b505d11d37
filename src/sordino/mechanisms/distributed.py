"""Distributed trust, put together: clients share the noise out, and the server sees the sum alone.

Two ways to do the same. Gaussian shares with a plain sum stand in for a secure one in simulation: the fastest, with the
tightest accountant. Skellam shares in integers, through the secure sum itself (`aggregate.kind = "secure"`), are what a
deployment does, at any fidelity.
"""

from __future__ import annotations

from dataclasses import dataclass

from sordino.aggregate.dither import Dither
from sordino.aggregate.integers import Grid
from sordino.aggregate.plain import PlainSum
from sordino.aggregate.secure_sum import SecureSum
from sordino.errors import RecipeError
from sordino.mechanism import Aggregator, Perturber
from sordino.mechanisms.facts import Options, Setting
from sordino.perturb.integer_shares import IntegerShares
from sordino.perturb.shares import GaussianShares
from sordino.types import Adjacency, Unit


@dataclass(frozen=True)
class SharedNoise:
    """Who noises, who sums, and with which noise multiplier."""

    perturber: Perturber
    aggregator: Aggregator
    multiplier: float


def shared_noise(
    options: Options, setting: Setting, unit: Unit, denominator: float, sampling_rate: float = 1.0
) -> SharedNoise:
    """Returns noise shares and the sum that goes with them, calibrated on their own event.

    Args:
        options: the mechanism's settings (clip norm, noise multiplier if it is set).
        setting: public facts.
        unit: `client`: rows of norm at most clip_norm; `record`: rows that are sums of such vectors, one a record.
        denominator: the public constant that the sum is divided by.
        sampling_rate: probability that a record is in a round's batch (record unit).
    """
    adjacency: Adjacency = "add_remove" if unit == "record" else "zero_out"
    if not setting.secure:
        shares = GaussianShares(unit, adjacency, setting.tolerance, sampling_rate)
        plain = PlainSum(denominator, setting.tolerance)
        return SharedNoise(shares, plain, setting.calibrate(options, shares.prices))
    if setting.tolerance + setting.corrupt / 2 >= 0.5:
        raise RecipeError(
            f"aggregate.tolerance is {setting.tolerance:g} and aggregate.corrupt {setting.corrupt:g}: "
            "a secure sum needs tolerance + corrupt / 2 below 0.5"
        )
    rounding = _rounding(options, setting, unit)
    integers = IntegerShares(rounding, unit, adjacency, setting.tolerance, sampling_rate, setting.corrupt)
    secure = SecureSum(denominator, setting.tolerance, integers.modulus_bits, setting.fidelity, setting.corrupt)
    return SharedNoise(integers, secure, setting.calibrate(options, integers.prices))


def _rounding(options: Options, setting: Setting, unit: Unit) -> Grid | Dither:
    width = setting.layout.width
    if unit == "client":
        return Grid.fine(width, options.clip_norm, setting.rounding)
    return Dither.fine(width, options.clip_norm, int(setting.sizes.sum()), setting.rounding)
