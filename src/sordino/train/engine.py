"""Which engine computes gradients, and how a cohort is cut into chunks: by public rules, never by a stopwatch.

Engines and chunks decide the last digits of a result. So that the same seed gives the same bits, they follow from the
model and the sizes alone; timing decides only which process computes a chunk, which changes no bit.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from sordino.errors import RecipeError
from sordino.layout import Layout
from sordino.models.losses import Loss
from sordino.train.agreement import disagreement
from sordino.train.device import OnDevice
from sordino.train.dropout import has_dropout
from sordino.train.functional import FunctionalGradients
from sordino.train.gradients import Gradients
from sordino.train.layered import LayeredGradients
from sordino.train.layers.known import layers_of
from sordino.train.looped import LoopedGradients
from sordino.train.sites import rewritten
from sordino.train.tapped import TappedGradients
from sordino.types import IntArray

Engine = Literal["layers", "taps", "vmap", "loop"]
"""Hand-written layers over all clients of a chunk; any module, tapped; `vmap` over clients; or one after the other."""

_PROCESSOR = torch.device("cpu")

_CHUNK_BYTES = 2**26
"""Working memory of a chunk: so much that the fixed costs of its operations are small beside their work."""


@dataclass(frozen=True, eq=False)
class EngineChoice:
    """An engine, and why it was chosen."""

    engine: Engine
    gradients: Gradients
    why: str

    def __str__(self) -> str:
        """Returns a sentence for people."""
        where = f" on {self.gradients.device.type}" if isinstance(self.gradients, OnDevice) else ""
        return f"gradients: {_WORDS[self.engine]}{where}, as {self.why}"


_WORDS = {
    "layers": "layers written by hand, all clients at once",
    "taps": "all examples at once through the model's own forward pass",
    "vmap": "all clients at once through torch.func.vmap",
    "loop": "one client after the other and one example after the other, which is slow",
}


def choose(
    model: nn.Module,
    loss: Loss,
    engine: str = "auto",
    record: Tensor | None = None,
    device: torch.device = _PROCESSOR,
) -> EngineChoice:
    """Returns the engine that a setting stands for, on a device.

    **Edge cases**: without double precision (`mps`) only whole gradients come back, so that it is `vmap` or the loop.
    """
    if device.type == "cpu":
        return _chosen(model, loss, engine, record)
    there = copy.deepcopy(model).to(device)
    if device.type == "mps" and engine not in ("vmap", "loop"):
        kind = _for_clients(model)
        found = EngineChoice(kind, gradients(there, loss, kind), "this device has no double precision")
    else:
        found = _chosen(there, loss, engine, None if record is None else record.to(device))
    return replace(found, gradients=OnDevice(found.gradients, device))


def _chosen(model: nn.Module, loss: Loss, engine: str, record: Tensor | None) -> EngineChoice:
    """Returns the engine that a setting stands for.

    `auto`, `batched` and `processes` take the hand-written layers where the model is a chain of those, as
    `nn.Sequential` or by a `forward` of its own. Else they take the taps, which need a made-up `record`, and where
    `vmap` cannot run the model, or without a record, the loop (`vmap` where no convolution makes it slow).
    """
    if has_dropout(model):
        return EngineChoice("loop", LoopedGradients(model, loss), "its dropout is drawn record by record")
    if engine in ("layers", "taps", "vmap", "loop"):
        asked = gradients(model, loss, engine, record)  # type: ignore[arg-type]
        if record is not None and engine != "loop" and (what := disagreement(asked, model, loss, record)):
            raise RecipeError(f"train.engine is {engine!r}, but does not see through this model ({what}): choose auto.")
        return EngineChoice(engine, asked, "train.engine asks for it")  # type: ignore[arg-type]
    if engine not in ("auto", "batched", "processes"):
        raise RecipeError(f"train.engine is {engine!r}: choose auto, batched, loop or processes.")
    layers = layers_of(model)
    if not isinstance(layers, str):
        shape = "an nn.Sequential" if type(model) is nn.Sequential else "a forward pass that is a chain"
        found = LayeredGradients(layers, loss, Layout.of(model).width)
        if record is None or not disagreement(found, model, loss, record):
            return EngineChoice("layers", found, f"the model is {shape} of known layers")
        layers = "its layers do not do what they usually do"
    if record is None:
        kind: Engine = _for_clients(model)
        return EngineChoice(kind, gradients(model, loss, kind), layers)
    try:
        tapped = TappedGradients(model, loss, record, _of_clients(model, loss))
    except Exception as error:  # whatever the model, or vmap, raises
        reason = str(error).strip().partition("\n")[0][:120]
        return EngineChoice("loop", LoopedGradients(model, loss), f"torch.func.vmap cannot run the model ({reason})")
    if what := disagreement(tapped, model, loss, record):
        return EngineChoice("loop", LoopedGradients(model, loss), f"taps do not see through the model ({what})")
    return EngineChoice("taps", tapped, layers)


def _for_clients(model: nn.Module) -> Engine:
    """Returns the engine for clients with weights of their own: `vmap` makes convolutions slower than they are."""
    slow = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.RNNBase)
    return "loop" if any(isinstance(module, slow) for module in model.modules()) else "vmap"


def _of_clients(model: nn.Module, loss: Loss) -> Gradients:
    if _for_clients(model) == "loop":
        return LoopedGradients(model, loss)
    return FunctionalGradients(rewritten(copy.deepcopy(model)), loss)  # the library's attention has no rule for vmap


def gradients(model: nn.Module, loss: Loss, engine: Engine, record: Tensor | None = None) -> Gradients:
    """Returns the engine's gradients."""
    if engine == "loop":
        return LoopedGradients(model, loss)
    if engine == "vmap":
        return FunctionalGradients(model, loss)
    if engine == "taps":
        if record is None:
            raise RecipeError("train.engine is 'taps', which needs a made-up record: choose auto.")
        return TappedGradients(model, loss, record, _of_clients(model, loss))
    layers = layers_of(model)
    if isinstance(layers, str):
        raise RecipeError(f"train.engine is 'layers', but {layers}: choose auto.")
    return LayeredGradients(layers, loss, Layout.of(model).width)


