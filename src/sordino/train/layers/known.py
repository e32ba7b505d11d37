"""Which models are made of hand-written layers only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate

from torch import nn

from sordino.layout import Layout
from sordino.train.layers.chain import ChainLink, chain, pair
from sordino.train.layers.conv import Conv2d
from sordino.train.layers.layer import Component, Layer
from sordino.train.layers.linear import Linear
from sordino.train.layers.plain import Flatten, Plain, Relu
from sordino.train.layers.pool import MaxPool2d

Components = Mapping[str, Component]

_PLAIN = (nn.Tanh, nn.Sigmoid, nn.ELU, nn.GELU, nn.SiLU, nn.Softplus, nn.LeakyReLU, nn.Hardtanh)
_PLAIN_IMAGES = (nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Unflatten)


def layers_of(model: nn.Module) -> list[Layer] | str:
    """Returns the model as hand-written layers, or why it cannot be.

    **Edge cases**: exact types only, as a subclass may compute something else. Frozen, shared or unused weights, hooks
    and reparametrisations make a model unknown. A module with a `forward` of its own is read as a chain (`chain.py`).
    """
    if len(Layout.of(model).names) != len(list(model.named_parameters(remove_duplicate=False))):
        return "some of its weights are frozen or shared"
    if any(hooked(module) for module in model.modules()):
        return "it has hooks"
    leaves = list(_leaves("", model))
    links = list[ChainLink](leaves) if all(type(module) in _MAKERS for _, module in leaves) else chain(model)
    return links if isinstance(links, str) else _layers(links, components_of(model))


def components_of(model: nn.Module) -> dict[str, Component]:
    """Returns where each trainable parameter lies in a row."""
    layout = Layout.of(model)
    starts = accumulate(layout.sizes, initial=0)
    return {
        name: Component(start, shape) for name, start, shape in zip(layout.names, starts, layout.shapes, strict=False)
    }


def _layers(links: list[ChainLink], components: Components) -> list[Layer] | str:
    layers: list[Layer] = []
    for link in links:
        if not isinstance(link, tuple):
            layers.append(link)
        elif type(link[1]) is not nn.Identity:
            layer = _layer(*link, components)
            if layer is None:
                return f"{link[0].rstrip('.')} ({type(link[1]).__name__}) is not a layer that is written by hand"
            layers.append(layer)
    modules = [link for link in links if isinstance(link, tuple)]
    used = [f"{prefix}{name}" for prefix, module in modules for name, _ in module.named_parameters()]
    if sorted(used) != sorted(components):
        return "some of its weights are used more than once, or not at all"
    return _pooled_first(layers)


def _pooled_first(layers: list[Layer]) -> list[Layer]:
    """Returns the layers with ReLU inside max-pooling where it stood next to it, and so has fewer entries to look at.

    Outputs and gradients stay the same to the last bit: max(·, 0) is monotone, so that it commutes with maxima; where
    the maximum of a window is positive its place is the same (the first one among equals), and elsewhere no gradient
    passes in either order.
    """
    ordered: list[Layer] = []
    for layer in layers:
        before = ordered[-1] if ordered else None
        if isinstance(layer, Relu) and isinstance(before, MaxPool2d):
            ordered[-1] = replace(before, rectified=True)
        elif isinstance(layer, MaxPool2d) and isinstance(before, Relu):
            ordered[-1] = replace(layer, rectified=True)
        else:
            ordered.append(layer)
    return ordered


def _leaves(prefix: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yields the modules of nested sequences in order, with the prefix of their weights' names."""
    if type(module) is nn.Sequential and not hooked(module):
        for name, child in module._modules.items():
            yield from _leaves(f"{prefix}{name}.", child)
    else:
        yield prefix, module


def hooked(module: nn.Module) -> bool:
    """Whether a module does more than its class says: hooks, or a method of its own in the place of `forward`."""
    return "forward" in vars(module) or any(
        getattr(module, name) for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    )


def _layer(prefix: str, module: nn.Module, components: Components) -> Layer | None:
    make = _MAKERS.get(type(module))
    return None if make is None else make(module, components.get(f"{prefix}weight"), components.get(f"{prefix}bias"))


def _linear(module: nn.Linear, weight: Component, bias: Component | None) -> Layer:
    return Linear(weight, bias)


def convolution(module: nn.Conv2d, weight: Component, bias: Component | None) -> Conv2d | None:
    """Returns a convolution as a layer, or None where it is an unusual one."""
    usual = module.groups == 1 and module.dilation == (1, 1) and module.padding_mode == "zeros"
    if not usual or isinstance(module.padding, str):
        return None
    return Conv2d(weight, bias, pair(module.stride), pair(module.padding))


def _pool(module: nn.MaxPool2d, *_: Component | None) -> Layer | None:
    if module.return_indices:
        return None
    size, stride, padding, dilation = map(pair, (module.kernel_size, module.stride, module.padding, module.dilation))
    return MaxPool2d(size, stride, padding, dilation, module.ceil_mode)


def _flatten(module: nn.Flatten, *_: Component | None) -> Layer | None:
    return Flatten() if (module.start_dim, module.end_dim) == (1, -1) else None


def _plain(module: nn.Module, *_: Component | None) -> Layer:
    return Plain(module)


def _scores(module: nn.LogSoftmax, *_: Component | None) -> Layer | None:
    return Plain(module) if module.dim in (1, -1) else None  # over the classes, and not over the records


_MAKERS: dict[type[nn.Module], Callable[..., Layer | None]] = {
    nn.Identity: lambda *_: None,
    nn.LogSoftmax: _scores,
    **dict.fromkeys((*_PLAIN, *_PLAIN_IMAGES), _plain),
    nn.Linear: _linear,
    nn.Conv2d: convolution,
    nn.MaxPool2d: _pool,
    nn.Flatten: _flatten,
    nn.ReLU: lambda *_: Relu(),
}
