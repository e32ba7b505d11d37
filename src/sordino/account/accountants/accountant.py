"""One question, several accountants: what does this history cost? Accountants interpret events, and nothing else.

| name | what it computes | tight for |
|---|---|---|
| `pld` (default) | privacy loss distributions on a pessimistic grid | everything it knows |
| `exact` | the closed form of plain Gaussians, any multipliers | plain and time-correlated Gaussians |
| `rdp` | Rényi divergences with the modern conversion | upper bound for every event |
| `rdp-classic` | the same with the papers' orders and conversion | published tables |
| `pure` | ε alone, δ = 0 | Laplace |

`pld` answers with `exact` where the history is plain Gaussians, and with `rdp` where a grid is unknown, fails or
would be too slow; the curve's `accountant` and `note` say which number is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants import pld, rdp, renyi
from sordino.account.accountants.history import History, Key, flatten, key, reason_unbounded
from sordino.account.accountants.parameters import require_positive
from sordino.errors import AccountingError, UnknownEvent
from sordino.events import DpEvent, LaplaceDpEvent, describe
from sordino.types import Adjacency

Accountant = Literal["pld", "rdp", "rdp-classic", "exact", "pure"]
ACCOUNTANTS: tuple[str, ...] = get_args(Accountant)
ADJACENCIES: tuple[str, ...] = get_args(Adjacency)


@dataclass(frozen=True)
class Curve:
    """A privacy curve: ε for any δ, δ for any ε, who computed it, and why it is infinite if it is."""

    accountant: str
    epsilon_of: Callable[[float], float]
    delta_of: Callable[[float], float]
    note: str = ""
    reason: str | None = None

    def epsilon(self, delta: float) -> float:
        """Returns the smallest ε that the accountant proves at this δ (∞ when nothing bounds the history)."""
        return self.epsilon_of(require_delta(delta))

    def delta(self, epsilon: float) -> float:
        """Returns the smallest δ that the accountant proves at this ε."""
        return self.delta_of(require_epsilon(epsilon))


def price(
    history: History | DpEvent | Iterable[DpEvent], accountant: str = "pld", adjacency: Adjacency = "add_remove"
) -> Curve:
    """Returns the privacy curve of a history.

    Formal guarantees: an upper bound on the true curve for releases whose events were fixed beforehand (adaptively
    chosen *events* need a filter, see `account.filter`); order of the events does not matter; `price([e] * n)`
    equals `price({e: n})`.

    Edge cases: nothing released costs ε = 0; an `Unbounded` anywhere makes ε infinite, with its reason.

    Raises:
        UnknownEvent: the accountant cannot take one of the events.
        AccountingError: a parameter is out of range, or the accountant or adjacency is unknown.
    """
    return _price(key(flatten(history)), _known(accountant), _adjacency(adjacency))


def epsilon(
    history: History | DpEvent, delta: float, accountant: str = "pld", adjacency: Adjacency = "add_remove"
) -> float:
    """Returns `price(history, …).epsilon(delta)`; the number is remembered by history, the (large) curve is not.

    >>> from sordino.events import GaussianDpEvent
    >>> round(epsilon(GaussianDpEvent(2.0), 1e-5), 4)
    1.9931
    """
    return _epsilon(key(flatten(history)), require_delta(delta), _known(accountant), _adjacency(adjacency))


@lru_cache(maxsize=1 << 18)
def _epsilon(identity: Key, delta: float, accountant: str, adjacency: Adjacency) -> float:
    return _price(identity, accountant, adjacency).epsilon(delta)


@lru_cache(maxsize=32)
def _price(identity: Key, accountant: str, adjacency: Adjacency) -> Curve:
    # Sorted, since sums of floats and grids depend on order in their last digits.
    history = dict(sorted(identity, key=str))
    if not history:
        return Curve(accountant, lambda delta: 0.0, lambda epsilon: 0.0, "nothing was released")
    if reason := reason_unbounded(history):
        return Curve(accountant, lambda delta: math.inf, lambda epsilon: 1.0, reason=reason)
    return _CURVES[accountant](history, adjacency)


def _exact(history: History, adjacency: Adjacency) -> Curve:
    mu = gaussian.separation(history)
    if mu is None:
        raise UnknownEvent(
            "accountant 'exact' takes plain Gaussians only: use 'pld' or 'rdp' for sampled or other noise"
        )
    return Curve(
        "exact",
        lambda delta: gaussian.epsilon_of(mu, delta),
        lambda epsilon: gaussian.delta_of(mu, epsilon),
        gaussian.note(history),
    )


def _pure(history: History, adjacency: Adjacency) -> Curve:
    if not all(isinstance(event, LaplaceDpEvent) for event in history):
        raise UnknownEvent("accountant 'pure' takes Laplace noise only: use 'pld' or 'rdp' for other noise")
    for event in history:
        require_positive("noise_multiplier", event.noise_multiplier)
    total = math.fsum(count / event.noise_multiplier for event, count in history.items())
    # Any ε₀-private mechanism is dominated by randomised response (Kairouz, Oh, Viswanath 2015).
    return Curve(
        "pure", lambda delta: total, lambda epsilon: max(0.0, -math.expm1(epsilon - total) / (1 + math.exp(-total)))
    )


def _rdp(history: History, adjacency: Adjacency, note: str = "") -> Curve:
    orders = renyi.MODERN_ORDERS
    costs = rdp.divergence(history, orders, adjacency)
    return Curve(
        "rdp",
        lambda delta: renyi.epsilon_modern(orders, costs, delta),
        lambda epsilon: renyi.delta_modern(orders, costs, epsilon),
        note,
    )


def _rdp_classic(history: History, adjacency: Adjacency) -> Curve:
    orders = renyi.CLASSIC_ORDERS
    costs = rdp.divergence(history, orders, adjacency)
    return Curve(
        "rdp-classic",
        lambda delta: renyi.epsilon_classic(orders, costs, delta),
        lambda epsilon: renyi.delta_classic(orders, costs, epsilon),
    )


def _pld(history: History, adjacency: Adjacency) -> Curve:
    if gaussian.separation(history) is not None:
        return _exact(history, adjacency)
    fallback, note = _rdp(history, adjacency), ""
    history = pld.simplified(history, adjacency)
    if (fewer := pld.fewer(history)) is not history:
        note = f"{len(history)} different events were rounded down to {len(fewer)} levels of noise"
        history = fewer
    try:
        with np.errstate(all="ignore"):
            loss = pld.compose(history, adjacency, fallback.epsilon(1e-5))
            if not math.isfinite(loss.epsilon(1e-5)):
                raise ArithmeticError("the grid lost too much mass")
    except UnknownEvent as unknown:
        return _rdp(history, adjacency, f"shown by rdp: {unknown}")
    except (pld.TooSlow, ArithmeticError, ValueError, MemoryError) as failure:
        return _rdp(history, adjacency, f"shown by rdp, since pld cannot take this history: {failure}")
    # a certificate and its public document ask the same questions, and each answer is a walk over the whole grid
    remembered = lru_cache(maxsize=256)
    return Curve(
        "pld",
        remembered(loss.epsilon),
        remembered(loss.delta),
        note,
    )


_CURVES: Mapping[str, Callable[[History, Adjacency], Curve]] = MappingProxyType(
    {"pld": _pld, "rdp": _rdp, "rdp-classic": _rdp_classic, "exact": _exact, "pure": _pure}
)


def _known(accountant: str) -> str:
    if accountant not in _CURVES:
        raise AccountingError(f"accountant {accountant!r} is unknown: choose one of {', '.join(ACCOUNTANTS)}")
    return accountant


def _adjacency(adjacency: str) -> Adjacency:
    if adjacency not in ADJACENCIES:
        raise AccountingError(f"adjacency {adjacency!r} is unknown: choose one of {', '.join(ADJACENCIES)}")
    return adjacency  # type: ignore[return-value]


def require_delta(delta: float) -> float:
    """Raises an AccountingError unless 0 < δ < 1."""
    if not (math.isfinite(delta) and 0 < delta < 1):
        raise AccountingError(f"delta {delta} must lie strictly between 0 and 1")
    if delta < gaussian.LEAST_DELTA:
        raise AccountingError(
            f"delta {delta:g} is below {gaussian.LEAST_DELTA:g}: take one that is not lost in rounding"
        )
    return delta


def require_epsilon(epsilon: float) -> float:
    """Raises an AccountingError unless ε is finite and not negative."""
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise AccountingError(f"epsilon {epsilon} must be finite and not negative")
    return epsilon


def explain(history: History) -> str:
    """Returns a history in words: `100 × PoissonSampled(0.01, Gaussian(1))`."""
    return " + ".join(f"{count} × {describe(event)}" for event, count in sorted(history.items(), key=str)) or "nothing"
