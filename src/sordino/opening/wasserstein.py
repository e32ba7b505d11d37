"""How far each client's labels are from everybody's, in 1-Wasserstein distance, and the score that this gives."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sordino.types import FloatArray

Metric = Literal["discrete", "ordinal"]
"""Ground distance between two labels: 1 when they differ (nominal classes), or how many steps apart they are."""


def distances(shares: FloatArray, reference: FloatArray, metric: Metric) -> FloatArray:
    """Returns the 1-Wasserstein distance of each row (a distribution over labels) to the reference.

    Under the discrete metric this is the total variation ½·Σ|p − q|; on a line it is Σ|P − Q| over the two cumulated
    distributions.
    **Reference**: A-DPFL, Eq. (10); Villani (2009), "Optimal transport", chapter 6.
    """
    gap = shares - reference
    if metric == "discrete":
        return np.asarray(np.abs(gap).sum(1) / 2)
    return np.asarray(np.abs(np.cumsum(gap, 1)[:, :-1]).sum(1))


def scores(distance: FloatArray) -> FloatArray:
    """Returns SC_i = exp(−W_i / c_1) in (0, 1], with c_1 = √(mean W²) the average heterogeneity (A-DPFL, Eq. 12).

    The paper compares W_i with c_1 and prints no formula; this one falls with W_i, is e⁻¹ for an average participant
    whatever the data, and normalised over participants it is a selection probability (their Eq. 13).
    """
    average = float(np.sqrt(np.mean(distance**2))) if len(distance) else 0.0
    return np.exp(-distance / average) if average > 0 else np.ones_like(distance)
