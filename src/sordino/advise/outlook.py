"""How much noise a round of a mechanism will have, and beside what signal: before anything is played."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sordino.mechanism import Mechanism
from sordino.perturb.gaussian import CentralGaussian, LocalGaussian
from sordino.perturb.integer_shares import IntegerShares
from sordino.perturb.shares import GaussianShares
from sordino.perturb.steps import StepNoise
from sordino.printable import counted

_IN_THE_SUM = (CentralGaussian, GaussianShares, IntegerShares)
"""Noise that a sum has once, however many take part."""


@dataclass(frozen=True)
class Outlook:
    """A round's noise and its longest possible signal.

    **Formal guarantees**: a function of settings and declared numbers alone; no record is looked at, so it costs
    nothing and may be published.
    """

    signal: float
    """Longest possible norm of the released mean."""
    stddev: float
    """Noise standard deviation on each coordinate of the released mean."""
    parameters: int

    @property
    def signal_to_noise(self) -> float:
        """The longest possible mean over the expected norm of its noise, √parameters · stddev."""
        noise = self.stddev * math.sqrt(self.parameters)
        return self.signal / noise if noise else math.inf


def expected(stddev: float, signal_to_noise: float, rounds: int) -> str:
    """Returns what to expect of a run, in words; advice and the first lines of a run say it alike."""
    return (
        f"expected: noise {stddev:.3g} on each coordinate of the released mean, signal to noise {signal_to_noise:.3g} "
        f"in each of {counted(rounds, 'round')} (the longest possible signal: real updates are shorter)"
    )


def outlook(mechanism: Mechanism, population: int, records: float, parameters: int) -> Outlook | None:
    """Returns what the first round will be like; None where noise is not plain Gaussian and is told by the run alone.

    Args:
        mechanism: composed and calibrated.
        population: declared clients.
        records: declared records of all clients together.
        parameters: of the model.
    """
    knobs = mechanism.adapter.start()
    bound = mechanism.bounder.sensitivity(knobs)
    weight = getattr(mechanism.aggregator, "denominator", None)
    cohort, noise = mechanism.selector.expected(population), mechanism.perturber
    if isinstance(noise, StepNoise):
        step = knobs.clip_norm * noise.step_stddev
        batch = noise.sampling_rate * records / population
        stddev = knobs.noise_multiplier * step * math.sqrt(noise.steps / cohort)
        return Outlook(step * batch * noise.steps, stddev, parameters)
    if bound is None or weight is None or type(noise) not in (*_IN_THE_SUM, LocalGaussian):
        return None
    each = knobs.noise_multiplier * bound.norm / weight
    stddev = each * math.sqrt(cohort) if isinstance(noise, LocalGaussian) else each
    return Outlook(bound.norm if mechanism.unit == "record" else bound.norm * cohort / weight, stddev, parameters)
