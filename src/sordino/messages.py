"""The four messages of a round as bytes, so that client and server can be on different machines.

    server → client   Terms, Survivors            client → server   Shielded, Revealed

A message is a safetensors file: its tensors by name, and under `about` its kind and its numbers as JSON. Nothing in it
can run code, and whatever is malformed is one named error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import singledispatch
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from sordino.errors import ProtocolError
from sordino.stages import Revealed, Sensitivity, Shielded
from sordino.tensor_bytes import packed, told_about, under, unpacked
from sordino.terms import Knobs, Survivors, Terms
from sordino.types import IntArray

M = TypeVar("M", Terms, Survivors, Shielded, Revealed)


def to_bytes(message: Terms | Survivors | Shielded | Revealed) -> bytes:
    """Returns a message as it travels."""
    tensors, about = _parts(message)
    return packed(tensors, {"kind": type(message).__name__} | about)


def from_bytes(kind: type[M], data: bytes) -> M:
    """Inverts `to_bytes`.

    Raises:
        ProtocolError: the bytes are no message, or one of another kind.
    """
    try:
        about, tensors = told_about(data), unpacked(data)
        if about["kind"] != kind.__name__:
            raise ProtocolError(f"a message of kind {about['kind']!r} came where {kind.__name__!r} was expected")
        made: M = _MAKERS[kind](tensors, about)
    except (SafetensorError, LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise ProtocolError(f"a message cannot be read ({error}): ask for it again") from None
    return made


@singledispatch
def _parts(message: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    raise ProtocolError(f"{type(message).__name__} is no message: it never leaves its side")


@_parts.register
def _(message: Terms) -> tuple[dict[str, Tensor], dict[str, Any]]:
    knobs = {f"knob/{name}": knob for name, knob in message.knobs.tensors().items()}
    return {"weights": message.weights, "cohort": torch.from_numpy(message.cohort), **knobs}, {"round": message.round_}


@_parts.register
def _(message: Survivors) -> tuple[dict[str, Tensor], dict[str, Any]]:
    return {"clients": torch.from_numpy(message.clients)}, {"round": message.round_}


@_parts.register
def _(message: Shielded) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors = {"clients": torch.from_numpy(message.clients), "rows": message.rows, "weights": message.weights}
    tensors |= {"squared_multipliers": message.squared_multipliers}
    tensors |= {f"side/{name}": column for name, column in message.side.items()}
    return tensors, {"sensitivity": None if message.sensitivity is None else asdict(message.sensitivity)}


@_parts.register
def _(message: Revealed) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors = {"clients": torch.from_numpy(message.clients), "rows": message.rows}
    return tensors | {"squared_multipliers": message.squared_multipliers}, {}


def _terms(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Terms:
    knobs = Knobs.from_tensors(under("knob/", tensors))
    return Terms(int(about["round"]), tensors["weights"], knobs, _ids(tensors["cohort"]))


def _survivors(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Survivors:
    return Survivors(int(about["round"]), _ids(tensors["clients"]))


def _shielded(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Shielded:
    stated = about["sensitivity"]
    return Shielded(
        _ids(tensors["clients"]),
        tensors["rows"],
        tensors["weights"],
        tensors["squared_multipliers"],
        None if stated is None else Sensitivity(**stated),
        under("side/", tensors),
    )


def _revealed(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Revealed:
    return Revealed(_ids(tensors["clients"]), tensors["rows"], tensors["squared_multipliers"])


_MAKERS: Mapping[Any, Any] = {Terms: _terms, Survivors: _survivors, Shielded: _shielded, Revealed: _revealed}


def _ids(tensor: Tensor) -> IntArray:
    ids: IntArray = tensor.numpy().astype(np.int64, casting="safe")
    return ids
