"""The geometric paper's convergence bound, and the number of aggregations M* that minimises it.

More aggregations train longer but, at a fixed (ε, δ), force more noise into each; the bound balances the two.

Where we deviate from the print, and why:
    The noise term of Eq. (11)–(14) has U−1 where the derivation (their Eq. 8 put into Eq. 41) gives ϑ−1. With U−1 the
    noise would vanish at ϑ = 1. We compute the derived form, and the printed one on request (`printed=True`).
    The derivative of ℋ(T/M) is printed without the factors 1/L and η of its definition; we differentiate what is
    defined.

Reference: Yuan et al., section IV: Lemma 1 (ℋ), Theorem 3 (𝒜, ϕ), Corollary 1 (Eq. 12), Eq. (13) and (14).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from sordino.account.accountants.accountant import require_delta
from sordino.errors import AccountingError
from sordino.types import FloatArray


@dataclass(frozen=True)
class Convergence:
    """What the bound needs to know about the problem, the federation and the budget.

    Attributes:
        iterations: T, all local steps of one client; M aggregations leave τ = T/M steps between two.
        clients: U.
        cohort: K, clients per aggregation.
        theta: ϑ, the factor by which the noise variance changes from one aggregation to the next.
        epsilon: ε.
        delta: δ.
        sensitivity: Δs.
        learning_rate: η, at most 1/L.
        smoothness: L.
        lipschitz: L_c, of the loss.
        polyak: ρ, of the Polyak–Łojasiewicz condition.
        dissimilarity: ℬ, between local and global gradients.
        divergence: γ, of local from global gradients.
        gap: Θ, the loss above its minimum at the start.
        printed: use the printed U−1 instead of the derived ϑ−1.
    """

    iterations: int
    clients: int
    cohort: int
    theta: float
    epsilon: float
    delta: float
    sensitivity: float
    learning_rate: float
    smoothness: float = 1.0
    lipschitz: float = 1.0
    polyak: float = 1.0
    dissimilarity: float = 1.0
    divergence: float = 0.0
    gap: float = 1.0
    printed: bool = False

    def __post_init__(self) -> None:
        require_delta(self.delta)
        positive = ("iterations", "theta", "epsilon", "sensitivity", "learning_rate", "smoothness", "polyak", "gap")
        for name in positive:
            _require(name, getattr(self, name), getattr(self, name) > 0, "above 0")
        for name in ("lipschitz", "dissimilarity", "divergence"):
            _require(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        _require("clients", self.clients, self.clients > 1, "at least 2")
        _require("cohort", self.cohort, 1 <= self.cohort <= self.clients, f"1 … {self.clients}")
        limit = 1 / self.smoothness
        _require("learning_rate", self.learning_rate, self.learning_rate <= limit, f"at most 1/smoothness = {limit:g}")
        _require("learning_rate and polyak, which give a decay 𝒜", self.decay, 0 < self.decay < 1, "between 0 and 1")

    @property
    def phi(self) -> float:
        """ϕ = (η²L/2)·((U−K)ℬ²/(K(U−1)) + (K−1)/(UK(U−1))) − η."""
        users, chosen, eta = self.clients, self.cohort, self.learning_rate
        spread = (users - chosen) * self.dissimilarity**2 / (chosen * (users - 1))
        shared = (chosen - 1) / (users * chosen * (users - 1))
        return eta**2 * self.smoothness / 2 * (spread + shared) - eta

    @property
    def decay(self) -> float:
        """𝒜 = 1 + 2ρϕ: what is left of the gap after one aggregation, without noise."""
        return 1 + 2 * self.polyak * self.phi

    def drift(self, steps: FloatArray) -> FloatArray:
        """ℋ(x) = (γ/L)((ηL+1)^x − 1) − ηγx: how far x local steps lead away from central training."""
        growth = np.expm1(steps * math.log1p(self.learning_rate * self.smoothness))
        return np.asarray(self.divergence * (growth / self.smoothness - self.learning_rate * steps), dtype=np.float64)

    def bound(self, aggregations: FloatArray) -> FloatArray:
        """Returns the right-hand side of Eq. (12), with τ = T/M."""
        m = np.asarray(aggregations, dtype=np.float64)
        noise = self._scale * self._carried(m) * self._precision(m)
        return np.asarray(self.decay**m * self.gap + noise + self.lipschitz * self.drift(self.iterations / m))

    def slope(self, aggregations: float) -> float:
        """Returns the derivative of the bound, Eq. (14)."""
        m, a, theta = float(aggregations), self.decay, self.theta
        if theta == 1 or abs(theta - a) < 1e-6:
            step = 1e-4
            return float((self.bound(np.array(m + step)) - self.bound(np.array(m - step))) / (2 * step))
        ratio = a / theta
        changes = theta**m * math.log(theta) - a**m * math.log(a) + ratio**m * math.log(ratio)
        noise = self._scale * theta / ((theta - a) * (self.clients - 1 if self.printed else theta - 1)) * changes
        growth = math.log1p(self.learning_rate * self.smoothness)
        tau = self.iterations / m
        rise = self.divergence * (math.exp(tau * growth) * growth / self.smoothness - self.learning_rate)
        return float(self.gap * a**m * math.log(a) + noise - self.lipschitz * rise * tau / m)

    def optimum(self) -> tuple[int, float | None]:
        """Returns the whole M in 1 … T with the least bound, and the root of Eq. (14) when it has one in that range.

        Outside the conditions of Corollary 2 the bound need not be convex in M, so the whole number is the best of all.
        """
        every = np.arange(1.0, self.iterations + 1)
        best = int(every[int(np.argmin(self.bound(every)))])
        low, high = max(1.0, best - 1.0), min(float(self.iterations), best + 1.0)
        if low == high or self.slope(low) * self.slope(high) > 0:
            return best, None
        return best, float(brentq(self.slope, low, high, xtol=1e-10))

    @property
    def _scale(self) -> float:
        rate = self.cohort / self.clients
        return rate * self.smoothness * self.sensitivity**2 * math.log(1 / self.delta) / self.epsilon**2

    def _carried(self, m: FloatArray) -> FloatArray:
        """(ϑ^M − 𝒜^M)/(ϑ − 𝒜), the noise of all aggregations as it decays; M·𝒜^{M−1} where they meet."""
        if abs(self.theta - self.decay) < 1e-9:
            return m * self.decay ** (m - 1)
        return np.asarray((self.theta**m - self.decay**m) / (self.theta - self.decay))

    def _precision(self, m: FloatArray) -> FloatArray:
        numerator = self.theta - self.theta ** (1 - m)
        if self.printed:
            return np.asarray(numerator / (self.clients - 1))
        return m if self.theta == 1 else np.asarray(numerator / (self.theta - 1))


def _require(name: str, value: float, holds: bool, range_: str) -> None:
    if not (math.isfinite(value) and holds):
        raise AccountingError(f"{name} {value:g} must be finite and {range_}")
