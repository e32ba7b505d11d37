"""The layers of each model, as functions of the shape of a record and the number of outputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import nn

from sordino.errors import ModelError

InputShape = tuple[int, ...]
Layers = Callable[[InputShape, int, Sequence[int], str], list[nn.Module]]
"""(shape of a record, outputs, hidden widths, activation) → layers; only `mlp` heeds the last two."""

MOST_WEIGHTS = 10**8
"""Weights of a network that is named in a recipe: more would rather be a mistake, and take a machine's memory."""

_ACTIVATIONS: dict[str, type[nn.Module] | None] = {"relu": nn.ReLU, "tanh": nn.Tanh, "linear": None}


def linear(shape: InputShape, outputs: int, hidden: Sequence[int], activation: str) -> list[nn.Module]:
    """Returns one layer of scores."""
    return mlp(shape, outputs, (), "linear")


def mlp(shape: InputShape, outputs: int, hidden: Sequence[int], activation: str) -> list[nn.Module]:
    """Returns fully connected layers of the hidden widths, with an activation between them."""
    if activation not in _ACTIVATIONS:
        raise ModelError(f"model.activation is {activation!r}: use one of {', '.join(_ACTIVATIONS)}.")
    if any(width < 1 for width in hidden):
        raise ModelError(f"model.hidden is {tuple(hidden)}: every hidden layer needs at least one unit.")
    widths = [_size(shape), *hidden, outputs]
    weights = sum((width + 1) * following for width, following in itertools.pairwise(widths))
    if weights > MOST_WEIGHTS:
        raise ModelError(
            f"layers of widths {', '.join(f'{width:,}' for width in widths)} have {weights:,} weights, and a network "
            f"by name at most {MOST_WEIGHTS:,}: make them narrower (model.hidden), or declare fewer classes."
        )
    between = _ACTIVATIONS[activation]
    layers: list[nn.Module] = [nn.Flatten()]
    for width, following in itertools.pairwise(widths):
        layers += [nn.Linear(width, following)] + ([between()] if between else [])
    return layers[:-1] if between else layers


def mlp_yuan(shape: InputShape, outputs: int, hidden: Sequence[int], activation: str) -> list[nn.Module]:
    """Returns one hidden layer of 32 units without an activation (geometric paper, §V-B)."""
    return mlp(shape, outputs, (32,), "linear")


def convolutional(convolutions: Callable[[int], list[nn.Module]], dense: Sequence[int]) -> Layers:
    """Returns the layers of a network: convolutions for so many channels, then ReLU layers of the widths in `dense`."""

    def layers(shape: InputShape, outputs: int, hidden: Sequence[int], activation: str) -> list[nn.Module]:
        if len(shape) != 3:
            raise ModelError(f"model.name asks for images [channels, height, width], but a record is {shape}: use mlp.")
        front = convolutions(shape[0])
        try:
            features = nn.Sequential(*front)(torch.zeros(1, *shape))
        except RuntimeError:
            raise ModelError(f"model.name has kernels that are too large for images of {shape}: use mlp.") from None
        return front + mlp(tuple(features.shape[1:]), outputs, dense, "relu")

    return layers


def last_dropped(layers: Layers, rate: float) -> Layers:
    """Returns a network with a dropout layer before its last one."""

    def dropped(shape: InputShape, outputs: int, hidden: Sequence[int], activation: str) -> list[nn.Module]:
        *front, last = layers(shape, outputs, hidden, activation)
        return [*front, nn.Dropout(rate), last]

    return dropped


def tfp(channels: int) -> list[nn.Module]:
    """Returns the convolutions of TensorFlow Privacy's tutorial network."""
    first = nn.Conv2d(channels, 16, 8, stride=2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)
    return [*first, nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.MaxPool2d(2, 1)]


def pooled(*widths: int) -> Callable[[int], list[nn.Module]]:
    """Convolutions of 5 × 5, each followed by ReLU and max-pooling of 2 × 2."""

    def layers(channels: int) -> list[nn.Module]:
        pairs = itertools.pairwise([channels, *widths])
        return [layer for a, b in pairs for layer in (nn.Conv2d(a, b, 5), nn.ReLU(), nn.MaxPool2d(2))]

    return layers


def doubled(channels: int) -> list[nn.Module]:
    """Twice two convolutions of 3 × 3 and max-pooling of 2 × 2."""
    layers: list[nn.Module] = []
    for a, b in ((channels, 32), (32, 64)):
        layers += [nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return layers


def _size(shape: InputShape) -> int:
    return torch.Size(shape).numel()
