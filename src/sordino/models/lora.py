"""Low-rank adapters: a few trained weights beside a frozen network.

Noise is added to every trained weight, so that its length grows with the root of their number, while the gradients that
it must hide are clipped to the same length: the fewer weights are trained, the more of the signal is left.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from sordino.errors import ModelError


class Adapted(nn.Module):
    """A frozen linear layer W with an adapter beside it: y = W·x + b + scale·B·A·x. Only A and B are trained."""

    def __init__(self, frozen: nn.Linear, rank: int, scale: float, generator: torch.Generator) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)
        self.scale = scale
        with torch.no_grad():
            self.down.weight.normal_(0, frozen.in_features**-0.5, generator=generator)
            self.up.weight.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Returns what the frozen layer does, and the adapter's part."""
        y: Tensor = self.frozen(x) + self.up(self.down(x)) * self.scale
        return y

    @property
    def weight(self) -> Tensor:
        """The weight of a linear layer that does the same, for code that asks for it."""
        whole: Tensor = self.frozen.weight + self.scale * self.up.weight @ self.down.weight
        return whole

    @property
    def bias(self) -> Tensor | None:
        """The bias of that layer."""
        return self.frozen.bias

    def merged(self) -> nn.Linear:
        """Returns one linear layer that does the same."""
        layer = copy.deepcopy(self.frozen)
        layer.weight.data.copy_(self.weight.detach())
        return layer


def lora(
    model: nn.Module,
    rank: int = 4,
    *,
    scale: float = 1.0,
    layers: Sequence[str] | Callable[[str], bool] | None = None,
    trained: Sequence[str] = (),
    seed: int = 0,
) -> nn.Module:
    """Returns a copy of a model whose own weights are frozen, with a trained low-rank adapter beside its linear layers.

    Args:
        model: the network, trained on public data beforehand.
        rank: columns of A and rows of B; a layer of m × n weights has rank·(m + n) trained ones then.
        scale: how much an adapter counts.
        layers: which linear layers get one, by name (`"blocks.0.out"`) or by a function of the name; all by default.
        trained: names of layers that are trained as they are, without an adapter: a new last layer, say.
        seed: seed of A; B begins at zero, so that the copy computes what the model did.

    **Formal guarantees**: the copy computes what the model did until it is trained. Mechanisms see the trained weights
    alone: the number of parameters, clipping and noise are those of the adapters. PyTorch's global generator is left as
    it was.
    **Edge cases**: exact `nn.Linear` layers only, as a subclass may use its weight elsewhere; weights that layers share
    stay frozen and shared.
    **Reference**: Hu et al. (2022), "LoRA: Low-Rank Adaptation of Large Language Models"; under differential privacy:
    Yu et al. (2022), "Differentially Private Fine-tuning of Language Models".

    Raises:
        ModelError: the rank is below 1 or above that of every chosen layer, the scale is 0 or no number, no layer is
            left to be adapted, or a name is unknown.
    """
    if type(rank) is not int or rank < 1:
        raise ModelError(f"rank is {rank!r}: give a whole number of at least 1.")
    if not isinstance(scale, int | float) or not math.isfinite(scale) or not scale:
        raise ModelError(f"scale is {scale!r}: give a number other than 0.")
    if not isinstance(model, nn.Module):
        raise ModelError(f"model is a {type(model).__name__}: give the torch.nn.Module to adapt.")
    adapted = copy.deepcopy(model).requires_grad_(False)
    found = {name: layer for name, layer in adapted.named_modules() if name and type(layer) is nn.Linear}
    _require(set(trained) <= {name for name, _ in adapted.named_modules()}, "trained", trained, found)
    if layers is not None and not callable(layers):
        _require(set(layers) <= set(found), "layers", layers, found)
    wanted = layers if callable(layers) else (lambda name: layers is None or name in layers)
    chosen = {name: layer for name, layer in found.items() if wanted(name) and name not in trained}
    if not chosen:
        raise ModelError("the model has no nn.Linear layer to adapt: name others in layers, or train it as it is.")
    most = max(min(layer.in_features, layer.out_features) for layer in chosen.values())
    if rank > most:
        raise ModelError(f"rank is {rank}, but no chosen layer has one above {most}: give at most that.")
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        for name, layer in chosen.items():
            _replace(adapted, name, Adapted(layer, rank, scale, generator))
    for name in trained:
        adapted.get_submodule(name).requires_grad_()
    return adapted


def merged(model: nn.Module) -> nn.Module:
    """Returns a copy of an adapted model with the adapters folded into its layers: the network as it was before."""
    whole = copy.deepcopy(model)
    for name, layer in list(whole.named_modules()):
        if isinstance(layer, Adapted):
            _replace(whole, name, layer.merged())
    return whole.requires_grad_()


def trained_weights(model: nn.Module) -> tuple[int, int]:
    """Returns how many weights are trained, and how many there are in all."""
    every = [(math.prod(p.shape), p.requires_grad) for p in model.parameters()]
    return sum(count for count, trained in every if trained), sum(count for count, _ in every)


def _require(known: bool, argument: str, names: Sequence[str], found: dict[str, nn.Linear]) -> None:
    if not known:
        raise ModelError(
            f"{argument} is {list(names)}, but the model's linear layers are {', '.join(found)}: use those."
        )


def _replace(model: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)
