"""How far a round's noise reaches into the final model, and which geometric schedule suits that: no data looked at.

Let a_j be what is left in the final model of noise that came in j rounds before the end. Under a price Σ 1/σ_t² that
is fixed, Σ a_{T−t}²·σ_t² is least for σ_t² in proportion to 1/|a_{T−t}| (Cauchy–Schwarz: the product of the two sums is
at least (Σ |a_j|)², with equality there). Where a round keeps the share ρ of what was there, a_j = ρ^j, and the best
schedule is the geometric one with θ = ρ. Where nothing is forgotten all a_j are 1, and it is constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from sordino.types import FloatArray

_WIDEST = math.log(4.0)


@dataclass(frozen=True)
class Contraction:
    """What the recipe implies about forgetting, from public settings alone.

    Attributes:
        decay: the share of the model that the server takes away in a round (`server.weight_decay`).
        momentum: the server's momentum.

    **Edge cases**: a regulariser in *local* steps is not counted. What it takes away is part of an update that is
    clipped, and noise makes models that are far longer than a clip: measured, it forgets next to nothing, and a
    schedule for it costs ten points (docs/mechanisms/geometric.md). Curvature of the loss is not public, and not
    counted either.
    """

    decay: float = 0.0
    momentum: float = 0.0

    def reach(self, rounds: int) -> FloatArray:
        """Returns a_0 … a_{T−1}: what unit noise of a released mean leaves in the model, j rounds later."""
        out, model, velocity = np.empty(rounds), 0.0, 0.0
        for j in range(rounds):
            velocity = self.momentum * velocity + (1.0 if j == 0 else 0.0)
            model = (1 - self.decay) * model + velocity
            out[j] = model
        return out


def noise_left(theta: float, reach: FloatArray) -> float:
    """Returns the final noise of a schedule θ^(t−1) at a fixed price: Σ a_{T−t}²·θ^(t−1) · Σ θ^(−(t−1))."""
    powers = np.arange(len(reach)) * math.log(theta)
    powers -= powers.mean()  # the product does not change, and nothing overflows
    return float((reach[::-1] ** 2 @ np.exp(powers)) * np.exp(-powers).sum())


def best_theta(contraction: Contraction, rounds: int) -> float:
    """Returns the θ with which the least noise is left at the end; exactly 1 where nothing is forgotten."""
    reach = contraction.reach(rounds)
    if np.ptp(reach) < 1e-12 or not np.isfinite(reach).all():
        return 1.0
    found = minimize_scalar(
        lambda log: math.log(noise_left(math.exp(log), reach)), bounds=(-_WIDEST, _WIDEST), options={"xatol": 1e-9}
    )
    return math.exp(float(found.x))
