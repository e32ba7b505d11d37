"""A recipe's model as a function of one flat row of weights: what attackers compute with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from sordino import models
from sordino.data.federation import Federation
from sordino.layout import Layout
from sordino.models.losses import Loss
from sordino.recipe import Recipe
from sordino.runs.setup import built
from sordino.types import FloatArray

_AT_ONCE = 4096


@dataclass(frozen=True)
class Network:
    """The architecture, without weights of its own."""

    module: nn.Module
    layout: Layout
    loss: Loss

    @classmethod
    def of(cls, recipe: Recipe, federation: Federation, model: nn.Module | None = None) -> Network:
        """Returns the network that a recipe trains, or the one that is given in its place."""
        module = built(recipe, federation) if model is None else model
        return cls(module, Layout.of(module), models.loss(recipe.model.loss, module, federation.classes))

    @property
    def start(self) -> Tensor:
        """The weights that training begins with."""
        named = {name: parameter.detach() for name, parameter in self.module.named_parameters()}
        return self.layout.flatten(named).clone()

    def outputs(self, weights: Tensor, x: Tensor) -> Tensor:
        """Returns the outputs of records, differentiable in both arguments."""
        found: Tensor = functional_call(self.module, self.layout.unflatten(weights), (x,))
        return found

    def losses(self, weights: Tensor, x: Tensor, y: Tensor) -> FloatArray:
        """Returns the loss of every record."""
        with torch.no_grad():
            parts = zip(x.split(_AT_ONCE), y.split(_AT_ONCE), strict=True)
            found = [self.loss(self.outputs(weights, a), b).double() for a, b in parts]
        return np.asarray(torch.cat(found).numpy())

    def probabilities(self, weights: Tensor, x: Tensor) -> FloatArray:
        """Returns the softmax of the outputs, `[records, classes]`."""
        with torch.no_grad():
            found = [self.outputs(weights, part).double().softmax(1) for part in x.split(_AT_ONCE)]
        return np.asarray(torch.cat(found).numpy())

    def gradients(self, weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Returns the gradient of every record's loss, `[records, d]`."""

        def one(row: Tensor, a: Tensor, b: Tensor) -> Tensor:
            return self.loss(self.outputs(row, a[None]), b[None])[0]

        each = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0), chunk_size=512)
        found: Tensor = each(weights, x, y)
        return found
