"""Any module as a function of a row of weights."""

from __future__ import annotations

import copy

from torch import Tensor, nn
from torch.func import functional_call

from sordino.layout import Layout
from sordino.models.outputs import scores
from sordino.train.dropout import keyed, mark


class Stateless:
    """Calls a copy of a module with weights from outside; the user's module is never touched.

    **Formal guarantees**: what a pass writes into weights or buffers is gone in the next one: each gets copies.
    """

    def __init__(self, model: nn.Module) -> None:
        self.layout, self._model = Layout.of(model), copy.deepcopy(model)
        self._dropouts = keyed(self._model)

    def __call__(self, row: Tensor, batch: Tensor) -> Tensor:
        """Returns the outputs for a batch under the weights `row [d]`."""
        mark(self._dropouts, batch)
        return scores(functional_call(self._model, fresh_state(self._model, self.layout, row), (batch,)))


def fresh_state(model: nn.Module, layout: Layout, row: Tensor) -> dict[str, Tensor]:
    """Returns weights and buffers for one pass: whatever it writes into them is gone afterwards."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    return buffers | layout.unflatten(row.clone())
