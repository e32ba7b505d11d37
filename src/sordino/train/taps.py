"""Taps: zeros added to what layers compute, whose gradients are the errors there, while layers' inputs are noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn


@dataclass
class Recorder:
    """What passes through the taps of one forward pass, by the tap's name and how often it was passed before.

    Attributes:
        zeros: what each tap adds; with None, a first look that adds nothing and notes the shapes.
        inputs: what each layer was given.
        outputs: shapes of what each layer computed.
    """

    zeros: Mapping[str, Tensor] | None = None
    inputs: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def note(self, name: str, x: Tensor, shape: tuple[int, ...]) -> str:
        """Notes what a layer was given, and returns the name of this passage."""
        passage = f"{name}#{sum(known.rpartition('#')[0] == name for known in self.inputs)}"
        self.inputs[passage], self.outputs[passage] = x, shape
        return passage

    def tap(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        """Notes a layer's inputs and returns its outputs, with the zeros added."""
        passage = self.note(name, x, tuple(y.shape))
        return y if self.zeros is None else y + self.zeros[passage]


class Tappable(nn.Module):
    """A module that taps inside, where a recorder is set; its weights are constants then."""

    recorder: Recorder | None = None
    name: str = ""

    def weight(self, name: str) -> Any:
        """Returns a parameter by name."""
        found = getattr(self, name, None)
        return found if found is None or self.recorder is None else found.detach()


@contextmanager
def recording(modules: Mapping[str, nn.Module], recorder: Recorder) -> Iterator[None]:
    """Taps these modules: their weights are constants within them, so that only other uses have gradients."""
    handles: list[Any] = []
    for name, module in modules.items():
        if isinstance(module, Tappable):
            module.recorder, module.name = recorder, name
        else:
            handles += _hooks(name, module, recorder)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for module in modules.values():
            if isinstance(module, Tappable):
                module.recorder = None


def _hooks(name: str, module: nn.Module, recorder: Recorder) -> list[Any]:
    held: dict[str, Any] = {}

    def before(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        held.update(module._parameters)
        for key, parameter in held.items():
            module._parameters[key] = None if parameter is None else parameter.detach()

    def after(module: nn.Module, inputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
        module._parameters.update(held)
        return recorder.tap(name, inputs[0], y)

    return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
