"""The geometric paper's convergence bound, and the number of aggregations M* that minimises it.

More aggregations train longer but, at a fixed (ε, δ), force more noise into each; the bound balances the two. It is
stated once, for whatever noise the caller plans: printed (`printed_convergence`) or certified (`geometric`).

Where we deviate from the print, and why:
    The noise term of Eq. (11)–(14) has U−1 where the derivation (their Eq. 8 put into Eq. 41) gives ϑ−1. With U−1 the
    noise would vanish at ϑ = 1. We compute Eq. (41), in which the noise is what it is.

Reference: Yuan et al., section IV: Lemma 1 (ℋ), Theorem 3 (𝒜, ϕ), Corollary 1 (Eq. 12), and Eq. (41).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sordino.errors import AccountingError
from sordino.types import FloatArray

_COARSE = 24
"""So many M are tried first, evenly on a logarithmic scale."""


@dataclass(frozen=True)
class LossConstants:
    """Constants of the loss, which the paper assumes known and does not print.

    Attributes:
        gap: Θ, the loss above its minimum at the start.
        smoothness: L, Lipschitz constant of the gradient.
        polyak: ρ, of the Polyak–Łojasiewicz condition.
        dissimilarity: ℬ, between local and global gradients.
        lipschitz: L_c, Lipschitz constant of the loss.
        divergence: γ, of local from global gradients.
    """

    gap: float = 1.0
    smoothness: float = 1.0
    polyak: float = 1.0
    dissimilarity: float = 1.0
    lipschitz: float = 1.0
    divergence: float = 0.0

    def __post_init__(self) -> None:
        for name in ("gap", "smoothness", "polyak"):
            require(name, getattr(self, name), getattr(self, name) > 0, "above 0")
        for name in ("lipschitz", "dissimilarity", "divergence"):
            require(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")


@dataclass(frozen=True)
class AggregationPlan:
    """The number of aggregations at which the bound is least."""

    aggregations: int
    """M*."""
    local_steps: int
    """τ = T/M*, rounded to the nearest whole number, at least 1: with fewer aggregations each has more steps."""
    bound: float


@dataclass(frozen=True)
class ConvergenceBound:
    """What M aggregations leave of the gap: 𝒜^M·Θ + (L/2)·E‖n(1)‖²·(ϑ^M − 𝒜^M)/(ϑ − 𝒜) + L_c·ℋ(T/M).

    Attributes:
        loss: constants of the loss.
        iterations: T, all local steps of one client; M aggregations leave τ = T/M steps between two.
        clients: U.
        cohort: K, clients per aggregation (their expected number).
        theta: ϑ, the factor by which the noise variance changes from one aggregation to the next.
        learning_rate: η, at most 1/L.

    **Formal guarantees**: equal to the recursion G ← 𝒜·G + (L/2)·ϑ^m·E‖n(1)‖² (Eq. 38 with Polyak–Łojasiewicz), plus
    the drift of Lemma 1. **Edge cases**: ϑ = 𝒜 is the limit M·𝒜^(M−1). Constants for which 𝒜 is not between 0 and 1
    are refused: the bound says nothing then.
    """

    loss: LossConstants
    iterations: int
    clients: int
    cohort: float
    theta: float
    learning_rate: float

    def __post_init__(self) -> None:
        for name in ("iterations", "theta", "learning_rate"):
            require(name, getattr(self, name), getattr(self, name) > 0, "above 0")
        require("clients", self.clients, self.clients > 1, "at least 2")
        require("cohort", self.cohort, 1 <= self.cohort <= self.clients, f"1 … {self.clients}")
        limit = 1 / self.loss.smoothness
        require("learning_rate", self.learning_rate, self.learning_rate <= limit, f"at most 1/smoothness = {limit:g}")
        require("learning_rate and polyak, which give a decay 𝒜", self.decay, 0 < self.decay < 1, "between 0 and 1")

    @property
    def phi(self) -> float:
        """ϕ = (η²L/2)·((U−K)ℬ²/(K(U−1)) + (K−1)/(UK(U−1))) − η."""
        users, chosen, eta = self.clients, self.cohort, self.learning_rate
        spread = (users - chosen) * self.loss.dissimilarity**2 / (chosen * (users - 1))
        shared = (chosen - 1) / (users * chosen * (users - 1))
        return eta**2 * self.loss.smoothness / 2 * (spread + shared) - eta

    @property
    def decay(self) -> float:
        """𝒜 = 1 + 2ρϕ: what is left of the gap after one aggregation, without noise."""
        return 1 + 2 * self.loss.polyak * self.phi

    def drift(self, steps: FloatArray) -> FloatArray:
        """ℋ(x) = (γ/L)((ηL+1)^x − 1) − ηγx: how far x local steps lead away from central training."""
        growth = np.expm1(steps * math.log1p(self.learning_rate * self.loss.smoothness))
        lead = growth / self.loss.smoothness - self.learning_rate * steps
        return np.asarray(self.loss.divergence * lead, dtype=np.float64)

    def carried(self, aggregations: FloatArray) -> FloatArray:
        """(ϑ^M − 𝒜^M)/(ϑ − 𝒜), the noise of all aggregations as it decays; M·𝒜^{M−1} where they meet."""
        m = np.asarray(aggregations, dtype=np.float64)
        if abs(self.theta - self.decay) < 1e-9:
            return np.asarray(m * self.decay ** (m - 1))
        return np.asarray((self.theta**m - self.decay**m) / (self.theta - self.decay))

    def value(self, aggregations: FloatArray, energy: FloatArray) -> FloatArray:
        """Returns the bound for M aggregations with noise of this energy, with τ = T/M.

        Args:
            aggregations: M, one or several.
            energy: E‖n(1)‖², the expected squared norm of the noise in the first released mean, over all weights.
        """
        m = np.asarray(aggregations, dtype=np.float64)
        noise = self.loss.smoothness / 2 * np.asarray(energy) * self.carried(m)
        drift = self.loss.lipschitz * self.drift(self.iterations / m)
        return np.asarray(self.decay**m * self.loss.gap + noise + drift, dtype=np.float64)

    def best(self, limit: int, energy: Callable[[int], float]) -> AggregationPlan:
        """Returns the M in 1 … limit with the least bound, where `energy(M)` is that of a plan for M aggregations.

        **Edge cases**: up to 24 M are all tried. Of more, 24 are tried first and then all between the neighbours of
        the best one, which is exact where the bound has one valley (Corollary 2), and asks for few plans, each of which
        may be a calibration.
        """
        require("limit", limit, limit >= 1, "at least 1")
        first = sorted({round(m) for m in np.geomspace(1, limit, _COARSE)} if limit > _COARSE else range(1, limit + 1))
        found = {m: self._at(m, energy) for m in first}
        place = first.index(min(found, key=found.__getitem__))
        between = range(first[max(0, place - 1)], first[min(len(first) - 1, place + 1)] + 1)
        found |= {m: self._at(m, energy) for m in between if m not in found}
        best = min(found, key=lambda m: (found[m], m))
        return AggregationPlan(best, max(1, round(self.iterations / best)), found[best])

    def _at(self, aggregations: int, energy: Callable[[int], float]) -> float:
        return float(self.value(np.array(float(aggregations)), np.array(energy(aggregations))))


def require(name: str, value: float, holds: bool, range_: str) -> None:
    """Raises an AccountingError that names the value and its range, unless it is finite and holds."""
    if not (math.isfinite(value) and holds):
        raise AccountingError(f"{name} {value:g} must be finite and {range_}")
