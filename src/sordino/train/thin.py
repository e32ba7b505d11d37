"""Linear layers with few inputs or outputs, computed alike for every record (`products.py`)."""

from __future__ import annotations

from torch import Tensor, nn

from sordino.products import THIN, linear
from sordino.train.layers.known import hooked


class ThinLinear(nn.Linear):
    """What `nn.Linear` computes, with the same weights."""

    @classmethod
    def of(cls, source: nn.Linear) -> ThinLinear:
        """Returns the layer with the weights of another."""
        made = cls(source.in_features, source.out_features, source.bias is not None, device="meta")
        made.weight, made.bias = source.weight, source.bias
        return made

    @staticmethod
    def knows(module: nn.Module) -> bool:
        """Whether a module should be replaced by this one."""
        return type(module) is nn.Linear and min(module.in_features, module.out_features) < THIN and not hooked(module)

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)
