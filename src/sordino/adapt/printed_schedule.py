"""The geometric paper's own noise: Eq. (8) for a whole schedule, and Theorem 2 for the rest of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sordino.account.accountants.published import yuan_refined, yuan_sensitivity, yuan_sigma, yuan_sum


@dataclass(frozen=True)
class PrintedSchedule:
    """σ as printed, from a budget (ε, δ), the clients' smallest number of records, and the share q that takes part.

    **Formal guarantees**: none. Δs = 2C/|D_k| is not the sensitivity of trained weights, and q is credited to nobody.
    **Reference**: Yuan et al., Eq. (7), (8) and (9).
    """

    theta: float
    clip_norm: float
    records: int
    rate: float
    epsilon: float
    delta: float

    def sigma(self, precision: float) -> float:
        """Returns σ of Eq. (8) for a sum of precisions S."""
        sensitivity = yuan_sensitivity(self.clip_norm, self.records)
        return yuan_sigma(sensitivity, self.epsilon, self.delta, self.rate, precision)

    def level(self, past: Sequence[float], shape: Sequence[float]) -> float | None:
        """Returns σ′/C of Eq. (9), in its three cases: what `adapt.refine.Refit` asks for."""
        return self.sigma(yuan_refined(self.theta, len(past), len(past) + len(shape))) / self.clip_norm

    def claimed(self, level: float, rounds: int, delta: float) -> float:
        """Returns Eq. (8) solved for ε, for noise of level·C in the first of so many rounds."""
        # Eq. (8) has ε·σ on one side and, through ln(1/δ), δ on the other
        asked = self.sigma(yuan_sum(self.theta, rounds)) * self.epsilon / (level * self.clip_norm)
        return asked * math.sqrt(math.log(delta) / math.log(self.delta))