def footprint(gradients: Gradients, input_shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """Returns about how many numbers one record's forward pass keeps."""
    gradients = gradients.inner if isinstance(gradients, OnDevice) else gradients
    if isinstance(gradients, LayeredGradients):
        return gradients.footprint(input_shape, dtype)
    return 8 * math.prod(input_shape)


def stretches(work: IntArray, memory: IntArray, chunk: int | None, groups: IntArray | None = None) -> list[slice]:
    """Cuts a cohort into stretches of about the same work that fit the working memory.

    Args:
        work: what each client costs, in any unit.
        memory: working memory of each client, in bytes.
        chunk: clients of a stretch, where the user set it.
        groups: numbers of groups, ascending, that no cut may divide.
    """
    count = len(work)
    if chunk is not None:
        return [slice(first, min(first + chunk, count)) for first in range(0, count, chunk)]
    pieces = max(2, math.ceil(memory.sum() / _CHUNK_BYTES))
    pieces = min(count, pieces if pieces == 2 else -(-pieces // 4) * 4)  # so that two or four cores have equal shares
    done = np.cumsum(work) - work / 2
    piece = np.minimum(done * pieces // max(1, work.sum()), pieces - 1) if count else done
    edges = np.flatnonzero(np.diff(piece, prepend=-1, append=pieces))
    if groups is not None:
        ends = np.flatnonzero(np.diff(groups, prepend=-1, append=len(groups)))
        edges = np.unique(ends[np.abs(ends[:, None] - edges).argmin(0)])
    return [slice(int(first), int(last)) for first, last in pairwise(edges)]
