"""How much noise the rounds to come need, when the rest of a schedule is changed under way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sordino.account.filter import Filter
from sordino.events import DpEvent
from sordino.types import Adjacency

_PRECISION = 1e-10
"""Relative width at which a bisection over noise stops; ε follows noise with an exponent of about 1."""
_LARGEST = 1e9


class Refit(Protocol):
    """Finds a noise level for the rest of a run."""

    def level(self, past: Sequence[float], shape: Sequence[float]) -> float | None:
        """Returns the level z: the rounds to come use multipliers z·shape. None when nothing is left to spend.

        Args:
            past: noise multipliers of the rounds that were played.
            shape: relative noise of the rounds that are still to come, in order.
        """


@dataclass(frozen=True)
class Line:
    """One bounded guarantee: what a release costs, and how many of the releases one client pays for at most."""

    adjacency: Adjacency
    event: Callable[[float], DpEvent]
    count: int

    def history(self, multipliers: Sequence[float]) -> dict[DpEvent, int]:
        """Returns the dearest history that a client can have: the `count` releases with the least noise."""
        return dict(Counter(self.event(z) for z in sorted(multipliers)[: self.count]))


@dataclass(frozen=True)
class FilterRefit:
    """The least level with which every guarantee's filter admits past and future together.

    **Formal guarantees**: past releases count at what they cost, future ones at what they will, and the sum is admitted
    by the filter that was fixed at the start. So whenever, and however often, and from whatever was released the rest
    of a schedule is changed, the whole is (ε, δ)-private.
    **Edge cases**: None when the past alone has spent everything; no rounds to come need no noise (level 0).
    """

    lines: tuple[tuple[Line, Filter], ...]

    def level(self, past: Sequence[float], shape: Sequence[float]) -> float | None:
        levels = [self._least(line, filter_, past, shape) for line, filter_ in self.lines]
        return (
            None if any(level is None for level in levels) else max((z for z in levels if z is not None), default=0.0)
        )

    def _least(self, line: Line, filter_: Filter, past: Sequence[float], shape: Sequence[float]) -> float | None:
        def admitted(level: float) -> bool:
            history = line.history([*past, *(level * part for part in shape)])
            return filter_.cost(history, line.adjacency) <= filter_.capacity

        if not shape:
            return 0.0
        low, high = 0.0, 1.0
        while not admitted(high):
            low, high = high, high * 4
            if high > _LARGEST:
                return None
        while low < high * (1 - _PRECISION) and high > 1 / _LARGEST:
            middle = math.sqrt(low * high) if low > 0 else high / 4
            low, high = (low, middle) if admitted(middle) else (middle, high)
        return high
