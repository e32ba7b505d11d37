"""Writing to disk, and what to say when the operating system refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sordino.errors import StorageError


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
            f"{path} cannot be written ({error.strerror}): free some space or check the permissions, then --resume"
        ) from None
