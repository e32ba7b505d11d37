"""Writing to disk: with permissions from the start, whole or not at all, and what to say when that is refused."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sordino.errors import StorageError

PUBLIC = 0o644
"""Files that everybody may read; their folders are 0755."""
PRIVATE = 0o600
"""Files of their owner alone; their folders are 0700."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns a refusal to write this file into one sentence with a remedy.

    Raises:
        StorageError: the disk is full, or the file is not ours to write.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): free some space or check the permissions and "
            "go on (--resume), or name another place (--out)"
        ) from None


def opener(mode: int) -> Callable[[str, int], int]:
    """Returns an opener for `open`, that makes new files with these permissions."""
    return lambda path, flags: os.open(path, flags, mode)


def append_line(path: Path, line: bytes, mode: int) -> None:
    """Adds a line to a file that everybody who follows it sees at once, and that a machine that dies may lose.

    Raises:
        StorageError: the disk is full, or the file is not ours to write.
    """
    with writing(path):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
        try:
            if os.write(file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(file)


def make_folder(path: Path, mode: int) -> None:
    """Makes a folder (and what leads to it) for files of this mode, durably; one that is there stays as it is."""
    if path.is_dir():
        return
    if not path.parent.is_dir():
        make_folder(path.parent, PUBLIC)
    path.mkdir(mode | (mode & 0o444) >> 2, exist_ok=True)
    sync(path.parent)


def replace_file(path: Path, data: bytes, mode: int, *, durable: bool = True) -> None:
    """Writes a file aside, syncs it, and puts it in the old one's place.

    What is not `durable` is not synced: it survives the end of the process, and may be torn when power is lost.

    Raises:
        StorageError: the disk is full, or the file is not ours to write.
    """
    aside = path.with_name(f".{path.name}.new")
    with writing(path):
        try:
            aside.unlink(missing_ok=True)  # what a crash left has the permissions of its time
            with open(aside, "xb", opener=opener(mode)) as file:
                file.write(data)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            aside.replace(path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        if durable:
            sync(path.parent)


def sync(path: Path) -> None:
    """Makes what was written to a file, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def for_owner_only() -> Iterator[None]:
    """Makes every file and folder that is made inside the block its owner's alone, whoever makes it."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
