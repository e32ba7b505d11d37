"""Networks preconditioned from synthetic noise: each layer's inputs are turned so that noise images look alike there.

Clipping and noise treat all directions of a layer alike, while its inputs do not: they are longer in some directions,
which take up the clip norm, so that the others drown. K-FAC divides the gradient by the second moment of the inputs.
Here that moment is measured on noise images, which are drawn from a fixed seed.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from sordino.errors import ModelError

_IMAGES = 512
_IMAGE = 3


def preconditioned(
    model: nn.Sequential, input_shape: tuple[int, ...], *, seed: int = 0, ridge: float = 0.1
) -> nn.Sequential:
    """Returns a model that computes the same, with a fixed turn P before each layer: y = (W·P⁻¹)·(P·x) + b.

    P = s·(M/m + ridge)^(−1/2) with M the second moment of the layer's inputs while noise images pass through the
    untrained network, m the mean of its eigenvalues, and s such that P·x has norm 1 in the mean. V = W·P⁻¹ is trained,
    P is frozen. A step on V is a step on W that is multiplied by P²: the input side of K-FAC, as a change of
    coordinates. Clipping and noise happen in these coordinates, and nothing else in a mechanism has to know.

    Args:
        model: layers of exact types `nn.Linear` and `nn.Conv2d` are preconditioned; the others are kept.
        input_shape: shape of one record.
        seed: what noise images are drawn from: public.
        ridge: share of the mean eigenvalue that is added to all of them.

    **Formal guarantees**: P is a function of the untrained model, the shape of a record, the seed and the ridge, all of
    which are public: no record is among the arguments, so it costs no privacy, whatever the unit, trust and adjacency.
    Until it is trained, the model computes what it did, within rounding. Trained weights are as many as before.
    The model that is given, and PyTorch's global generator, are left as they were.
    **Edge cases**: convolutions have their channels turned (a 1 × 1 convolution), not the places of a patch; where they
    have groups they are kept. Inputs that are zero for all noise images leave P the identity. Flat records have no
    neighbours, and get independent noise.
    **Reference**: Martens and Grosse (2015), "Optimizing Neural Networks with Kronecker-factored Approximate
    Curvature".

    Raises:
        ModelError: the model is not a plain `nn.Sequential`, or starts at zero, where every turn is the same model.
    """
    if type(model) is not nn.Sequential:
        raise ModelError("model.precondition asks for layers one after the other (nn.Sequential): leave it out.")
    if not any(bool(parameter.any()) for parameter in model.parameters()):
        raise ModelError("model.precondition is for networks, and this one starts at zero: use opening.channel_moment.")
    turned, x = nn.Sequential(), noise_images(input_shape, seed)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):  # layers draw weights when they are made
        for layer in copy.deepcopy(model).eval():
            parts = _turned(layer, x, ridge)
            turned.extend(parts)
            x = nn.Sequential(*parts)(x)
    return turned.train(model.training)


def noise_images(shape: tuple[int, ...], seed: int, count: int = _IMAGES) -> Tensor:
    """Returns noise with the spectrum of pictures (amplitude 1/frequency), mean ½, deviation ¼; white if flat."""
    generator = torch.Generator().manual_seed(seed)
    white = torch.randn(count, *shape, generator=generator)
    if len(shape) != _IMAGE:
        return white
    down, across = (torch.fft.fftfreq(length) for length in shape[1:])
    frequency = torch.hypot(down[:, None], across[None, :])
    frequency[0, 0] = frequency.flatten()[1:].min() if frequency.numel() > 1 else 1.0
    pink = torch.fft.ifft2(torch.fft.fft2(white) / frequency).real
    images: Tensor = 0.5 + 0.25 * pink / pink.std()
    return images


def _turned(layer: nn.Module, x: Tensor, ridge: float) -> list[nn.Module]:
    """Returns the layer with its turn before it, or alone where it has no inputs to turn."""
    if type(layer) is nn.Linear:
        turn = _turn(x.flatten(0, -2), ridge)
        before: nn.Module = _fixed(nn.Linear(len(turn), len(turn), bias=False), turn)
        layer.weight.copy_(torch.linalg.solve(turn, layer.weight.double().T).T)  # P is symmetric
    elif type(layer) is nn.Conv2d and layer.groups == 1:
        turn = _turn(x.movedim(1, -1).flatten(0, -2), ridge, places=math.prod(x.shape[2:]))
        before = _fixed(nn.Conv2d(len(turn), len(turn), 1, bias=False), turn[:, :, None, None])
        kernel = layer.weight.double().movedim(1, -1)
        layer.weight.copy_((kernel @ torch.linalg.inv(turn)).movedim(-1, 1))
    else:
        return [layer]
    return [before, layer]


def _turn(rows: Tensor, ridge: float, places: int = 1) -> Tensor:
    """Returns P for inputs that are rows; a record has so many of them."""
    rows = rows.double()
    values, vectors = torch.linalg.eigh(rows.T @ rows / len(rows))
    values = values.clamp_min(0)
    mean = values.mean()
    if not mean > 0:
        return torch.eye(rows.shape[1], dtype=torch.float64)
    shrunk = (values / mean + ridge).rsqrt()
    length = (shrunk**2 * values).sum().mul(places).sqrt()
    turn: Tensor = (vectors * (shrunk / length)) @ vectors.T
    return turn


def _fixed(layer: nn.Module, weight: Tensor) -> nn.Module:
    """Returns a layer whose weight is set and not trained."""
    for parameter in layer.requires_grad_(False).parameters():
        parameter.copy_(weight)
    return layer
