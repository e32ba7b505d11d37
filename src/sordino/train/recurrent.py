"""GRU and LSTM as modules that can be tapped: what `nn.GRU` and `nn.LSTM` compute, with the same weights' names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sordino.train.gates import Gru, Lstm
from sordino.train.taps import Tappable

_SHAPE = "the model gives its recurrent layer inputs of shape {}: give [records, time, features]"


class Recurrent(Tappable):
    """One or several layers of GRU or LSTM, in one direction or both."""

    def __init__(self, source: nn.RNNBase) -> None:
        super().__init__()
        for name, parameter in source.named_parameters():
            self.register_parameter(name, parameter)
        self.mode, self.layers, self.hidden = source.mode, source.num_layers, source.hidden_size
        self.batch_first = source.batch_first
        self.directions = ("", "_reverse") if source.bidirectional else ("",)

    @staticmethod
    def knows(module: nn.Module) -> bool:
        """Whether a module can be replaced by this one."""
        return type(module) in (nn.GRU, nn.LSTM) and not module.proj_size

    def flatten_parameters(self) -> None:
        """Does nothing: weights lie where the caller put them."""

    def forward(self, x: Tensor, start: Any = None) -> tuple[Tensor, Any]:
        if not isinstance(x, Tensor) or x.dim() not in (2, 3):
            raise RuntimeError(_SHAPE.format(tuple(getattr(x, "shape", ()))))
        alone, turned = x.dim() == 2, x.dim() == 3 and not self.batch_first
        x = x.unsqueeze(0) if alone else x.transpose(0, 1) if turned else x
        starts = self._starts(x, start, alone)
        ends: list[tuple[Tensor, ...]] = []
        for layer in range(self.layers):
            sides = []
            for side in self.directions:
                given = x.flip(1) if side else x
                states, *end = self._pass(f"_l{layer}{side}", given, *(each[len(ends)] for each in starts))
                sides.append(states.flip(1) if side else states)
                ends.append(tuple(end))
            x = sides[0] if len(sides) == 1 else torch.cat(sides, 2)
        last = [torch.stack(parts) for parts in zip(*ends, strict=True)]
        last = [each.squeeze(1) for each in last] if alone else last
        states = x.squeeze(0) if alone else x.transpose(0, 1) if turned else x
        return states, last[0] if self.mode == "GRU" else tuple(last)

    def _starts(self, x: Tensor, start: Any, alone: bool) -> list[Tensor]:
        kinds = 1 if self.mode == "GRU" else 2
        if start is None:
            return [x.new_zeros(self.layers * len(self.directions), len(x), self.hidden)] * kinds
        given = [start] if isinstance(start, Tensor) else list(start)
        return [each.unsqueeze(1) for each in given] if alone else given

    def _pass(self, place: str, x: Tensor, *start: Tensor) -> tuple[Tensor, ...]:
        """Returns all states of one layer in one direction, and its last ones."""
        weights = [self.weight(f"{kind}{place}") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        shape = (*x.shape[:2], len(weights[0]))
        passages = ["", ""]
        if self.recorder is not None:
            passages = [self.recorder.note(f"{self.name}.{kind}{place}", x, shape) for kind in ("ih", "hh")]
        outer, inner = (self._zeros(passage, x, shape) for passage in passages)
        if self.mode == "GRU":
            states, before, _ = Gru.apply(*weights, x, *start, outer, inner)
            ends = [states[:, -1]]
        else:  # both sums have the same error
            states, end, before, *_ = Lstm.apply(*weights, x, *start, outer + inner)
            ends = [states[:, -1], end]
        if self.recorder is not None:
            self.recorder.inputs[passages[1]] = before
        return states, *ends

    def _zeros(self, passage: str, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        taps = None if self.recorder is None else self.recorder.zeros
        return x.new_zeros(1).expand(shape) if taps is None else taps[passage]
