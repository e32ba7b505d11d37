"""Where a client keeps its side of a secure sum between two messages, and remembers which ones it has answered."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sordino.aggregate.secure.errors import AnsweredAlready, OutOfTurn
from sordino.aggregate.secure.state import SumState, read_head
from sordino.aggregate.secure.terms import SumTerms


class SumKeeper(Protocol):
    """Keeps one state for each (federation, run, round, attempt), and never forgets that there was one."""

    def claim(self, state: SumState, releases: int) -> None:
        """Stores a first state; raises `AnsweredAlready` if this attempt, or too many of the round, were answered."""

    def save(self, before: SumState, after: SumState) -> None:
        """Replaces a state durably by the next; raises `OutOfTurn` if somebody else was faster."""

    def load(self, terms: SumTerms) -> SumState:
        """Returns the state that was saved last; raises `AnsweredAlready` if there is none, or nothing left to say."""


class MemoryKeeper:
    """Keeps states as long as the process lives."""

    def __init__(self) -> None:
        self._states = dict[tuple[bytes, int], SumState]()

    def claim(self, state: SumState, releases: int) -> None:
        occasion, attempt = _name(state.terms)
        sent = sum(past.sent for (name, _), past in self._states.items() if name == occasion)
        _check_claim(state.terms, (occasion, attempt) in self._states, sent, releases)
        self._states[occasion, attempt] = state

    def save(self, before: SumState, after: SumState) -> None:
        name = _name(before.terms)
        _check_still(self._states[name].due, before)
        self._states[name] = after

    def load(self, terms: SumTerms) -> SumState:
        return _under(terms, self._states.get(_name(terms)))


class FileKeeper:
    """Keeps states in a folder, one small file a sum, readable by its owner alone.

    **Formal guarantees**: a state is on the disk (synced, file and folder) before `save` returns, hence before the
    reply leaves; a file goes from one stage to the next and never back, under a lock, whichever processes try; what was
    replaced is overwritten with zeros. A file that is wiped, torn or empty counts as answered.
    **Edge cases**: file systems that copy on write, and backups, may keep older bytes: put the folder on neither. A
    client whose *whole folder* is set back to an earlier copy can be asked again; it then repeats itself (all its
    choices follow from `root`, the roster and the sharers), unless it is given another vector: do not restore it.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def claim(self, state: SumState, releases: int) -> None:
        occasion, path = state.terms.occasion.hex(), self._path(state.terms)
        with self._locked():
            sent = sum(read_head(other.read_bytes())[1] for other in self._folder.glob(f"{occasion}-*.sum"))
            _check_claim(state.terms, path.exists(), sent, releases)
            self._write(path, state.pack())

    def save(self, before: SumState, after: SumState) -> None:
        path = self._path(before.terms)
        with self._locked():
            _check_still(read_head(path.read_bytes())[0], before)
            self._write(path, after.pack())

    def load(self, terms: SumTerms) -> SumState:
        path = self._path(terms)
        data = path.read_bytes() if path.exists() else b""
        return _under(terms, SumState.parse(data) if any(data) else None)

    def _path(self, terms: SumTerms) -> Path:
        occasion, attempt = _name(terms)
        return self._folder / f"{occasion.hex()}-{attempt}.sum"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, path: Path, data: bytes) -> None:
        fresh = path.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
            _sync(file.fileno())
        old = path.open("r+b") if path.exists() else None
        fresh.replace(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            _sync(folder)
        finally:
            os.close(folder)
        if old is not None:
            with old:
                size = os.fstat(old.fileno()).st_size
                old.write(bytes(size))
                old.flush()
                _sync(old.fileno())


def _sync(descriptor: int) -> None:
    os.fsync(descriptor)


def _name(terms: SumTerms) -> tuple[bytes, int]:
    return terms.occasion, terms.attempt


def _check_claim(terms: SumTerms, taken: bool, sent: int, releases: int) -> None:
    if taken:
        raise AnsweredAlready(
            f"attempt {terms.attempt} of round {terms.round_} was answered already: one answer is all there is"
        )
    if sent >= releases:
        raise AnsweredAlready(
            f"this client's vector of round {terms.round_} was sent {releases} times already: its sum may be known; "
            "raise the policy's releases only if each of them is accounted for"
        )


def _check_still(due: int, before: SumState) -> None:
    if due != before.due:
        raise OutOfTurn("another process answered this message in the meantime: drop it")


def _under(terms: SumTerms, state: SumState | None) -> SumState:
    if state is None:
        raise AnsweredAlready(f"nothing is kept of attempt {terms.attempt} of round {terms.round_}")
    if state.terms != terms:
        raise AnsweredAlready(f"attempt {terms.attempt} of round {terms.round_} was begun under other terms")
    return state
