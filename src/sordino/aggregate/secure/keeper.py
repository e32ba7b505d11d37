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

    def claim(self, state: SumState, releases: int, attempts: int = 8) -> None:
        """Stores a first state, and ends all earlier attempts at the round.

        Raises:
            AnsweredAlready: this attempt or a later one was begun before; `attempts` of them were begun; or the vector
                was sent in `releases` of them.
        """

    def save(self, before: SumState, after: SumState) -> None:
        """Replaces a state durably by the next; raises `OutOfTurn` if somebody else was faster."""

    def load(self, terms: SumTerms) -> SumState:
        """Returns the state that was saved last; raises `AnsweredAlready` if there is none, or nothing left to say."""


class MemoryKeeper:
    """Keeps states as long as the process lives."""

    def __init__(self) -> None:
        self._states = dict[tuple[bytes, int], SumState]()

    def claim(self, state: SumState, releases: int, attempts: int = 8) -> None:
        occasion, attempt = _name(state.terms)
        earlier = {number: past for (name, number), past in self._states.items() if name == occasion}
        sent = sum(past.sent for past in earlier.values())
        _check_claim(state.terms, sorted(earlier), sent, releases, attempts)
        self._states |= {(occasion, number): past.erased() for number, past in earlier.items()}
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

    def claim(self, state: SumState, releases: int, attempts: int = 8) -> None:
        occasion = state.terms.occasion.hex()
        with self._locked():
            earlier = {int(path.stem.rpartition("-")[2]): path for path in self._folder.glob(f"{occasion}-*.sum")}
            heads = {path: read_head(path.read_bytes()) for path in earlier.values()}
            sent = sum(sent for _, sent in heads.values())
            _check_claim(state.terms, sorted(earlier), sent, releases, attempts)
            for path, (due, _) in heads.items():
                if due:
                    self._write(path, SumState.parse(path.read_bytes()).erased().pack())
            self._write(self._path(state.terms), state.pack())

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


def _check_claim(terms: SumTerms, earlier: list[int], sent: int, releases: int, attempts: int) -> None:
    """Refuses an attempt. Attempts go one way: two at once could each send the vector, and their difference tell it."""
    if earlier and terms.attempt <= earlier[-1]:
        raise AnsweredAlready(
            f"attempt {terms.attempt} of round {terms.round_} was answered already, or a later one was: one answer is "
            "all there is"
        )
    if len(earlier) >= attempts:
        raise AnsweredAlready(
            f"{attempts} attempts at round {terms.round_} were begun already: a server that draws again and again may "
            "be waiting for a graph that it likes; leave this round out"
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
