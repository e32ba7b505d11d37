"""Tensors by name, and what is said about them, as bytes: safetensors files, in which nothing can run code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from safetensors.torch import load, save
from torch import Tensor


def packed(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    """Returns the bytes; names may share a tensor, or parts of one."""
    return save({name: tensor.clone().contiguous() for name, tensor in tensors.items()}, {"about": json.dumps(about)})


def told_about(data: bytes) -> dict[str, Any]:
    """Returns what bytes of `packed` say of themselves, without their tensors.

    Raises:
        ValueError, LookupError, TypeError, RecursionError: they are no such bytes.
    """
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return dict(json.loads(header["__metadata__"]["about"]))


def unpacked(data: bytes) -> dict[str, Tensor]:
    """Returns the tensors of a safetensors file.

    Raises:
        SafetensorError, ValueError: it is none.
    """
    # copies, since views into a file's bytes are not aligned and matrix products round differently there
    return {name: tensor.clone() for name, tensor in load(data).items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
