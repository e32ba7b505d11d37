"""The mean feature row, released once: what every record has in common tells nothing, and only takes up room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.data.client_data import ClientData
from sordino.opening.feature_map import MEAN
from sordino.opening.sums import client_rows, short_rows, told
from sordino.stages import Update
from sordino.terms import Turn
from sordino.train.trainer import Trainer
from sordino.types import Unit


@dataclass(frozen=True)
class FeatureMean:
    """Every client adds up its feature rows (record unit), or sends their mean (client unit).

    **Formal guarantees**: rows longer than 1 are scaled to norm 1, so one record more or less (add_remove) changes its
    client's sum by at most 1 in L2; a client's mean has norm at most 1, so the sum over clients moves by at most 1 when
    a client comes, goes or is zeroed out. The observer sees the sum with noise of multiplier z relative to that 1, as
    the mechanism's trust makes it (noise in the message, shared out over a secure integer sum, or from the server): one
    Gaussian of multiplier z, or the Skellam that stands for it. The divisor is the declared number, not a count.
    Subtracting the mean from a record is post-processing by whoever holds the record.
    **Edge cases**: rows that are not finite count as zero.
    """

    shape: tuple[int, ...]
    """Shape of a record."""
    unit: Unit = "record"

    @property
    def width(self) -> int:
        return torch.Size(self.shape).numel()

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        rows = client_rows(data, lambda x: short_rows(x).flatten(1).sum(0, dtype=torch.float64), self.width)
        return told(data, rows, self.unit)

    def conclude(self, mean: Tensor) -> Mapping[str, Tensor]:
        return {MEAN: mean.float().view(self.shape).clone()}
