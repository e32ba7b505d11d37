"""Heads that were published: signed, one a line, where others can keep them. They show a ledger that forgot.

Whoever can write to the ledger can cut its last rows, put an older copy in its place, or rewrite it with fresh hashes:
each leaves a chain that is whole. It then lacks a head that was published.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sordino.account.ledger.entry import canonical, now
from sordino.account.ledger.keys import LedgerKey, signed
from sordino.errors import LedgerError, LedgerTampered

_LONGEST = 4096
"""Bytes at the end of the file in which its last line is looked for; a line has about 350."""
_PURPOSE = b"sordino ledger head\n"
_BEGIN = b'{"head":"'
"""What every line begins with (`canonical` sorts fields by name)."""
_TYPES = (int, str, str, str, str)

Link = Callable[[int], bytes | None]
"""Returns the hash of the ledger's row at a place, None when there is no such row."""


def heads_path(ledger: Path) -> Path:
    """Returns where a ledger's heads are published unless it says otherwise."""
    return ledger.with_name(f"{ledger.name}.heads.jsonl")


@dataclass(frozen=True)
class PublishedHead:
    """The hash of the ledger's last row at one moment; it commits to every row up to there."""

    seq: int
    head: str
    time: str
    previous: str
    """A digest of the line before, so that a signature speaks for all lines up to its own; empty on the first."""
    signature: str = ""

    def message(self) -> bytes:
        """Returns what is signed."""
        fields = (str(self.seq), self.head, self.time, self.previous)
        return _PURPOSE + "\n".join(fields).encode()

    def line(self) -> bytes:
        """Returns the line that is published."""
        return f"{canonical(vars(self))}\n".encode()

    def digest(self) -> str:
        """Returns what the next line says of this one."""
        return digest_of(self.line()[:-1])


