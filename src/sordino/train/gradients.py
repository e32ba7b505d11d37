"""What every engine offers: gradients of many clients at once, and sums of clipped ones."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

MARGIN = 1e-6
"""How far below the bound a clipped vector is put, so that float32 rounding cannot lift it above."""


class Gradients(Protocol):
    """Gradients under weights `rows [n, d]`, or `[1, d]` where all clients share the same weights.

    Batches are rectangles: `x [n, b, …]`, `y [n, b, …]`; `weights [n, b]` holds each example's share of its client's
    objective Σ_j weights[k, j]·loss(k, j), zero for padding.

    **Formal guarantees** of the clipped sums: every vector that is added has norm ≤ bound; one that is not finite is
    left out.
    """

    def outputs(self, rows: Tensor, x: Tensor) -> Tensor:
        """Returns the model's outputs `[n, b, …]`."""

    def gradients(self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """Returns the gradient of each client's objective, `[n, d]`."""

    def clipped_clients(
        self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor, bound: float
    ) -> tuple[Tensor, Tensor]:
        """Returns the sum over clients of their gradients, each clipped to `bound`: `[d]`, and the norms `[n]`."""

    def clipped_examples(self, rows: Tensor, x: Tensor, y: Tensor, mask: Tensor, bound: float) -> tuple[Tensor, Tensor]:
        """Returns, for each client, the sum of its examples' clipped gradients `[n, d]`, and the norms `[n, b]`."""


def clip_factors(norms: Tensor, bound: float) -> Tensor:
    """Returns the factor ≤ 1 for each norm that brings it to at most `bound`; zero where the norm is not finite."""
    factors = torch.where(norms > bound, bound * (1 - MARGIN) / norms, 1.0)
    return factors.where(torch.isfinite(norms), 0.0)


def summed_clients(gradients: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Returns the sum of rows `[n, d] → [d]`, each clipped, and their norms."""
    norms = torch.linalg.vector_norm(gradients, dim=1)
    kept = gradients.where(torch.isfinite(norms)[:, None], 0.0)
    return clip_factors(norms, bound) @ kept, norms


def summed_examples(examples: Tensor, mask: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Returns each client's sum of its examples' gradients `[n, b, d] → [n, d]`, each clipped, and the norms."""
    norms = torch.linalg.vector_norm(examples, dim=2)
    kept = examples.where(torch.isfinite(norms)[..., None], 0.0)
    return torch.einsum("nb,nbd->nd", clip_factors(norms, bound) * mask, kept), norms * mask
