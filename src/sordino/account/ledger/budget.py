"""Budgets that bind: how much each client may spend, and whether one more release fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sordino.account.accountants.accountant import price, require_delta, require_epsilon
from sordino.account.accountants.history import History, Key, flatten, key
from sordino.errors import AccountingError
from sordino.events import DpEvent
from sordino.types import Adjacency, FloatArray


@dataclass(frozen=True)
class Budget:
    """The federation's (ε, δ) for everybody, and stricter ε for clients that ask for it.

    Edge cases: a client's own limit can only lower the federation's, never raise it.
    """

    epsilon: float
    delta: float
    clients: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_delta(self.delta)
        for limit in self.clients.values():
            require_epsilon(limit)

    def limits(self, population: int) -> FloatArray:
        """Returns every client's ε."""
        limits = np.full(population, self.epsilon)
        for client, limit in self.clients.items():
            if not 0 <= client < population:
                raise AccountingError(
                    f"budget names client {client}, which is outside the population 0 … {population - 1}"
                )
            limits[client] = min(self.epsilon, limit)
        return limits


class Headroom:
    """Remembers how often a release still fits, so that asking every round costs a logarithmic number of pricings.

    Formal guarantees: the answer of `fits` is that of pricing `history + event`, for accountants that are monotone.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Key, Key, float, float, str, str], tuple[int, int | None]] = {}

    def fits(
        self, history: History, event: DpEvent, epsilon: float, delta: float, accountant: str, adjacency: Adjacency
    ) -> bool:
        """Returns whether `history` followed by `event` keeps within (ε, δ)."""
        step = flatten(event)
        rest, done = divide(flatten(history), step)
        name = (key(rest), key(step), epsilon, delta, accountant, adjacency)
        good, bad = self._known.get(name, (0, None))
        wanted = done + 1
        while good < wanted and (bad is None or wanted < bad):
            # Probe ahead, then halve back towards what is asked: the next rounds' answers come with it.
            probe = 2 * wanted if bad is None else (wanted + bad) // 2
            total = rest + Counter({leaf: probe * count for leaf, count in step.items()})
            if price(total, accountant, adjacency).epsilon(delta) <= epsilon:
                good = probe
            else:
                bad = probe
            self._known[name] = (good, bad)
        return wanted <= good


def divide(history: Counter[DpEvent], step: Counter[DpEvent]) -> tuple[Counter[DpEvent], int]:
    """Returns (rest, n) with history = rest + n·step and n as large as possible."""
    done = min((history[leaf] // count for leaf, count in step.items()), default=0)
    rest = history.copy()
    rest.subtract({leaf: done * count for leaf, count in step.items()})
    return +rest, done
