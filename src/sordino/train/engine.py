"""Which engine computes gradients, and how a cohort is cut into chunks: by public rules, never by a stopwatch.

Engines and chunks decide the last digits of a result. So that the same seed gives the same bits, they follow from the
model and the sizes alone; timing decides only which process computes a chunk, which changes no bit.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

import numpy as np
from torch import nn

from sordino.errors import RecipeError
from sordino.layout import Layout
from sordino.models.losses import Loss
from sordino.train.functional import FunctionalGradients
from sordino.train.gradients import Gradients
from sordino.train.layered import LayeredGradients
from sordino.train.layers.known import known_layers
from sordino.train.looped import LoopedGradients
from sordino.types import IntArray

Engine = Literal["layers", "vmap", "loop"]
"""Hand-written layers over all clients of a chunk; `torch.func.vmap` over them; or client by client."""

_CHUNK_BYTES = 2**24
"""Working memory of a chunk: a few times a core's own cache."""


def resolve(model: nn.Module, engine: str) -> Engine:
    """Returns the engine that a setting stands for.

    `auto`, `batched` and `processes` take the hand-written layers where the model consists of those. Else they take
    `vmap`, except for convolutions, which it makes slower than they are client by client.
    """
    if engine in ("layers", "vmap", "loop"):
        return engine  # type: ignore[return-value]
    if engine not in ("auto", "batched", "processes"):
        raise RecipeError(f"train.engine is {engine!r}: choose auto, batched, loop or processes.")
    if known_layers(model) is not None:
        return "layers"
    convolutions = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.RNNBase)
    return "loop" if any(isinstance(module, convolutions) for module in model.modules()) else "vmap"


def gradients(model: nn.Module, loss: Loss, engine: Engine) -> Gradients:
    """Returns the engine's gradients."""
    if engine == "loop":
        return LoopedGradients(model, loss)
    if engine == "vmap":
        return FunctionalGradients(model, loss)
    layers = known_layers(model)
    if layers is None:
        raise RecipeError("train.engine is 'layers', but the model holds a layer that it does not know: choose auto.")
    return LayeredGradients(layers, loss, Layout.of(model).width)


def footprint(gradients: Gradients, input_shape: tuple[int, ...]) -> int:
    """Returns about how many numbers one record's forward pass keeps."""
    if isinstance(gradients, LayeredGradients):
        return gradients.footprint(input_shape)
    return 8 * math.prod(input_shape)


def stretches(work: IntArray, memory: IntArray, chunk: int | None) -> list[slice]:
    """Cuts a cohort into stretches of about the same work that fit the working memory.

    Args:
        work: what each client costs, in any unit.
        memory: working memory of each client, in bytes.
        chunk: clients of a stretch, where the user set it.
    """
    count = len(work)
    if chunk is not None:
        return [slice(first, min(first + chunk, count)) for first in range(0, count, chunk)]
    pieces = max(2, math.ceil(memory.sum() / _CHUNK_BYTES))
    pieces = min(count, pieces if pieces == 2 else -(-pieces // 4) * 4)  # so that two or four cores have equal shares
    done = np.cumsum(work) - work / 2
    piece = np.minimum(done * pieces // work.sum(), pieces - 1) if count else done
    edges = np.flatnonzero(np.diff(piece, prepend=-1, append=pieces))
    return [slice(int(first), int(last)) for first, last in pairwise(edges)]
