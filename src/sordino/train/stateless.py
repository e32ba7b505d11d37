"""Any module as a function of a row of weights."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from sordino.layout import Layout
from sordino.models.outputs import scores
from sordino.train.dropout import keyed, mark

_OWN = frozenset(vars(nn.Module()))
_PLAIN = (bool, int, float, str, tuple, type(None))
"""Values that nobody can write into."""


class Attributes:
    """What modules hold besides weights, buffers and each other, as it was when this was made.

    **Formal guarantees**: after `restore` nothing is left there of what a pass wrote, in whatever it met: a largest
    number so far, say, which made-up records never exceed, but one record may, and so change what all others add.
    **Edge cases**: whatever a module keeps outside of itself (a global variable) is not seen.
    """

    def __init__(self, model: nn.Module) -> None:
        self._known = {id(part): part for part in (*model.modules(), *model.parameters(), *model.buffers())}
        self._held = [(vars(module), self._copied(vars(module))) for module in model.modules()]

    def restore(self) -> None:
        """Puts everything back."""
        for now, held in self._held:
            for name in now.keys() - held.keys() - _OWN:
                del now[name]
            now.update(self._copied(held))

    def _copied(self, values: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value if isinstance(value, _PLAIN) else copy.deepcopy(value, dict(self._known))
            for name, value in values.items()
            if name not in _OWN
        }


class Stateless:
    """Calls a copy of a module with weights from outside; the user's module is never touched.

    **Formal guarantees**: what a pass writes into weights, buffers or attributes is gone in the next one.
    """

    def __init__(self, model: nn.Module) -> None:
        self.layout, self._model = Layout.of(model), copy.deepcopy(model)
        self._dropouts = keyed(self._model)
        self._attributes = Attributes(self._model)

    def __call__(self, row: Tensor, batch: Tensor) -> Tensor:
        """Returns the outputs for a batch under the weights `row [d]`."""
        self._attributes.restore()
        mark(self._dropouts, batch)
        return scores(functional_call(self._model, fresh_state(self._model, self.layout, row), (batch,)))


def fresh_state(model: nn.Module, layout: Layout, row: Tensor) -> dict[str, Tensor]:
    """Returns weights and buffers for one pass: whatever it writes into them is gone afterwards."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    return buffers | layout.unflatten(row.clone())
