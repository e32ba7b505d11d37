"""Any module as a function of a row of weights."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from sordino.layout import Layout
from sordino.models.outputs import scores
from sordino.train.dropout import keyed, mark

_REGISTERED = ("_parameters", "_buffers", "_modules")
"""What modules hold by name: the registries are put back, and what is in them goes on by itself."""
_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})
"""Kinds of values that nobody can write into (a tuple may hold what somebody can)."""


class Attributes:
    """What modules hold besides the values of weights and buffers, as it was when this was made.

    **Formal guarantees**: after `restore` nothing is left there of what a pass wrote, in whatever it met: a largest
    number so far, say, which made-up records never exceed, but one record may, and so change what all others add.
    Attributes are put back, what hooks keep in themselves, which modules, weights, buffers and hooks there are, and
    whether a module trains.
    **Edge cases**: whatever is kept outside of modules (a global variable, a class, a closure) is not seen here; models
    that do so are looked for before training (`models/probing.py`).
    """

    def __init__(self, model: nn.Module) -> None:
        self._known = {id(part): part for part in model.modules()}
        memo = dict(self._known)
        self._held = [(vars(module), *_sorted(vars(module), memo)) for module in model.modules()]

    def restore(self) -> None:
        """Puts everything back."""
        memo = dict(self._known)
        for now, plain, shallow, deep in self._held:
            now.clear()
            now.update(plain)
            now.update({name: held.copy() for name, held in shallow.items()})
            now.update(copy.deepcopy(deep, memo) if deep else {})


def _sorted(values: dict[str, Any], memo: dict[int, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns which values stay as they are, of which a new registry is enough, and copies of all others."""
    plain = {name: value for name, value in values.items() if type(value) in _PLAIN}
    empty = {name for name, value in values.items() if isinstance(value, dict | set) and not value}
    shallow = {name: values[name].copy() for name in values if name in _REGISTERED or name in empty}
    deep = {name: value for name, value in values.items() if name not in plain and name not in shallow}
    return plain, shallow, copy.deepcopy(deep, memo)


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
    """Returns weights, frozen ones too, and buffers for one pass: whatever it writes into them is gone afterwards."""
    frozen = {name: weight.detach().clone() for name, weight in model.named_parameters() if not weight.requires_grad}
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    return frozen | buffers | layout.unflatten(row.clone())
