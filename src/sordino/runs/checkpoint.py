"""Where a run stands after a round, as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

from sordino.account.certificate.publish import ON_RELEASES
from sordino.errors import StorageError
from sordino.runs.client_store import ClientStore
from sordino.server.side import Position
from sordino.tensor_bytes import packed, told_about, under, unpacked
from sordino.terms import Knobs

_TOLD = ("round", "public", "stopped", "why", "width", "head")
_DAMAGED = (
    "private/checkpoint.safetensors is damaged: bring the file back; without it the run cannot go on, and what it "
    "spent stays in its ledger"
)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a run stands after a round, and whether it goes on."""

    here: Position
    stopped: str | None = None
    """What ended the run; None while it goes on."""
    why: str = ""
    head: str = ""
    """The ledger's head when this was written: a ledger without it is not the run's, or was rolled back."""

    @property
    def stopped_on_releases(self) -> bool:
        """Whether released values ended the run before its plan did, which costs what the plan costs."""
        return self.stopped in ON_RELEASES

    def encode(self, store: ClientStore) -> bytes:
        """Returns the bytes; the store's pending rows become the clients' rows with them."""
        slots, here = store.commit(), self.here
        tensors = {"weights": here.weights}
        tensors |= {f"knob/{name}": knob for name, knob in here.knobs.tensors().items()}
        tensors |= {f"server/{name}": kept for name, kept in here.state.items()}
        tensors["store/clients"] = torch.from_numpy(np.fromiter(slots.keys(), np.int64, len(slots)))
        tensors["store/slots"] = torch.from_numpy(np.fromiter(slots.values(), np.int64, len(slots)))
        about = {"round": here.round_, "public": dict(here.public), "stopped": self.stopped}
        about |= {"why": self.why, "width": store.width, "head": self.head}
        return packed(tensors, about)

    @classmethod
    def decode(cls, data: bytes, store: ClientStore) -> Checkpoint:
        """Returns the checkpoint, and brings the store back to it.

        Raises:
            StorageError: these are not the bytes that were written.
        """
        told = about(data)
        try:
            tensors = unpacked(data)
        except (SafetensorError, ValueError) as error:
            raise StorageError(_DAMAGED) from error
        store.restore(tensors["store/clients"].numpy(), tensors["store/slots"].numpy(), told["width"])
        knobs, state = Knobs.from_tensors(under("knob/", tensors)), under("server/", tensors)
        here = Position(told["round"], tensors["weights"], knobs, state, told["public"])
        return cls(here, told["stopped"], told["why"], told["head"])


def about(data: bytes) -> dict[str, Any]:
    """Returns what an encoded checkpoint says of itself, without its tensors.

    Raises:
        StorageError: these are not the bytes that were written.
    """
    try:
        told = told_about(data)
        return {name: told[name] for name in _TOLD}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(_DAMAGED) from error
