"""The convergence bound with the geometric paper's own noise (Eq. 8), its derivative, and its optimum.

The derivative of ℋ(T/M) is printed without the factors 1/L and η of its definition; we differentiate what is defined.

Reference: Yuan et al., Eq. (8), (12), (13) and (14).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from sordino.account.accountants.accountant import require_delta
from sordino.account.plan.convergence import ConvergenceBound, LossConstants, require
from sordino.types import FloatArray


@dataclass(frozen=True)
class PrintedConvergence:
    """What the printed bound needs to know about the problem, the federation and the budget.

    Attributes are those of `ConvergenceBound` and `LossConstants`, and:
        epsilon: ε.
        delta: δ.
        sensitivity: Δs.
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
        for name in ("epsilon", "sensitivity"):
            require(name, getattr(self, name), getattr(self, name) > 0, "above 0")
        require("iterations", self.iterations, self.iterations <= 10**6, "at most 1000000: each is tried")
        require("theta", self.theta, 0.01 <= self.theta <= 100, "0.01 … 100")
        _ = self._bound

    @cached_property
    def _bound(self) -> ConvergenceBound:
        loss = LossConstants(**{field.name: getattr(self, field.name) for field in fields(LossConstants)})
        return ConvergenceBound(loss, self.iterations, self.clients, self.cohort, self.theta, self.learning_rate)

    @property
    def phi(self) -> float:
        """ϕ of Theorem 3."""
        return self._bound.phi

    @property
    def decay(self) -> float:
        """𝒜 of Theorem 3."""
        return self._bound.decay

    def drift(self, steps: FloatArray) -> FloatArray:
        """ℋ of Lemma 1."""
        return self._bound.drift(steps)

    def energy(self, aggregations: FloatArray) -> FloatArray:
        """Returns σ² of Eq. (8) for M aggregations, which the paper takes for E‖n(1)‖²."""
        return np.asarray(2 * self._scale / self.smoothness * self._precision(np.asarray(aggregations, np.float64)))

    def bound(self, aggregations: FloatArray) -> FloatArray:
        """Returns the right-hand side of Eq. (12), with τ = T/M."""
        return self._bound.value(aggregations, self.energy(aggregations))

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
        with np.errstate(over="ignore"):  # noise that grows beyond all bounds is not the least
            best = int(every[int(np.argmin(self.bound(every)))])
        low, high = max(1.0, best - 1.0), min(float(self.iterations), best + 1.0)
        if low == high or self.slope(low) * self.slope(high) > 0:
            return best, None
        return best, float(brentq(self.slope, low, high, xtol=1e-10))

    @property
    def _scale(self) -> float:
        rate = self.cohort / self.clients
        return rate * self.smoothness * self.sensitivity**2 * math.log(1 / self.delta) / self.epsilon**2

    def _precision(self, m: FloatArray) -> FloatArray:
        numerator = self.theta - self.theta ** (1 - m)
        if self.printed:
            return np.asarray(numerator / (self.clients - 1))
        return m if self.theta == 1 else np.asarray(numerator / (self.theta - 1))
