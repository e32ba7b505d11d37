"""The second moment of the channels, released once, and the whitening that follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.data.client_data import ClientData
from sordino.opening.feature_map import TURN
from sordino.opening.sums import client_rows, short_rows, told
from sordino.stages import Update
from sordino.terms import Turn
from sordino.train.trainer import Trainer
from sordino.types import Unit

_RECORDS_AT_ONCE = 64


@dataclass(frozen=True)
class ChannelMoment:
    """Every client adds up Σ φφᵀ over its records and their places (channels × channels), or sends its mean.

    The server turns channels by A = ((M⁺ + ridge·m)/m)^(−1/2), where M⁺ is the released matrix without its negative
    eigenvalues and m their mean: directions that all records share no longer drown the others, and noise that is equal
    in every direction follows the geometry of the data.

    **Formal guarantees**: write a record as a matrix φ, channels × places, with ‖φ‖_F ≤ 1 (longer ones are scaled).
    Then ‖φφᵀ‖_F ≤ ‖φ‖_F² ≤ 1. What is sent is the upper triangle with off-diagonal entries times √2, which keeps the
    Frobenius norm as an L2 norm; so one record (add_remove), or one client that sends its mean (zero_out, add_remove),
    moves the sum by at most 1 in L2. Noise of multiplier z relative to that 1 makes it one Gaussian of multiplier z, or
    the Skellam that stands for it, against whom the mechanism's trust says. The divisor is the declared number.
    Eigenvalues, A and its use on records are post-processing.
    **Edge cases**: flat records have one place a channel. Records that are not finite count as zero. Where noise leaves
    no positive eigenvalue, A is the identity.
    **Reference**: Dwork et al. (2014), "Analyze Gauss", for the noisy second moment.
    """

    shape: tuple[int, ...]
    """Shape of a record: channels first."""
    unit: Unit = "record"
    ridge: float = 0.2

    @property
    def width(self) -> int:
        return self.shape[0] * (self.shape[0] + 1) // 2

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        return told(data, client_rows(data, self._moment, self.width), self.unit)

    def _moment(self, x: Tensor) -> Tensor:
        """Returns the packed Σ φφᵀ over records, in double precision: rounding is far below the margin of 10⁻⁶."""
        channels = self.shape[0]
        total = torch.zeros(channels, channels, dtype=torch.float64)
        for block in x.split(_RECORDS_AT_ONCE):
            rows = short_rows(block).double().reshape(len(block), channels, -1).transpose(0, 1).reshape(channels, -1)
            total.addmm_(rows, rows.T)
        return packed(total)

    def conclude(self, mean: Tensor) -> Mapping[str, Tensor]:
        return {TURN: whitening(unpacked(mean.double(), self.shape[0]), self.ridge).float()}


def packed(matrix: Tensor) -> Tensor:
    """Returns the upper triangle of a symmetric matrix as a vector of the same norm."""
    rows, columns = torch.triu_indices(*matrix.shape).unbind()
    return matrix[rows, columns] * torch.where(rows == columns, 1.0, math.sqrt(2))


def unpacked(vector: Tensor, size: int) -> Tensor:
    """Inverts `packed`."""
    rows, columns = torch.triu_indices(size, size).unbind()
    values = vector / torch.where(rows == columns, 1.0, math.sqrt(2)).to(vector.dtype)
    matrix = vector.new_zeros(size, size)
    matrix[rows, columns] = values
    matrix[columns, rows] = values
    return matrix


def whitening(moment: Tensor, ridge: float) -> Tensor:
    """Returns ((M⁺ + ridge·m)/m)^(−1/2), or the identity where M has no positive eigenvalue."""
    values, vectors = torch.linalg.eigh(moment)
    values = values.clamp_min(0)
    mean = values.mean()
    if not mean > 0:
        return torch.eye(len(moment), dtype=moment.dtype)
    turn: Tensor = (vectors * (values / mean + ridge).rsqrt()) @ vectors.T
    return turn
