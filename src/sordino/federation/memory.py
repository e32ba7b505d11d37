"""What a node remembers between two messages: what it has answered, the terms of a round, noise that it may take back.

A ClientApp is made anew for every message, so everything lies in files under the node's `state/`, each written whole
and synced before the answer that it belongs to leaves.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save

from sordino.aggregate.secure.errors import AnsweredAlready
from sordino.aggregate.secure.terms import SumTerms
from sordino.client_state import ClientState
from sordino.errors import ProtocolError
from sordino.federation.messages import Parcel
from sordino.federation.receipts import Receipt, pack, parse, with_newest
from sordino.files import PRIVATE, make_folder, replace_file
from sordino.messages import from_bytes, to_bytes
from sordino.stages import Kept
from sordino.tensor_bytes import unpacked
from sordino.terms import Terms

_LENGTH = 8
"""Bytes in front of a secure sum's terms that say how long they are; the round's terms follow."""


@dataclass(frozen=True)
class NodeMemory:
    """The files of one node's rounds.

    **Formal guarantees**: under `alone`, `claim` succeeds once for each (run, round, attempt), on the disk before
    it returns. What a client's mechanism remembers is replaced whole, before the message that it belongs to leaves.
    **Edge cases**: what was kept for a round that never ended is erased when the next round begins (`unfinished`).
    """

    folder: Path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lets one process of this node answer at a time."""
        make_folder(self.folder, PRIVATE)
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def claim(self, request: Parcel, releases: int) -> None:
        """Writes down that this request is being answered; a round is answered in so many attempts at most.

        Raises:
            AnsweredAlready: it was before, or too many attempts of its round were.
        """
        path = self._path(request, "answered")
        earlier = list(self.folder.glob(f"{_digest(request.run)}-{request.round_}-*.answered"))
        if path in earlier or len(earlier) >= releases:
            raise AnsweredAlready(
                f"round {request.round_} of run {request.run} was answered already (attempt {request.attempt} of "
                f"{releases} that the policy's secure.releases allows): one answer is all there is"
            )
        replace_file(path, request.stage.encode(), PRIVATE)

    def refuse(self, request: Parcel) -> None:
        """Writes down that this very request is refused, before anybody hears of it: it is never answered then."""
        replace_file(self._refused(request), b"", PRIVATE)

    def check_refused(self, request: Parcel) -> None:
        """Raises AnsweredAlready if this node has signed that it refuses this very request."""
        if self._refused(request).exists():
            raise AnsweredAlready(
                f"this very request of round {request.round_} was refused before, and stays so: the next round is open"
            )

    def rounds(self, run: str) -> list[int]:
        """Returns the rounds of a run that were answered outside of a secure sum."""
        return sorted({int(path.stem.split("-")[1]) for path in self.folder.glob(f"{_digest(run)}-*.answered")})

    def receipts(self, run: str) -> list[Receipt]:
        """Returns the operator's requests of a run that were paid for: of the newest round, and of openings."""
        path = self._paid(run)
        return parse(path.read_bytes()) if path.exists() else []

    def keep_receipt(self, request: Parcel) -> None:
        """Keeps a request, as the operator signed it, that is about to be paid for."""
        kept = with_newest(self.receipts(request.run), Receipt.of(request))
        replace_file(self._paid(request.run), pack(kept), PRIVATE)

    def told(self, request: Parcel) -> bytes | None:
        """Returns what this node told before the first round, if it did: it says that again, and nothing else."""
        path = self._opening(request)
        return path.read_bytes() if path.exists() else None

    def keep_told(self, request: Parcel, told: bytes) -> None:
        """Keeps what this node tells before the first round."""
        replace_file(self._opening(request), told, PRIVATE)

    def begin_sum(self, request: Parcel, sum_terms: SumTerms, terms: Terms) -> None:
        """Keeps the terms of a secure sum and of its round, without the model, in one file."""
        packed = sum_terms.pack()
        data = len(packed).to_bytes(_LENGTH, "little") + packed + to_bytes(bare(terms))
        replace_file(self._path(request, "sum"), data, PRIVATE)

    def unfinished(self) -> Iterator[SumTerms]:
        """Yields the terms of secure sums that never ended, and erases what was kept for them."""
        for left in self.folder.glob("*.sum"):
            yield SumTerms.parse(_apart(left.read_bytes())[0])
            for kind in (".kept", ".sum"):
                _erase(left.with_suffix(kind))

    def sum_terms(self, request: Parcel) -> SumTerms:
        """Returns the terms of the secure sum that this node joined."""
        return SumTerms.parse(_apart(self._read(request, "sum"))[0])

    def terms(self, request: Parcel) -> Terms:
        """Returns the round's terms as this node accepted them, without the model."""
        return from_bytes(Terms, _apart(self._read(request, "sum"))[1])

    def keep(self, request: Parcel, kept: Kept) -> None:
        """Keeps noise that may be taken back later in the round: private, as the vector's own privacy rests on it."""
        tensors = {"noise": kept.noise.contiguous(), "weights": kept.weights.contiguous()}
        about = {"norm": json.dumps(kept.norm), "plan": _plan(request)}
        replace_file(self._path(request, "kept"), save(tensors, about), PRIVATE)

    def kept(self, request: Parcel, client: int) -> Kept:
        """Returns what `keep` kept.

        Raises:
            ProtocolError: the plan is not the one that the noise was drawn for: it would say how much is superfluous.
        """
        data = self._read(request, "kept")
        about = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        if about["plan"] != _plan(request):
            raise ProtocolError("the sum is to be opened under another plan than its own: this node reveals nothing")
        tensors = unpacked(data)
        return Kept(np.array([client]), tensors["noise"], tensors["weights"], float(json.loads(about["norm"])))

    def forget(self, request: Parcel) -> None:
        """Erases what was kept for a round that is over; the terms are no secret, and are just removed."""
        _erase(self._path(request, "kept"))
        self._path(request, "sum").unlink(missing_ok=True)

    def state(self, run: str) -> ClientState:
        """Returns what this node's mechanism remembers of the run."""
        path = self._state(run)
        if not path.exists():
            return ClientState.blank(1)
        rows = unpacked(path.read_bytes())["rows"]
        return ClientState(rows, np.ones(len(rows), bool))

    def remember(self, run: str, state: ClientState) -> None:
        """Keeps what the mechanism will want to know next time; a state without width is nothing to keep."""
        if state.rows.shape[1]:
            replace_file(self._state(run), save({"rows": state.rows.detach().to(torch.float32).contiguous()}), PRIVATE)

    def _refused(self, request: Parcel) -> Path:
        return self.folder / f"{request.digest[:32]}.refused"

    def _paid(self, run: str) -> Path:
        return self.folder / f"{_digest(run)}.paid"

    def _opening(self, request: Parcel) -> Path:
        return self.folder / f"{_digest(request.run)}.told"

    def _state(self, run: str) -> Path:
        return self.folder / f"{_digest(run)}.state"

    def _path(self, request: Parcel, kind: str) -> Path:
        return self.folder / f"{_occasion(request)}.{kind}"

    def _read(self, request: Parcel, kind: str) -> bytes:
        try:
            return self._path(request, kind).read_bytes()
        except FileNotFoundError:
            raise ProtocolError(
                f"this node has not begun attempt {request.attempt} of round {request.round_}, or has ended it: it "
                "takes part again in the next round"
            ) from None


def bare(terms: Terms) -> Terms:
    """Returns a round's terms without the model: what its secure sum is agreed on."""
    return Terms(terms.round_, torch.zeros(0), terms.knobs, terms.cohort)


def _occasion(request: Parcel) -> str:
    return f"{_digest(request.run)}-{request.round_}-{request.attempt}"


def _plan(request: Parcel) -> str:
    return hashlib.sha256(request.part("plan")).hexdigest()


def _digest(run: str) -> str:
    return hashlib.blake2b(run.encode(), digest_size=12).hexdigest()


def _apart(data: bytes) -> tuple[bytes, bytes]:
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    return data[_LENGTH:end], data[end:]


def _erase(path: Path) -> None:
    """Overwrites a file with zeros and removes it; one that is gone stays gone."""
    if path.exists():
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
