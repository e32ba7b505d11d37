"""Losses of single examples: `(outputs [n, classes], targets [n]) → [n]`. Averaging is the trainer's."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from sordino.errors import ModelError

Loss = Callable[[Tensor, Tensor], Tensor]
"""Losses of single examples: `(outputs [n, …], targets [n, …]) → [n]`."""


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood under the softmax of the outputs."""
    return functional.cross_entropy(outputs, targets, reduction="none")


def hinge(outputs: Tensor, targets: Tensor) -> Tensor:
    """How far the right score falls short of a lead of 1 over the best wrong one.

    For two classes this is the usual hinge loss of the difference of the two scores.

    **Reference**: Crammer, Singer (2001), "On the Algorithmic Implementation of Multiclass Kernel-based Vector
    Machines". The geometric paper's §V-C has a term λ/2·‖w‖² beside it, whose λ it does not state: that is
    `train.weight_decay`, 0 by default.
    """
    right = outputs.gather(1, targets[:, None]).squeeze(1)
    wrong = outputs.scatter(1, targets[:, None], -torch.inf).amax(1)
    return (1 + wrong - right).clamp_min(0)


def mse(outputs: Tensor, targets: Tensor) -> Tensor:
    """Squared distance to the target, averaged over outputs; a class label stands for its indicator vector."""
    if not targets.is_floating_point():
        targets = functional.one_hot(targets, outputs.shape[1]).to(outputs.dtype)
    return (outputs - targets.view_as(outputs)).square().flatten(1).mean(1)


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "hinge": hinge, "mse": mse}
"""Losses by their recipe names."""


def loss(name: str, module: nn.Module, classes: int) -> Loss:
    """Returns a loss by name; `auto` is the one the model asks for, else cross-entropy, else (no classes) mse."""
    if name == "auto":
        name = getattr(module, "preferred_loss", "cross_entropy") if classes else "mse"
    if name not in LOSSES:
        raise ModelError(f"model.loss is {name!r}: use auto or one of {', '.join(LOSSES)}.")
    if not classes and name != "mse":
        raise ModelError(f"model.loss is {name!r} but the targets are numbers, not classes: use mse.")
    return LOSSES[name]
