"""Any module as a function of a row of weights."""

from __future__ import annotations

import copy

from torch import Tensor, nn
from torch.func import functional_call

from sordino.layout import Layout
from sordino.models.outputs import scores
from sordino.train.dropout import keyed, mark


class Stateless:
    """Calls a copy of a module with weights from outside; the user's module is never touched."""

    def __init__(self, model: nn.Module) -> None:
        self.layout, self._model = Layout.of(model), copy.deepcopy(model)
        self._dropouts = keyed(self._model)

    def __call__(self, row: Tensor, batch: Tensor) -> Tensor:
        """Returns the outputs for a batch under the weights `row [d]`."""
        mark(self._dropouts, batch)
        return scores(functional_call(self._model, self.layout.unflatten(row), (batch,)))
