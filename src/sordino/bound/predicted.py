"""Truncation around w_0 by thresholds that each client predicts from its own steps (component_adaptive, faithful)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sordino.errors import SordinoError
from sordino.stages import Bounded, Trace, Update
from sordino.terms import Knobs, Turn
from sordino.train.optimizers import optimizer
from sordino.train.settings import LocalTraining

_SHOWN = 8
"""Clients of a chunk whose parameters are summed up for box plots."""


@dataclass(frozen=True)
class PredictedBox:
    """w_K truncated to w_0 ± q with q = (β/2)·|ŵ|, ŵ = w_{K−1} − 𝒢(g_{K−1}), and a noise scale of the same proportion.

    𝒢 is the step of the client's own optimiser, its state carried one step forward (Table II): the state after step K−1
    is stepped once more with g_{K−1}. Sensitivity Δ_m = 2·q_m / sensitivity_divisor; noise of standard deviation
    √d·σ0·Δ_m (`equal`), or σ0·√(Δ_m·Σ_j Δ_j) (`least_energy`), with σ0 = `noise_multiplier`; without
    `root_dimension` the √d of `equal` is left out (another reading of the paper, which then has no Lemma 1).

    **Formal guarantees**: none. Thresholds and noise scales depend on private data (ŵ), and are visible in the noise.
    **Edge cases**: with a single local step there is no g_{K−1}: it counts as zero, and ŵ is w_0 less a step on zero.
    A component whose threshold is zero is sent as it was in w_0, without noise, as printed.
    **Reference**: Xue et al., Algorithm 3, lines 17 to 22, and Table II; allocation: their Lemma 1.
    """

    training: LocalTraining
    beta: float = 1.1
    allocation: Literal["equal", "least_energy"] = "equal"
    sensitivity_divisor: float = 1.0
    root_dimension: bool = True

    def sensitivity(self, knobs: Knobs) -> None:
        return None

    def bound(self, update: Update, turn: Turn) -> Bounded:
        if update.trace is None:
            raise SordinoError("predicted thresholds need the trace of the last local steps: train with trace=True")
        threshold = self.predict(update.trace).abs() * (self.beta / 2)
        rows = update.rows.clamp(-threshold, threshold)
        weights = torch.from_numpy(update.sizes).to(rows.dtype)
        return Bounded(
            update.clients,
            rows * weights[:, None],
            weights,
            (rows != update.rows).any(dim=1),
            sensitivity=None,
            spread=self._spread(2 * threshold / self.sensitivity_divisor, turn.knobs.noise_multiplier),
            notes={
                "clients": _shown(torch.from_numpy(update.clients).double()),
                "original": _shown(_five_numbers(turn.weights + update.rows[:_SHOWN])),
                "truncated": _shown(_five_numbers(turn.weights + rows[:_SHOWN])),
            },
        )

    def predict(self, trace: Trace) -> Tensor:
        """Returns ŵ: where the last step would have led, had its gradient been that of the step before."""
        delta, _ = optimizer(self.training).step(trace.state, trace.gradient)
        return trace.before + delta

    def _spread(self, sensitivity: Tensor, noise_multiplier: float) -> Tensor:
        if self.allocation == "equal":
            return sensitivity * (noise_multiplier * (math.sqrt(sensitivity.shape[1]) if self.root_dimension else 1.0))
        return (sensitivity * sensitivity.sum(dim=1, keepdim=True)).sqrt_().mul_(noise_multiplier)


def _shown(values: Tensor) -> Tensor:
    """Returns the first clients' values; NaN where a cohort has fewer, so that rounds can be stacked."""
    kept = values[:_SHOWN]
    return torch.cat([kept, kept.new_full((_SHOWN - len(kept), *kept.shape[1:]), torch.nan)])


def _five_numbers(rows: Tensor) -> Tensor:
    """Returns minimum, quartiles and maximum of each row: a box plot's numbers."""
    quarters = torch.linspace(0, 1, 5, dtype=rows.dtype)
    return torch.stack([torch.quantile(row, quarters) for row in rows]) if len(rows) else rows.new_empty(0, 5)
