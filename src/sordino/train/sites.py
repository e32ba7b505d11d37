"""Where a module can be tapped: which layers' gradients follow from their inputs and errors, and which weights remain.

A weight is tapped only if the forward pass uses it inside its own layer and nowhere else. This is read off autograd's
graph: within tapped layers weights are constants, so whatever still has a gradient is used elsewhere too (a table that
is also the last layer, say), and is not tapped. `vmap` runs the same operations for every record, so that what holds
for made-up records holds for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from sordino.layout import Layout
from sordino.models.outputs import scores
from sordino.train.attention import Attention
from sordino.train.layers.conv import Conv2d
from sordino.train.layers.embedding import Embedding
from sordino.train.layers.known import Components, components_of, convolution, hooked
from sordino.train.layers.layer import Component
from sordino.train.layers.linear import Linear
from sordino.train.layers.single import Affine, LinearOverTime
from sordino.train.recurrent import Recurrent
from sordino.train.taps import Recorder, recording
from sordino.train.thin import ThinLinear

_SMALL = 2**17
"""Most entries of a layer of which every example's gradient is kept in memory."""


@dataclass(frozen=True)
class Site:
    """One tap: the module that it is in, the layer that it taps, and the weights that belong to it."""

    module: str
    layer: Any
    weights: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Sites:
    """All taps of a model by name, the shapes that pass through them for one record, and the weights that remain."""

    taps: dict[str, Site]
    shapes: dict[str, tuple[int, ...]]
    rest: tuple[str, ...]

    @property
    def modules(self) -> list[str]:
        """Names of the modules that are tapped."""
        return sorted({site.module for site in self.taps.values()})


def rewritten(model: nn.Module) -> nn.Module:
    """Returns the model with recurrent, attention and thin linear layers in place of the library's (in place)."""
    for name, child in list(model._modules.items()):
        if child is None:
            continue
        if Recurrent.knows(child):
            setattr(model, name, Recurrent(child))  # type: ignore[arg-type]
        elif Attention.knows(child):
            setattr(model, name, Attention(child))  # type: ignore[arg-type]
        elif ThinLinear.knows(child):
            setattr(model, name, ThinLinear.of(child))  # type: ignore[arg-type]
        else:
            rewritten(child)
    return model


def find(model: nn.Module, record: Tensor) -> Sites:
    """Returns where a rewritten model can be tapped, from a forward pass of one made-up record."""
    layout, modules = Layout.of(model), dict(model.named_modules())
    candidates = _candidates(model, components_of(model))
    while True:
        recorder = Recorder()
        chosen = {name: modules[name] for name in sorted({site.module for site in candidates.values()})}
        weights = {name: p.detach().requires_grad_() for name, p in model.named_parameters() if p.requires_grad}
        with torch.enable_grad(), recording(chosen, recorder):
            outputs = scores(functional_call(model, weights, (record[None],)))
        elsewhere = _used(outputs, weights)
        calls = [key.rpartition("#")[0] for key in recorder.outputs]
        wrong = {
            site.module
            for name, site in candidates.items()
            if elsewhere.intersection(site.weights) or not _fits(name, site, calls, recorder)
        }
        if not wrong:
            break
        candidates = {name: site for name, site in candidates.items() if site.module not in wrong}
    tapped = {name for site in candidates.values() for name in site.weights}
    candidates = {name: _over_time(name, site, recorder.outputs) for name, site in candidates.items()}
    return Sites(candidates, recorder.outputs, tuple(name for name in layout.names if name not in tapped))


def _used(outputs: Tensor, weights: dict[str, Tensor]) -> set[str]:
    if not outputs.requires_grad:
        return set()
    found = torch.autograd.grad(outputs.sum(), list(weights.values()), allow_unused=True)
    return {name for name, gradient in zip(weights, found, strict=True) if gradient is not None}


def _fits(name: str, site: Site, calls: list[str], recorder: Recorder) -> bool:
    if not isinstance(site.layer, Conv2d):
        return calls.count(name) > 0
    # images: one pass, and one of them to a record
    return calls.count(name) == 1 and recorder.outputs[f"{name}#0"][0] == 1 and len(recorder.outputs[f"{name}#0"]) == 4


def _over_time(name: str, site: Site, shapes: Mapping[str, tuple[int, ...]]) -> Site:
    """Returns the site with its layer's gradients in memory, where every record passes it often and it is small."""
    often = sum(math.prod(shape[:-1]) for passage, shape in shapes.items() if passage.rpartition("#")[0] == name)
    if type(site.layer) is not Linear or often == 1 or site.layer.weight.size > _SMALL:
        return site
    return replace(site, layer=LinearOverTime(site.layer.weight, site.layer.bias))


def inputs_of(layer: Any, module: nn.Module, x: Tensor) -> Tensor:
    """Returns what the layer's gradient follows from: `[n, b, positions, entries]`, or images as they are."""
    if isinstance(layer, Conv2d):
        return x.flatten(1, 2)
    if isinstance(layer, Embedding):
        return x.reshape(*x.shape[:2], -1)
    return entries_last(layer, module, normalised(module, x)) if isinstance(layer, Affine) else _positions(x)


