"""Gradients of any module that `vmap` can run, at the cost of one backward pass for all examples of a client.

`vmap` shows the module one record at a time, so that no record has a say in another's pass, whatever the module does
with its dimensions. Layers that we know are tapped (`sites.py`): the backward pass leaves their inputs and errors, from
which norms and clipped sums follow as in `layered.py`. Of the weights that remain, every record has a copy.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from sordino.layout import Layout
from sordino.models.losses import Loss
from sordino.models.outputs import scores
from sordino.products import filled
from sordino.train.closed_form import output_error
from sordino.train.gradients import Gradients
from sordino.train.layered import LayeredGradients
from sordino.train.layers.known import components_of
from sordino.train.layers.layer import Term, Weighted
from sordino.train.layers.single import Whole
from sordino.train.sites import errors_of, find, inputs_of, rewritten
from sordino.train.stateless import Attributes, fresh_state
from sordino.train.taps import Recorder, recording


class TappedGradients(LayeredGradients):
    """Gradients from what passes through the taps of a module.

    Args:
        model: the module; a copy is used.
        loss: losses of single examples.
        record: a made-up record, to see what shapes pass through the model.
        clients: gradients of clients with weights of their own, for local training.

    **Formal guarantees**: those of `Gradients`. An example's gradient is its own by construction of `vmap`, and
    complete by construction of `sites.find`.
    **Edge cases**: a model that `vmap` cannot run raises here, and not later.
    """

    def __init__(self, model: nn.Module, loss: Loss, record: Tensor, clients: Gradients) -> None:
        self.loss, self._clients, self._layout = loss, clients, Layout.of(model)
        self.width, self._components = self._layout.width, components_of(model)
        self._model = rewritten(copy.deepcopy(model))
        self._attributes = Attributes(self._model)
        self.sites = find(self._model, record)
        self._modules = dict(self._model.named_modules())
        self.numbers = sum(map(math.prod, self.sites.shapes.values())) + record.numel()
        self.numbers += sum(self._components[name].size for name in self.sites.rest)
        row = self._layout.flatten({name: p.detach() for name, p in self._model.named_parameters()})
        self._pass(row, torch.stack([record, record]))

    def footprint(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
        return self.numbers

    def outputs(self, rows: Tensor, x: Tensor) -> Tensor:
        if len(rows) > 1:
            return torch.cat([self.outputs(row[None], own[None]) for row, own in zip(rows, x, strict=True)])
        self._attributes.restore()
        flat, state = filled(x.flatten(0, 1)), fresh_state(self._model, self._layout, rows[0])
        with sdpa_kernel(SDPBackend.MATH):  # each record by itself: no other has a say in what is counted
            found: Tensor = vmap(lambda one: scores(functional_call(self._model, state, (one[None],)))[0])(flat)
        return found[: x.shape[0] * x.shape[1]].view(*x.shape[:2], *found.shape[1:])

    def gradients(self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        return self._clients.gradients(rows, x, y, weights)  # one client's as many clients', to the bit

    def _terms(self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Iterator[Term]:
        if len(rows) == 1:
            yield from self._shared(rows[0], x, y, weights)
            return
        each = zip(rows, x.split(1), y.split(1), weights.split(1), strict=True)
        for parts in zip(*(self._shared(*client) for client in each), strict=True):
            yield parts[0][0], torch.cat([part[1] for part in parts]), torch.cat([part[2] for part in parts])

    def _shared(self, row: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> list[Term]:
        """Returns the terms of examples `[n, b, …]` that share their weights."""
        shape, flat = x.shape[:2], x.flatten(0, 1)
        count = len(flat)
        outputs, inputs, leaves = self._pass(row, filled(flat))
        error = output_error(self.loss, outputs.detach()[:count].unflatten(0, shape), y, weights).flatten(0, 1)
        spare = error.new_zeros(len(outputs) - count, *error.shape[1:])
        found = torch.autograd.grad(outputs, list(leaves.values()), torch.cat([error, spare]), allow_unused=True)
        errors = {
            name: (torch.zeros_like(leaf) if gradient is None else gradient)[:count].unflatten(0, shape)
            for (name, leaf), gradient in zip(leaves.items(), found, strict=True)
        }
        inputs = {name: given[:count] for name, given in inputs.items()}
        terms = [self._tapped(name, inputs, errors, shape) for name in self.sites.taps]
        rest = [(cast(Weighted, Whole(self._components[name])), errors[name]) for name in self.sites.rest]
        return terms + [(layer, error, error) for layer, error in rest]

    def _tapped(self, name: str, inputs: dict[str, Tensor], errors: dict[str, Tensor], shape: torch.Size) -> Term:
        """Returns the term of a layer: all its passages, one after the other."""
        site = self.sites.taps[name]
        module = self._modules[site.module]
        passages = [passage for passage in inputs if passage.rpartition("#")[0] == name]
        given = [inputs_of(site.layer, module, inputs[passage].detach().unflatten(0, shape)) for passage in passages]
        wrong = [errors_of(site.layer, module, errors[passage]) for passage in passages]
        if len(passages) == 1:
            return site.layer, given[0], wrong[0]
        return site.layer, torch.cat(given, 2), torch.cat(wrong, 2)

    def _pass(self, row: Tensor, x: Tensor) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Returns outputs, what each tapped layer was given, and what to differentiate by."""
        self._attributes.restore()
        weights = fresh_state(self._model, self._layout, row.detach())
        zeros = {
            passage: row.new_zeros(1).expand(len(x), *shape).requires_grad_()
            for passage, shape in self.sites.shapes.items()
        }
        copies = {name: weights[name].expand(len(x), *weights[name].shape).requires_grad_() for name in self.sites.rest}
        tapped = {name: self._modules[name] for name in self.sites.modules}

        def one(x: Tensor, zeros: dict[str, Tensor], copies: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            recorder = Recorder(zeros)
            with recording(tapped, recorder):
                outputs = scores(functional_call(self._model, weights | copies, (x[None],)))
            return outputs[0], recorder.inputs

        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):  # the other kernels have no rule for vmap
            outputs, inputs = vmap(one)(x, zeros, copies)
        return outputs, inputs, zeros | copies