class HeadLog:
    """A file of published heads, one JSON object a line, in rising order.

    Formal guarantees: a head is published after its row is safe on disk, so the log is never ahead of an honest
    ledger. It may be behind by what a killed process had no time to publish; the next one to open the ledger does.

    Edge cases: several processes may publish at once. A last line without its end (the machine died) was not published.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._known: tuple[int, int, str] = (0, -1, "")
        """How long the file was when it was last written here, the row of its last head, and that line's digest."""

    def publish(self, seq: int, head: str, key: LedgerKey, link: Link) -> None:
        """Appends a head, unless it or a later one is there.

        Raises:
            LedgerError: it cannot be written; nothing may be released.
            LedgerTampered: the file was taken away while the ledger was open, or another copy of the ledger publishes
                to it.
        """
        with self._locked() as file:
            size, (known, place, digest) = self._mended(file), self._known
            if size != known:
                last = _last(file, size, self.path)
                check_last(last, self.path, key.public, link)
                place, digest = (-1, "") if last is None else (last.seq, last.digest())
            if place < seq:
                line = PublishedHead(seq, head, now(), digest)
                data = replace(line, signature=key.sign(line.message())).line()
                if os.write(file, data) != len(data):
                    raise OSError(28, "the disk is full")
                size, place, digest = size + len(data), seq, digest_of(data[:-1])
            self._known = (size, place, digest)

    def last(self) -> PublishedHead | None:
        """Returns the head that was published last, None when there is no file or nothing in it."""
        if self.path.exists() and not self.path.is_file():  # a pipe would never answer
            raise LedgerError(f"head log {self.path} is no ordinary file: name another one")
        try:
            with self.path.open("rb") as file:
                return _last(file.fileno(), os.fstat(file.fileno()).st_size, self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"head log {self.path} cannot be read ({error.strerror}): ask its owner") from error

    def all(self) -> list[PublishedHead]:
        """Returns every head that was published."""
        return [_parse(line, self.path) for line in self.lines()]

    def lines(self) -> list[bytes]:
        """Returns every line of the file.

        Raises:
            LedgerTampered: the file is gone.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            raise LedgerTampered(_gone(self.path)) from None
        except OSError as error:
            raise LedgerError(f"head log {self.path} cannot be read ({error.strerror}): ask its owner") from error
        return text.split(b"\n")[:-1]

    def sync(self) -> None:
        """Makes what was published durable."""
        try:
            if self._file is not None:
                os.fsync(self._file)
        except OSError as error:
            raise LedgerError(
                f"head log {self.path} cannot be synced ({error.strerror}): what was charged is in the ledger, check "
                "the disk and open it again"
            ) from error

    def close(self) -> None:
        """Makes what was published durable, and closes the file."""
        try:
            self.sync()
        finally:
            if self._file is not None:
                os.close(self._file)
            self._file = None

    def require_writable(self) -> None:
        """Looks whether heads could be written, and leaves no file where there was none.

        Raises:
            LedgerError: they could not.
        """
        new = not self.path.exists()
        with self._locked():
            if new:
                self.path.unlink()
        self.close()

    @contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            if self._file is None:
                new = not self.path.exists()
                self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
                if new:
                    os.fchmod(self._file, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                if os.fstat(self._file).st_nlink == 0:
                    raise LedgerTampered(_gone(self.path))
                yield self._file
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            raise LedgerError(
                f"head log {self.path} cannot be written ({error.strerror}): nothing was released, check disk and "
                "permissions"
            ) from error

    def _mended(self, file: int) -> int:
        """Cuts off an unfinished last line, and returns the length of the rest."""
        size = os.fstat(file).st_size
        if size != self._known[0] and size and os.pread(file, 1, size - 1) != b"\n":
            tail = os.pread(file, _LONGEST, max(0, size - _LONGEST))
            _require_unfinished(tail[tail.rfind(b"\n") + 1 :], self.path)
            size -= len(tail) - (tail.rfind(b"\n") + 1)
            os.ftruncate(file, size)
        return size


def check_last(last: PublishedHead | None, path: Path, public: str, link: Link) -> None:
    """Raises a LedgerTampered unless the head published last is signed, and in the chain.

    That is enough to open a ledger: a head commits to all rows before it, so earlier lines add nothing.
    """
    if last is not None:
        _require_signed(last, path, public)
        _require_held(last, path, link)


def check_all(lines: Sequence[bytes], path: Path, public: str, link: Link) -> None:
    """Checks every line of a log against the chain, and that the log is whole.

    One signature is enough: the last line's speaks for all lines before it.

    Raises:
        LedgerTampered: at the first line that is changed, missing, moved, unsigned, or not in the chain.
    """
    before, place = "", -1
    for raw in lines:
        line = _parse(raw, path)
        if line.previous != before or line.seq <= place:
            raise LedgerTampered(f"head log {path}: lines before the head of row {line.seq} were changed: restore it")
        _require_held(line, path, link)
        before, place = digest_of(raw), line.seq
    if lines:
        _require_signed(line, path, public)


def _require_signed(line: PublishedHead, path: Path, public: str) -> None:
    if not signed(public, line.message(), line.signature):
        raise LedgerTampered(
            f"head log {path}: the head of row {line.seq} is not signed with the ledger's key: it was forged, or "
            "ledger or log is another's; restore both from a copy"
        )


def _require_held(line: PublishedHead, path: Path, link: Link) -> None:
    found = link(line.seq)
    if found is None:
        raise LedgerTampered(
            f"the ledger ends before row {line.seq}, which was published in {path}: it was cut, or is an older copy; "
            "restore the newest one, with its -wal file"
        )
    if found.hex() != line.head:
        raise LedgerTampered(
            f"row {line.seq} of the ledger is not the one published in {path}: it was rewritten; restore it from a copy"
        )


def _last(file: int, size: int, path: Path) -> PublishedHead | None:
    tail = os.pread(file, _LONGEST, max(0, size - _LONGEST))
    end = tail.rfind(b"\n")
    if end < 0:
        if size > _LONGEST:
            raise LedgerTampered(f"head log {path}: the last line cannot be read: restore it from a copy")
        _require_unfinished(tail, path)
        return None
    return _parse(tail[tail.rfind(b"\n", 0, end) + 1 : end], path)


def _require_unfinished(tail: bytes, path: Path) -> None:
    """Refuses to cut off what is no beginning of a line: the file is something else, and somebody's."""
    if tail.strip(b"\0")[: len(_BEGIN)] != _BEGIN[: len(tail.strip(b"\0"))]:
        raise LedgerError(f"{path} holds something else than heads of a ledger: name a file of their own")


def _parse(line: bytes, path: Path) -> PublishedHead:
    try:
        told: Any = json.loads(line)
        head = PublishedHead(**told)
        if (type(head.seq), *map(type, (head.head, head.time, head.previous, head.signature))) != _TYPES:
            raise TypeError("wrong types")
    except (ValueError, TypeError, RecursionError) as error:
        raise LedgerTampered(f"head log {path}: a line cannot be read ({error}): restore it from a copy") from error
    return head


def digest_of(data: bytes) -> str:
    """Returns a short name of a line, or of where a file of lines lies."""
    return hashlib.blake2b(data, digest_size=16, person=b"sordino.heads").hexdigest()


def _gone(path: Path) -> str:
    return f"head log {path} is gone: restore it from a copy, or move it along with its ledger"
