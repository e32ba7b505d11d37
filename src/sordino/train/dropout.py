"""Dropout whose draws are keyed, so that a run repeats to the bit whatever else the machine does.

What an example's units drop follows from (run, round, local step, layer) and the example's own record, and from nothing
else: neither its place in a batch, nor who else is there, nor how a cohort is cut into chunks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sordino.errors import ModelError
from sordino.random.streams import Randomness

_STEP: ContextVar[tuple[Randomness, int, int] | None] = ContextVar("local step", default=None)


@contextmanager
def dropping(randomness: Randomness, round_: int, step: int) -> Iterator[None]:
    """Lets dropout layers drop, for one local step; outside of it they pass everything on, as in evaluation."""
    token = _STEP.set((randomness, round_, step))
    try:
        yield
    finally:
        _STEP.reset(token)


class KeyedDropout(nn.Module):
    """`nn.Dropout` for records that were marked: each unit is zero with probability p, else divided by 1 − p.

    **Formal guarantees**: an example's outputs depend on that example, the weights, and a key that no data enters: so
    does its gradient, and clipping bounds what a record does to a sum as it does without dropout.
    **Edge cases**: the same record twice in one step drops the same units; p = 0 and p = 1 are fine.
    """

    def __init__(self, name: str, p: float) -> None:
        super().__init__()
        self.name, self.p = name, p
        self.marks: list[bytes] = []

    def forward(self, x: Tensor) -> Tensor:
        now = _STEP.get()
        if now is None or not self.p:
            return x
        if len(x) != len(self.marks):
            raise ModelError(
                f"layer {self.name!r} is Dropout and gets {len(x)} rows for {len(self.marks)} records: "
                "put it where the first dimension counts records."
            )
        randomness, round_, step = now
        key = randomness.generator(f"dropout/{self.name}/{step}", round_).bytes(16)
        kept = np.stack([_uniforms(key, mark, x[0].numel()) >= self.p for mark in self.marks])
        return x * torch.from_numpy(kept).to(x.device).view(x.shape) / (1 - self.p if self.p < 1 else 1.0)


def has_dropout(model: nn.Module) -> bool:
    """Returns whether some layer drops units."""
    return any(type(layer) is nn.Dropout and layer.p > 0 for layer in model.modules())


def keyed(model: nn.Module) -> list[KeyedDropout]:
    """Puts keyed layers in the place of a model's dropout layers, and returns them."""
    found = []
    for prefix, parent in list(model.named_modules()):
        for name, child in list(parent._modules.items()):
            if type(child) is nn.Dropout:
                layer = KeyedDropout(f"{prefix}.{name}".strip("."), child.p)
                setattr(parent, name, layer)
                found.append(layer)
    return found


def mark(layers: list[KeyedDropout], batch: Tensor) -> None:
    """Tells layers which records they are about to see."""
    if layers and _STEP.get() is not None:
        marks = [hashlib.blake2b(record.tobytes(), digest_size=16).digest() for record in batch.detach().cpu().numpy()]
        for layer in layers:
            layer.marks = marks


def _uniforms(key: bytes, mark_: bytes, size: int) -> NDArray[np.float32]:
    name = hashlib.blake2b(key + mark_, digest_size=16, person=b"sordino.dropout").digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(name, np.uint64))).random(size, np.float32)
