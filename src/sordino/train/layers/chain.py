"""Modules with a `forward` of their own that are a chain of layers all the same: read off their `torch.fx` graph."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from sordino.train.layers.layer import Layer
from sordino.train.layers.plain import Flatten, Plain, Relu
from sordino.train.layers.pool import MaxPool2d

ChainLink = tuple[str, nn.Module] | Layer
"""A module with the prefix of its weights' names, or a function as a layer."""


def chain(model: nn.Module) -> list[ChainLink] | str:
    """Returns the model's layers in order, or why it is no chain of layers.

    **Formal guarantees**: the graph is the whole forward pass, as a module whose path depends on its data cannot be
    traced; every step is one of those below, on the outcome of the step before and on nothing else.
    """
    try:
        graph = fx.Tracer().trace(copy.deepcopy(model))  # what forward keeps of its input stays in the copy
    except Exception as error:  # whatever the user's own code raises when it meets a stand-in for a tensor
        return f"its forward pass cannot be traced ({type(error).__name__})"
    modules, links, last = dict(model.named_modules()), list[ChainLink](), None
    for node in graph.nodes:
        if node.op == "placeholder":
            if last is not None:
                if node.users:
                    return "it takes more than one input"
                continue
            last = node
        elif _size(node):
            continue
        elif node.op == "output":
            return links if node.args[0] is last else "it returns something else than its last layer's output"
        else:
            link = _link(node, last, modules)
            if link is None:
                return f"it holds {_name(node, modules)}, which is no step of a chain of known layers"
            links.append(link)
            last = node
    return "it returns nothing"


def _name(node: fx.Node, modules: dict[str, nn.Module]) -> str:
    if node.op == "call_module":
        return f"{node.target} ({type(modules[str(node.target)]).__name__})"
    return str(getattr(node.target, "__name__", node.target))


def _size(node: fx.Node) -> bool:
    """Whether a node reads a size: `x.shape`, `x.size(0)`, `x.shape[0]`."""
    if node.op == "call_method":
        return node.target == "size"
    if node.op != "call_function":
        return False
    attribute = node.target is getattr and node.args[1] == "shape"
    return attribute or (node.target is operator.getitem and isinstance(node.args[0], fx.Node) and _size(node.args[0]))


def _records(value: Any) -> bool:
    """Whether a value is the number of records: the first size of some step."""
    if not isinstance(value, fx.Node):
        return False
    if value.op == "call_method":
        return value.target == "size" and value.args[1:] == (0,)
    return value.target is operator.getitem and _size(value) and value.args[1:] == (0,)


def _link(node: fx.Node, last: fx.Node | None, modules: dict[str, nn.Module]) -> ChainLink | None:
    if not node.args or node.args[0] is not last:
        return None
    rest, options = node.args[1:], dict(node.kwargs)
    if node.op == "call_module" and not rest and not options:
        return f"{node.target}.", modules[str(node.target)]
    make = _FUNCTIONS.get(node.target) if node.op in ("call_function", "call_method") else None
    try:
        return None if make is None else make(*rest, **options)
    except TypeError:  # an argument that we do not know
        return None


def _relu(inplace: bool = False) -> Layer:
    return Relu()


def _flatten(start_dim: int = 0, end_dim: int = -1) -> Layer | None:
    return Flatten() if (start_dim, end_dim) == (1, -1) else None


def _view(*sizes: Any) -> Layer | None:
    sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    match sizes:
        case (first, -1) if _records(first):
            return Flatten()
        case (first, int(width)) if width > 0 and (first == -1 or _records(first)):
            return Flatten(width)
    return None


def _max_pool(
    kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, **other: Any
) -> Layer | None:
    if other.get("return_indices"):
        return None
    stride = kernel_size if stride is None or stride == () else stride
    return MaxPool2d(pair(kernel_size), pair(stride), pair(padding), pair(dilation), ceil_mode)


def pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    """Returns a setting in both directions."""
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


def _plain(module: type[nn.Module]) -> Callable[..., Layer | None]:
    return lambda *rest, **options: Plain(module(*rest, **options))


def _log_softmax(dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Layer | None:
    # over the classes, and not over the records; cross-entropy after it is what it was
    return Plain(nn.LogSoftmax(dim)) if dim in (1, -1) and dtype is None else None


_FUNCTIONS: dict[Any, Callable[..., Layer | None]] = {
    **dict.fromkeys((functional.relu, torch.relu, "relu", torch.relu_, "relu_"), _relu),
    **dict.fromkeys((torch.flatten, "flatten"), _flatten),
    **dict.fromkeys(("view", "reshape", torch.reshape), _view),
    **dict.fromkeys((functional.max_pool2d, torch.max_pool2d), _max_pool),
    **dict.fromkeys((torch.tanh, functional.tanh, "tanh"), _plain(nn.Tanh)),
    **dict.fromkeys((torch.sigmoid, functional.sigmoid, "sigmoid"), _plain(nn.Sigmoid)),
    **dict.fromkeys((functional.log_softmax, torch.log_softmax, "log_softmax"), _log_softmax),
    functional.gelu: _plain(nn.GELU),
    functional.silu: _plain(nn.SiLU),
    functional.elu: _plain(nn.ELU),
    functional.leaky_relu: _plain(nn.LeakyReLU),
    functional.softplus: _plain(nn.Softplus),
    functional.avg_pool2d: _plain(nn.AvgPool2d),
    functional.adaptive_avg_pool2d: _plain(nn.AdaptiveAvgPool2d),
}
