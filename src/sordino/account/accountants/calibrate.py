"""The inverse questions: how much noise, or how many rounds, for a given budget? Asked of the real accountant."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

from sordino.account.accountants.accountant import price, require_delta, require_epsilon
from sordino.account.accountants.history import History
from sordino.errors import AccountingError
from sordino.events import DpEvent
from sordino.types import Adjacency

_LARGEST, _SMALLEST = 1e7, 1e-3


def noise_multiplier_for(
    epsilon: float,
    delta: float,
    make_history: Callable[[float], History | DpEvent],
    accountant: str = "pld",
    adjacency: Adjacency = "add_remove",
    tolerance: float = 1e-6,
) -> float:
    """Returns the smallest noise multiplier that keeps within (ε, δ), to `tolerance` in ε and never above the budget.

    Args:
        epsilon: the budget's ε, above 0.
        delta: the budget's δ.
        make_history: from a noise multiplier to everything that will be released; more noise must not cost more.
        accountant: who prices.
        adjacency: the neighbouring relation.
        tolerance: how much of ε may be left unspent.

    Raises:
        AccountingError: no noise multiplier up to 10⁷ meets the budget.
    """
    if require_epsilon(epsilon) == 0:
        raise AccountingError("epsilon 0 cannot be met by any amount of noise: ask for more than 0")
    require_delta(delta)

    # The cheap accountant's answer is close, and on the safe side of the tight one's.
    start = 1.0 if accountant != "pld" else noise_multiplier_for(epsilon, delta, make_history, "rdp", adjacency, 1e-2)

    def log_cost(log_z: float) -> float:
        cost = price(make_history(math.exp(log_z)), accountant, adjacency).epsilon(delta)
        return math.log(max(cost, 1e-12) / epsilon) if math.isfinite(cost) else 700.0

    low, high = _bracket(log_cost, math.log(start))
    if low == high:
        return math.exp(high)
    # ε is close to a power of the noise multiplier, so a secant in logarithms needs few evaluations.
    root = float(brentq(log_cost, low, high, xtol=tolerance / 16 / max(epsilon, 1.0), rtol=1e-14))
    step = tolerance / 16 / max(epsilon, 1.0)
    while log_cost(root) > 0:
        root, step = root + step, 2 * step
    return math.exp(root)


def _bracket(log_cost: Callable[[float], float], start: float) -> tuple[float, float]:
    """Returns log multipliers (too little, enough); both are the same when even almost no noise is enough."""
    low = high = start
    step = 0.5
    if log_cost(start) > 0:
        while log_cost(high) > 0:
            low, high, step = high, high + step, step * 2
            if high > math.log(_LARGEST):
                raise AccountingError(
                    "no noise multiplier up to 1e7 meets this epsilon and delta: ask for more epsilon"
                )
        return low, high
    while log_cost(low) <= 0:
        if low < math.log(_SMALLEST):
            return low, low
        low, high, step = low - step, low, step * 2
    return low, high


def largest_rounds(
    epsilon: float,
    delta: float,
    make_history: Callable[[int], History | DpEvent],
    accountant: str = "pld",
    adjacency: Adjacency = "add_remove",
    limit: int = 10_000_000,
) -> int:
    """Returns the largest number of rounds (0 … limit) that keeps within (ε, δ); more rounds must not cost less."""
    require_epsilon(epsilon)
    require_delta(delta)

    def fits(rounds: int) -> bool:
        return price(make_history(rounds), accountant, adjacency).epsilon(delta) <= epsilon

    if not fits(1):
        return 0
    low, high = 1, 2
    while high <= limit and fits(high):
        low, high = high, high * 2
    if high > limit:
        return limit if fits(limit) else largest_between(low, limit, fits)
    return largest_between(low, high, fits)


def largest_between(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Returns the largest n with low ≤ n < high that fits, given that `low` does and `high` does not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
