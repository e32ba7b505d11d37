"""Gradients of losses at the outputs: in closed form for those we know, by autograd for the others."""

from __future__ import annotations

import torch
from torch import Tensor

from sordino.models.losses import Loss, cross_entropy


def output_error(loss: Loss, outputs: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """Returns the gradient of Σ weights·loss(outputs, y) with respect to the outputs `[n, b, …]`."""
    if loss is cross_entropy and outputs.dim() == 3:
        return _softmax_error(outputs, y, weights)
    with torch.enable_grad():
        leaf = outputs.detach().requires_grad_()
        losses = loss(leaf.flatten(0, 1), y.flatten(0, 1))
        (error,) = torch.autograd.grad(losses, leaf, weights.flatten())
    return error


def _softmax_error(outputs: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """∂/∂z of weight·(logsumexp z − z_y) is weight·(softmax z − indicator of y)."""
    weights = weights.unsqueeze(2)
    # by hand, as the library's softmax is slow over few classes
    error = (outputs - outputs.amax(2, keepdim=True)).exp_()
    error.mul_(weights / error.sum(2, keepdim=True))
    return error.scatter_add_(2, y.unsqueeze(2), -weights)
