"""How many aggregations are best, by the convergence bound of the geometric paper."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field

from sordino.account.accountants.published import yuan_sum


class Convergence(BaseModel):
    """Constants of the loss, which the paper assumes known and does not print."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    gap: float = Field(gt=0, description="Θ = F(w_0) − F(w*): how much there is to gain")
    smoothness: float = Field(gt=0, description="L: Lipschitz constant of the gradient")
    polyak: float = Field(gt=0, description="ρ of the Polyak–Łojasiewicz condition")
    dissimilarity: float = Field(1.0, gt=0, description="B: how much clients' gradients differ from the average one")

    def contraction(self, learning_rate: float, population: int, cohort: float) -> float:
        """Returns A = 1 + 2ρφ, by which the gap shrinks in a round without noise. Reference: Yuan et al., Theorem 3."""
        users, chosen = max(2, population), cohort
        spread = (users - chosen) * self.dissimilarity**2 / (chosen * (users - 1))
        phi = learning_rate**2 * self.smoothness / 2 * (spread + (chosen - 1) / (users * chosen * (users - 1)))
        return 1 + 2 * self.polyak * (phi - learning_rate)

    def bound(self, aggregations: int, contraction: float, theta: float, unit_variance: float) -> float:
        """Returns A^M·Θ + (L/2)·σ²·(θ^M − A^M)/(θ − A), where σ² = unit_variance · S_M.

        **Reference**: Yuan et al., Eq. (13), from (41) and Eq. (8). In print the denominator has U − 1 where (8) gives
        θ − 1: that would make the noise's term negative for θ < 1 and nothing at θ = 1, so we take θ − 1, inside S_M.
        **Edge cases**: θ = A is the limit M·θ^(M−1).
        """
        a, m = contraction, aggregations
        growth = m * theta ** (m - 1) if math.isclose(theta, a) else (theta**m - a**m) / (theta - a)
        return a**m * self.gap + self.smoothness / 2 * unit_variance * yuan_sum(theta, m) * growth

    def best(self, limit: int, contraction: float, theta: float, unit_variance: float) -> int:
        """Returns M*, the number of aggregations (1 … limit) at which the bound is least."""
        return min(range(1, limit + 1), key=lambda m: self.bound(m, contraction, theta, unit_variance))
