"""What every engine offers: gradients of many clients at once, and sums of clipped ones, with what floats do to them.

**What one unit moves a computed sum by.** A unit (an example, or a client) adds a vector of norm ≤ bound·(1 − MARGIN).
Let a sum have b units of T terms together, whose lengths add up to at most λ·bound for each unit (λ = 1 where a unit is
one outer product; `_norms` sees to λ ≤ 128 elsewhere). In whatever order T products are added up, fused or not, the
result is off by at most (T + 3)·u·b·λ·bound·(1 + 10⁻⁴), where u is the unit roundoff (Higham 2002, §3.1, summed over
coordinates by the triangle inequality). Two neighbours are off by that much each, in directions that nobody controls:

* at most `SINGLE` terms of single precision, one to a unit: 2·35·2⁻²⁴·32 = 1.34·10⁻⁴ of the bound;
* sums of many clients by groups of fewer than `SINGLE`, which are added in double precision: as much, since only the
  groups that a client's leaving changes are rounded otherwise, and they hold at most `SINGLE` (`groups.py`);
* more, in double precision: 2·(T + 3)·2⁻⁵³·b·λ, at most 5·10⁻⁵ as long as T·b·λ ≤ 2.2·10¹¹ (`MOST`, held to).

Both are below MARGIN less what rounding does to a unit's own factor and norm (10⁻⁵), so that a unit that comes or goes
moves the *computed* sum by at most the bound. Nothing else is left for floats, as long sums stay in double precision
until they are rounded to a grid.

**Assumed**: what a unit's own vector is does not depend on who else is in the batch, nor on its place there. A library
may round a row of a matrix product differently beside another number of rows, or at another place in memory: thin
matrices are therefore widened (`products.py`), and before training `alike.py` looks for what is left, bit by bit.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from sordino.errors import SordinoError

MARGIN = 2e-4
"""How far below the bound a clipped vector is put, so that no rounding lifts what it does to a sum above the bound."""

SINGLE = 32
"""Most terms that are added up in single precision."""

_LEAST_FACTOR = 2 * torch.finfo(torch.float32).tiny
"""Smaller factors lose digits when they are put into single precision."""

_LEAST_BOUND = 1e-18
"""Errors that are scaled to smaller ones lose digits beside inputs near 10¹⁹, the longest whose square is a number."""

MOST = 2.2e11
"""Most terms times units times λ of a sum in double precision."""


class Gradients(Protocol):
    """Gradients under weights `rows [n, d]`, or `[1, d]` where all clients share the same weights.

    Batches are rectangles: `x [n, b, …]`, `y [n, b, …]`; `weights [n, b]` holds each example's share of its client's
    objective Σ_j weights[k, j]·loss(k, j), zero for padding.

    **Formal guarantees** of the clipped sums: every vector that is added has norm ≤ bound·(1 − MARGIN), and one more or
    less moves the sum, as it was computed, by at most `bound` (above); one that is not finite is left out. Sums of more
    than `SINGLE` terms are in double precision, those of groups added up.
    """

    def outputs(self, rows: Tensor, x: Tensor) -> Tensor:
        """Returns the model's outputs `[n, b, …]`."""

    def gradients(self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """Returns the gradient of each client's objective, `[n, d]`."""

    def clipped_clients(
        self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor, bound: float, groups: list[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the sum over clients of their gradients, each clipped to `bound`: `[d]`, and the norms `[n]`.

        Clients that follow each other may be added up in single precision by `groups` of so many (`groups.py`).
        """

    def clipped_examples(self, rows: Tensor, x: Tensor, y: Tensor, mask: Tensor, bound: float) -> tuple[Tensor, Tensor]:
        """Returns, for each client, the sum of its examples' clipped gradients `[n, d]`, and the norms `[n, b]`."""


def clip_factors(norms: Tensor, bound: float) -> Tensor:
    """Returns the factor ≤ 1 for each norm that brings it to at most `bound`.

    **Edge cases**: zero where the norm is not finite, or so large that the factor lies below the normal numbers of
    single precision, which have too few digits to keep the bound; and wherever the bound itself is that small.
    """
    least = _LEAST_FACTOR if bound >= _LEAST_BOUND else math.inf
    factors = (bound * (1 - MARGIN) / norms).clamp_max_(1.0)
    return factors.where(factors >= least, 0.0)  # which what is no number is not


def held(terms: int, units: int, spread: float = 1.0) -> None:
    """Refuses a sum whose rounding `MARGIN` does not cover.

    Raises:
        SordinoError: it has too many terms.
    """
    if terms * units * spread > MOST:
        raise SordinoError(
            f"a sum of {terms:,} terms is too long for its rounding to be bounded: take smaller batches "
            "(mechanism.sampling_rate, train.batch_size), or more clients with fewer records"
        )


def summed_clients(gradients: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Returns the sum of rows `[n, d] → [d]`, each clipped, and their norms."""
    held(len(gradients), len(gradients))
    total, norms = _clipped_sum(gradients, bound)
    return total, norms.to(gradients.dtype)


def summed_examples(examples: Tensor, mask: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Returns each client's sum of its examples' gradients `[n, b, d] → [n, d]`, each clipped, and the norms."""
    held(examples.shape[1], examples.shape[1])
    sums, norms = _clipped_sum(examples, bound, mask)
    return sums, norms.to(examples.dtype) * mask.to(norms.device)


def _clipped_sum(rows: Tensor, bound: float, shares: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Returns sums of clipped rows `[…, b, d] → […, d]`, each times its share, and the norms, in double precision."""
    rows = _where_doubles_are(rows).double()
    norms = torch.linalg.vector_norm(rows, dim=-1)
    good = torch.isfinite(norms)
    if not good.all():  # 0·∞ is not 0
        rows = rows.where(good[..., None], 0.0)
    factors = clip_factors(norms, bound)
    if shares is not None:
        factors = factors * _where_doubles_are(shares)
    return torch.matmul(factors.unsqueeze(-2), rows).squeeze(-2), norms


def _where_doubles_are(tensor: Tensor) -> Tensor:
    return tensor.cpu() if tensor.device.type == "mps" else tensor
