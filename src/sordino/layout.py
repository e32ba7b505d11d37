"""Where each named component of a model lies in one flat row of parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the components, in the order in which a row holds them."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, module: torch.nn.Module) -> Layout:
        """Returns the layout of the module's trainable parameters, in their own order."""
        named = [(name, tuple(p.shape)) for name, p in module.named_parameters() if p.requires_grad]
        return cls(tuple(name for name, _ in named), tuple(shape for _, shape in named))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of scalars in each component (a 0-d parameter counts as one)."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def width(self) -> int:
        """Number of parameters d: the length of a row."""
        return sum(self.sizes)

    def flatten(self, tree: Mapping[str, Tensor]) -> Tensor:
        """Joins named tensors into one flat row (or rows, when every tensor has one leading dimension more)."""
        lead = tree[self.names[0]].dim() - len(self.shapes[0])
        return torch.cat(
            [
                tree[name].flatten(lead) if tree[name].dim() > lead else tree[name].unsqueeze(lead)
                for name in self.names
            ],
            dim=lead,
        )

    def unflatten(self, row: Tensor) -> dict[str, Tensor]:
        """Splits a row `[d]`, or rows `[n, d]`, into named views."""
        pieces = row.split(list(self.sizes), dim=-1)
        return {
            name: piece.view((*row.shape[:-1], *shape))
            for name, shape, piece in zip(self.names, self.shapes, pieces, strict=True)
        }