def errors_of(layer: Any, module: nn.Module, error: Tensor) -> Tensor:
    """Returns the error as `inputs_of` returns the inputs."""
    if isinstance(layer, Conv2d):
        return error.flatten(1, 2)
    return entries_last(layer, module, error) if isinstance(layer, Affine) else _positions(error)


def _positions(x: Tensor) -> Tensor:
    return x.reshape(*x.shape[:2], -1, x.shape[-1])


def normalised(module: nn.Module, x: Tensor) -> Tensor:
    """Returns what a normalisation made of `[n, b, …]` before it was scaled and shifted."""
    if isinstance(module, nn.LayerNorm):
        return functional.layer_norm(x, module.normalized_shape, None, None, module.eps)
    if isinstance(module, nn.GroupNorm):
        flat = functional.group_norm(x.flatten(0, 2), module.num_groups, None, None, module.eps)
        return flat.view(x.shape)
    raise TypeError(type(module).__name__)


def entries_last(layer: Affine, module: nn.Module, x: Tensor) -> Tensor:
    """Returns `[n, b, positions, entries]`."""
    if isinstance(module, nn.GroupNorm):
        x = x.movedim(3, -1)  # [n, b, 1, channels, …]
    return _positions(x.flatten(-len(layer.weight.shape)))


def _candidates(model: nn.Module, components: Components) -> dict[str, Site]:
    """Returns a site for every layer that we know and whose weights are all trained, and not shared by name."""
    owned = {id(p): name for name, p in model.named_parameters()}
    every = model.named_parameters(remove_duplicate=False)
    shared = {owned[id(p)] for name, p in every if owned[id(p)] != name}
    known = {name: component for name, component in components.items() if name not in shared}
    found: dict[str, Site] = {}
    for name, module in model.named_modules():
        make = _MAKERS.get(type(module))
        own = {key: known.get(f"{name}.{key}" if name else key) for key, _ in module.named_parameters()}
        if make is None or not own or not all(own.values()) or hooked(module):
            continue
        made: Made = make(module, own)
        if {key for _, weights in made.values() for key in weights} == own.keys():  # a weight beside them is nobody's
            found |= {
                f"{name}{tap}": Site(name, layer, tuple(f"{name}.{key}" if name else key for key in weights))
                for tap, (layer, weights) in made.items()
            }
    return found


Made = dict[str, tuple[Any, tuple[str, ...]]]
"""Layers by the tap's ending, each with its weights' names."""


def _one(layer: Any, own: Mapping[str, Any]) -> Made:
    return {} if layer is None else {"": (layer, _named(own, "weight", "bias"))}


def _conv(module: nn.Conv2d, own: Mapping[str, Any]) -> Made:
    return _one(convolution(module, own["weight"], own.get("bias")), own)


def _embedding(module: nn.Embedding, own: Mapping[str, Any]) -> Made:
    usual = module.max_norm is None and not module.scale_grad_by_freq and not module.sparse
    return _one(Embedding(own["weight"], module.padding_idx) if usual else None, own)


def _recurrent(module: Recurrent, own: Mapping[str, Any]) -> Made:
    made: Made = {}
    for layer in range(module.layers):
        for side in module.directions:
            for kind in ("ih", "hh"):
                place = f"{kind}_l{layer}{side}"
                weight, bias = f"weight_{place}", f"bias_{place}"
                made[f".{place}"] = Linear(own[weight], own.get(bias)), (weight, bias) if bias in own else (weight,)
    return made


def _attention(module: Attention, own: Mapping[str, Any]) -> Made:
    made: Made = {}
    width, weight, bias = module.embed_dim, own["in_proj_weight"], own.get("in_proj_bias")
    for place, kind in enumerate("qkv"):
        part = Component(weight.start + place * width * width, (width, width))
        shift = None if bias is None else Component(bias.start + place * width, (width,))
        made[f".{kind}"] = Linear(part, shift), _named(own, "in_proj_weight", "in_proj_bias")
    made[".out"] = (
        Linear(own["out_proj.weight"], own.get("out_proj.bias")),
        _named(own, "out_proj.weight", "out_proj.bias"),
    )
    return made


def _named(own: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    return tuple(name for name in names if name in own)


_MAKERS: dict[type[nn.Module], Any] = {
    **dict.fromkeys((nn.Linear, ThinLinear), lambda module, own: _one(Linear(own["weight"], own.get("bias")), own)),
    nn.Conv2d: _conv,
    nn.Embedding: _embedding,
    nn.LayerNorm: lambda module, own: _one(Affine(own["weight"], own.get("bias")), own),
    nn.GroupNorm: lambda module, own: _one(Affine(own["weight"], own.get("bias")), own),
    Recurrent: _recurrent,
    Attention: _attention,
}
