"""How much noise the rounds to come need, when the rest of a schedule is changed under way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from scipy.optimize import brentq

from sordino.account.accountants.filter import Filter
from sordino.events import DpEvent
from sordino.types import Adjacency

_PRECISION = 1e-11
"""How exactly the logarithm of a level is found; ε follows the level with an exponent of about 1."""
_STEP, _LARGEST = 1.5, 16.0
"""How logarithms of levels are searched for: in which steps, and how far."""


class Refit(Protocol):
    """Finds a noise level for the rest of a run."""

    def level(self, past: Sequence[float], shape: Sequence[float]) -> float | None:
        """Returns the level z: the rounds to come use multipliers z·shape. None when nothing is left to spend.

        Args:
            past: noise multipliers of the rounds that were played.
            shape: relative noise of the rounds that are still to come, in order.
        """


class PaidEvent(Protocol):
    """One bounded guarantee of a schedule's releases (`mechanisms.facts.PaidRelease`)."""

    @property
    def adjacency(self) -> Adjacency:
        """The promise's adjacency."""

    @property
    def count(self) -> int:
        """How many of the releases one client pays for at most."""

    def event(self, noise_multiplier: float) -> DpEvent:
        """Returns what a release with this noise costs."""


def dearest(release: PaidEvent, multipliers: Sequence[float]) -> dict[DpEvent, int]:
    """Returns the dearest history that a client can have: the `count` releases with the least noise."""
    return dict(Counter(release.event(z) for z in sorted(multipliers)[: release.count]))


@dataclass(frozen=True)
class FilterRefit:
    """The least level with which every guarantee's filter admits past and future together.

    **Formal guarantees**: past releases count at what they cost, future ones at what they will, and the sum is admitted
    by the filter that was fixed at the start. So whenever, and however often, and from whatever was released the rest
    of a schedule is changed, the whole is (ε, δ)-private.
    **Edge cases**: None when the past alone has spent everything; no rounds to come need no noise (level 0).
    """

    releases: tuple[tuple[PaidEvent, Filter], ...]

    def level(self, past: Sequence[float], shape: Sequence[float]) -> float | None:
        levels = [self._least(release, filter_, past, shape) for release, filter_ in self.releases]
        return (
            None if any(level is None for level in levels) else max((z for z in levels if z is not None), default=0.0)
        )

    def _least(
        self, release: PaidEvent, filter_: Filter, past: Sequence[float], shape: Sequence[float]
    ) -> float | None:
        if not shape:
            return 0.0
        capacity = filter_.capacity * (1 - _PRECISION)  # whoever else adds the costs up must not end above it

        def excess(log_level: float) -> float:
            """Returns by how much the logarithm of the cost is above that of the capacity."""
            history = dearest(release, [*past, *(math.exp(log_level) * part for part in shape)])
            return math.log(filter_.cost(history, release.adjacency) / capacity)

        low, high = -_STEP, 0.0
        while excess(high) > 0:
            low, high = high, high + _STEP
            if high > _LARGEST:
                return None
        while excess(low) <= 0:
            low, high = low - _STEP, low
            if low < -_LARGEST:
                return math.exp(low)
        # cost is close to a power of the level, so a secant in logarithms needs few evaluations
        level = float(brentq(excess, low, high, xtol=_PRECISION))
        while excess(level) > 0:
            level += _PRECISION
        return math.exp(level)
