"""What travels beside the model: the round's terms on the way out, one bounded row on the way back.

Both are Flower records under the name `sordino`, so that nobody's own records are touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from torch import Tensor

from sordino.errors import ProtocolError

NAME = "sordino"
UPDATE = "sordino-update"
_FORMAT = 1


@dataclass(frozen=True)
class FlowerTerms:
    """Server → client: how a client's update is to be bounded and noised this round."""

    round_: int
    trust: str
    clip_norm: float
    noise_multiplier: float
    counted: bool = False
    """Whether the client says that its update was not clipped, for adaptive clipping."""

    def pack(self) -> ConfigRecord:
        """Returns the record that travels."""
        return ConfigRecord(
            {
                "format": _FORMAT,
                "round": self.round_,
                "trust": self.trust,
                "clip-norm": self.clip_norm,
                "noise-multiplier": self.noise_multiplier,
                "counted": self.counted,
            }
        )

    @classmethod
    def unpack(cls, content: RecordDict) -> FlowerTerms:
        """Inverts `pack`, from a message's content.

        Raises:
            ProtocolError: there are none, or they say what no round can mean.
        """
        record = _record(content, "the message carries no terms: wrap the strategy of the ServerApp in PrivateStrategy")
        try:
            terms = cls(
                int(record["round"]),
                str(record["trust"]),
                float(record["clip-norm"]),
                float(record["noise-multiplier"]),
                bool(record["counted"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"the round's terms cannot be read ({error}): use one version everywhere") from None
        if not all(math.isfinite(value) and value > 0 for value in (terms.clip_norm, terms.noise_multiplier)):
            raise ProtocolError("the round's terms have no finite clip norm and noise above 0: refuse them")
        return terms


@dataclass(frozen=True, eq=False)
class PrivateReply:
    """Client → server: one bounded row, how much noise it says it carries, and the count's bit if it was asked for."""

    round_: int
    update: Tensor
    squared_multiplier: float
    unclipped: bool

    def pack(self) -> RecordDict:
        """Returns all that leaves the client: one array in single precision, and no metrics."""
        told: dict[str, Any] = {
            "format": _FORMAT,
            "round": self.round_,
            "squared-multiplier": self.squared_multiplier,
            "unclipped": self.unclipped,
        }
        row = Array(self.update.to(torch.float32).numpy())
        return RecordDict({UPDATE: ArrayRecord({"update": row}), NAME: ConfigRecord(told)})

    @classmethod
    def unpack(cls, content: RecordDict, width: int) -> PrivateReply:
        """Inverts `pack`.

        Raises:
            ProtocolError: it is no private reply, or one for another model.
        """
        record = _record(content, "the reply was not made private: add private_mod to the mods of the ClientApp")
        try:
            array = content.array_records[UPDATE]["update"]
            if array.dtype != "float32" or tuple(array.shape) != (width,):
                raise ProtocolError(f"the reply has shape {tuple(array.shape)}, and the model {width} numbers")
            row = np.array(array.numpy())
            told = int(record["round"]), float(record["squared-multiplier"]), bool(record["unclipped"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"a reply cannot be read ({error}): use one version everywhere") from None
        return cls(told[0], torch.from_numpy(row), told[1], told[2])


def _record(content: RecordDict, missing: str) -> dict[str, Any]:
    record = content.config_records.get(NAME)
    if record is None:
        raise ProtocolError(missing)
    if record.get("format") != _FORMAT:
        raise ProtocolError(f"a message has format {record.get('format')!r}, not {_FORMAT}: use one version everywhere")
    return dict(record)
