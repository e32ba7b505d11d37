"""What an opening makes of features: a public affine map that every client applies to its own records."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sordino.data.client_data import ClientData
from sordino.data.features.norms import UnitRows
from sordino.data.federation import Federation
from sordino.products import few_or_many, matrices
from sordino.terms import Knobs

MEAN, TURN = "feature_mean", "channel_turn"
"""Names of the knobs: what is subtracted from a record, and the matrix that its channels are multiplied by."""

_ROWS_AT_ONCE = 2048


class FeatureMap(nn.Module):
    """x ↦ unit(A·unit(x − m)): mean m subtracted, rows scaled to norm 1, channels turned by A, rows scaled again.

    Either part may be missing; a missing one does nothing, its scaling included.

    **Formal guarantees**: m and A were released (and charged), so the map is public; it acts on each record by itself,
    so unit, adjacency and sensitivity are those of the records: to the bit, wherever a record stands among others
    (`products.py`). Every row that comes out has norm at most 1 (within rounding).
    **Edge cases**: records of any shape: the first dimension holds channels, the others are places; flat records have
    one place. A row that becomes zero stays zero. An empty batch is no error.
    """

    def __init__(self, mean: Tensor | None = None, turn: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("turn", turn)

    mean: Tensor | None
    turn: Tensor | None

    @classmethod
    def of(cls, knobs: Knobs) -> FeatureMap | None:
        """Returns the map that the knobs hold; None where no opening made one."""
        if MEAN not in knobs and TURN not in knobs:
            return None
        return cls(knobs.more.get(MEAN), knobs.more.get(TURN))

    def forward(self, x: Tensor) -> Tensor:
        """Returns each record as the map shows it."""
        if len(x) > _ROWS_AT_ONCE:
            out = torch.empty_like(x)
            for start in range(0, len(x), _ROWS_AT_ONCE):
                out[start : start + _ROWS_AT_ONCE] = self.forward(x[start : start + _ROWS_AT_ONCE])
            return out
        unit = UnitRows()
        if self.mean is not None:
            x = unit(x - self.mean.view(x.shape[1:]))
        if self.turn is not None and len(x):
            turned = matrices(self.turn, x.flatten(2)) if x.dim() > 2 else few_or_many(x, self.turn)
            x = unit(turned.reshape(x.shape))
        return x


def mapped_data(knobs: Knobs, data: ClientData) -> ClientData:
    """Returns clients' records as the knobs' map shows them; the same ones where there is none."""
    lens = FeatureMap.of(knobs)
    return data if lens is None else ClientData(data.clients, data.offsets, lens(data.x), data.y)


def mapped_federation(knobs: Knobs, federation: Federation) -> Federation:
    """Returns a whole federation as the knobs' map shows it, test and public records too."""
    lens = FeatureMap.of(knobs)
    return federation if lens is None else federation.mapped(lens)
