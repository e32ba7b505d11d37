"""Models by name: linear ones, MLPs, and the small networks of the papers.

Every model is a plain `nn.Sequential` of layers that the batched engine knows (but for dropout). Convolutional networks
expect images `[channels, height, width]`. The papers leave sizes out; what we chose in their place is said in each
description.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from sordino.errors import ModelError
from sordino.models.networks import (
    InputShape,
    Layers,
    convolutional,
    doubled,
    last_dropped,
    linear,
    mlp,
    mlp_yuan,
    pooled,
    tfp,
)
from sordino.models.preconditioned import preconditioned


@dataclass(frozen=True)
class Blueprint:
    """A model by name: what it is, and the layers that make it for an input shape and a number of outputs."""

    name: str
    description: str
    layers: Layers
    preferred_loss: str = "cross_entropy"
    zero_start: bool = False
    """Convex models start at zero, which favours no class; the others at PyTorch's own random weights."""
    start_norm: float | None = None
    """If set, the random weights are scaled together to this L2 norm."""


def build(
    name: str,
    input_shape: InputShape,
    classes: int,
    *,
    seed: int = 0,
    hidden: Sequence[int] = (32,),
    activation: str = "relu",
    bias: bool = True,
    precondition: bool = False,
) -> nn.Sequential:
    """Returns a model by name, with weights that depend on the seed alone.

    Args:
        name: a key of `MODELS`.
        input_shape: shape of one record.
        classes: number of classes, or 0 for regression (one output).
        seed: seed of the starting weights.
        hidden: widths of the hidden layers (`mlp` only).
        activation: relu, tanh or linear (`mlp` only).
        bias: whether layers add a constant; beside records of norm 1 it takes half of every clipped gradient.
        precondition: whether layers are turned by what noise images look like there (`preconditioned.py`).

    **Formal guarantees**: PyTorch's global generator is left as it was.
    """
    if name not in MODELS:
        raise ModelError(
            f"model.name is {name!r}: use one of {', '.join(MODELS)}, or give one of your own (--model, model=…)."
        )
    blueprint = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(*blueprint.layers(tuple(input_shape), classes or 1, hidden, activation))
    if not bias:
        for layer in model:
            if getattr(layer, "bias", None) is not None:
                layer.register_parameter("bias", None)
    if blueprint.zero_start:
        for parameter in model.parameters():
            nn.init.zeros_(parameter)
    if blueprint.start_norm is not None:
        with torch.no_grad():
            factor = blueprint.start_norm / float(torch.nn.utils.parameters_to_vector(model.parameters()).norm())
            for parameter in model.parameters():
                parameter.mul_(factor)
    if precondition:
        model = preconditioned(model, tuple(input_shape))
    vars(model)["preferred_loss"] = blueprint.preferred_loss
    return model


_ALL = (
    Blueprint("linear", "logistic regression (linear, for regression)", linear, zero_start=True),
    Blueprint("svm", "linear support vector machine: hinge loss, any number of classes", linear, "hinge", True),
    Blueprint("mlp", "fully connected layers of the widths in model.hidden", mlp),
    Blueprint("mlp_yuan", "geometric paper: one hidden layer of 32 units, linear activation", mlp_yuan),
    Blueprint(
        "cnn_tfp",
        "dropout_robust paper: TensorFlow Privacy's CNN (26,010 weights on 28 × 28), without the paper's dropout "
        "layer, whose rate it does not state",
        convolutional(tfp, (32,)),
    ),
    Blueprint(
        "cnn_tfp_dropout",
        "cnn_tfp with a dropout layer of rate 0.5 between its dense layers, as the paper has one of unstated rate",
        last_dropped(convolutional(tfp, (32,)), 0.5),
    ),
    Blueprint(
        "cnn_xue",
        "component_adaptive paper, grey images: 2 convolutions, 2 dense layers; sizes ours (5 × 5, 10 and 20 channels, "
        "pooling, 50 units)",
        convolutional(pooled(10, 20), (50,)),
    ),
    Blueprint(
        "cnn_xue_cifar",
        "component_adaptive paper, CIFAR-10: twice 2 convolutions and a max-pooling; sizes ours (3 × 3, 32 and 64 "
        "channels)",
        convolutional(doubled, ()),
    ),
    Blueprint(
        "cnn_a_dpfl",
        "a_dpfl paper: 2 convolutions 5 × 5 of 32 channels with pooling, 1,024 units; no padding, which it does not "
        "state",
        convolutional(pooled(32, 32), (1024,)),
    ),
    Blueprint(
        "cnn_fed_cad",
        "fed_cad paper: 2 convolutions, 2 dense layers; sizes ours, as for cnn_xue",
        convolutional(pooled(10, 20), (50,)),
    ),
    Blueprint(
        "cnn_yuan",
        "geometric paper: 2 convolutions 5 × 5, 3 dense layers; sizes ours (LeNet: 6 and 16 channels, pooling, 120 and "
        "84 units)",
        convolutional(pooled(6, 16), (120, 84)),
    ),
    Blueprint(
        "cnn_yuan_inside",
        "cnn_yuan with its starting weights scaled to norm 4, so that they begin inside the paper's C = 5",
        convolutional(pooled(6, 16), (120, 84)),
        start_norm=4.0,
    ),
    Blueprint(
        "cnn_yuan_small",
        "geometric paper's layers at sizes whose own start is inside C = 5 (2 and 4 channels, 16 and 12 units)",
        convolutional(pooled(2, 4), (16, 12)),
    ),
)

MODELS: dict[str, Blueprint] = {blueprint.name: blueprint for blueprint in _ALL}
"""Every model by its name in recipes."""
