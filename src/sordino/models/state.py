"""The whole state of a model: what `load_state_dict` wants, frozen weights and buffers too."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn


def whole_state(model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the model's state with these weights in place of its own, each tensor with memory of its own.

    **Edge cases**: a weight that is shared between layers stands under each of its names.
    """
    names = {id(one): name for name, one in model.named_parameters()}
    return {
        name: weights.get(names.get(id(value), name), value).detach().clone().contiguous()
        for name, value in model.state_dict(keep_vars=True).items()
        if isinstance(value, Tensor)
    }
