"""Where tensors live: records, weights, sums and noise in ordinary memory; gradients are computed on a device.

A chunk of clients at a time, weights and records go to the device and what was computed comes back, in the precision in
which it was added up. Noise is drawn and added where it always is. So nothing depends on the device but the last digits
of gradients, and a run is repeatable on the same device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.errors import RecipeError
from sordino.train.gradients import Gradients

DEVICES = ("auto", "cpu", "cuda", "mps")


def device_of(name: str) -> torch.device:
    """Returns the device that a setting stands for; `auto` is a CUDA device where there is one, else the processor.

    `mps` has no double precision: examples' gradients come back one by one there and are added up by the processor,
    which is why `auto` never takes it.

    Raises:
        RecipeError: there is no such device here.
    """
    if name not in DEVICES:
        raise RecipeError(f"run.device is {name!r}: choose {', '.join(DEVICES[:-1])} or {DEVICES[-1]}.")
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device("cuda" if there["cuda"] else "cpu")
    if not there[name]:
        raise RecipeError(f"run.device is {name!r}, but PyTorch finds none on this machine: use auto or cpu.")
    return torch.device(name)


@dataclass(frozen=True, eq=False)
class OnDevice:
    """Gradients that are computed elsewhere: arguments go there, results come back.

    **Formal guarantees**: those of `Gradients`, as the sums are the inner engine's.
    """

    inner: Gradients
    device: torch.device

    def outputs(self, rows: Tensor, x: Tensor) -> Tensor:
        return self.inner.outputs(self._there(rows), self._there(x)).cpu()

    def gradients(self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        there = self._there
        return self.inner.gradients(there(rows), there(x), there(y), there(weights)).cpu()

    def clipped_clients(
        self, rows: Tensor, x: Tensor, y: Tensor, weights: Tensor, bound: float, groups: list[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        there = self._there
        total, norms = self.inner.clipped_clients(there(rows), there(x), there(y), there(weights), bound, groups)
        return total.cpu(), norms.cpu()

    def clipped_examples(self, rows: Tensor, x: Tensor, y: Tensor, mask: Tensor, bound: float) -> tuple[Tensor, Tensor]:
        there = self._there
        sums, norms = self.inner.clipped_examples(there(rows), there(x), there(y), there(mask), bound)
        return sums.cpu(), norms.cpu()

    def _there(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device)
