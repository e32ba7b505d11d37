"""Parameters of events, checked: one sentence that names the one that is out of range."""

from __future__ import annotations

import math

from sordino.errors import AccountingError, UnknownEvent
from sordino.events import DiscreteGaussian, SampledWithoutReplacementDpEvent, Skellam

_SMALLEST_SUMMAND = 6.0


def require_positive(name: str, value: float) -> None:
    """Raises an AccountingError unless the value is finite and above zero."""
    if not (math.isfinite(value) and value > 0):
        raise AccountingError(f"{name} {value} must be finite and above 0")


def require_skellam(event: Skellam) -> None:
    """Raises an AccountingError unless variance and sensitivities are finite and above zero."""
    for name in ("variance", "l2_sensitivity", "l1_sensitivity"):
        require_positive(name, getattr(event, name))


def require_discrete(event: DiscreteGaussian) -> None:
    """Raises an AccountingError unless the noise is a discrete Gaussian, or a sum that cannot be told from one.

    Formal guarantees: the mass function of a sum of n discrete Gaussians of parameter s each differs from the one of
    parameter s·√n by a factor within 1 ± 5n·exp(−π²s²), which is 1 ± n·10⁻¹⁵³ for s ≥ 6 (docs/accounting.md).
    """
    for name in ("stddev", "l2_sensitivity", "summands"):
        require_positive(name, getattr(event, name))
    if event.summands > 1 and event.stddev < _SMALLEST_SUMMAND * math.sqrt(event.summands):
        raise UnknownEvent(
            f"stddev {event.stddev:g} leaves less than {_SMALLEST_SUMMAND:g} to each of {event.summands} discrete "
            "Gaussians, whose sum is then no discrete Gaussian: choose a finer grid, or Skellam noise"
        )


def require_cohort(event: SampledWithoutReplacementDpEvent) -> None:
    """Raises an AccountingError unless the cohort is at least one and at most everybody."""
    if not 0 < event.sample_size <= event.source_dataset_size:
        raise AccountingError(f"sample_size {event.sample_size} must lie in 1 … {event.source_dataset_size}")
