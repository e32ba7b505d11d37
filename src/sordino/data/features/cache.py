"""Features that were computed once are kept on disk, for the user alone.

A file is named by a digest of the settings and of the records, so another setting or another record never finds it.
Features of private records are private, and so are the names (whoever knows all records but one could try that one):
the folder has mode 0700, one that is open to others is refused, files have mode 0600, and they are the user's to delete
at any time.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sordino.errors import StorageError
from sordino.files import writing

VARIABLE = "SORDINO_CACHE"
_FORMAT = 1  # to be raised when features of the same settings change
_WORTH_KEEPING = 1 << 20  # numbers: fewer are computed faster than looked up


def cache_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Returns where features are kept: the folder named, else $SORDINO_CACHE, else sordino in the XDG cache folder."""
    if folder or os.environ.get(VARIABLE):
        return Path(folder or os.environ[VARIABLE]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sordino" / "features"


def digest(settings: str, x: Tensor) -> str:
    """Returns the name of the features of these records under these settings."""
    total = hashlib.blake2b(f"{_FORMAT}\n{settings}\n{x.dtype}\n{tuple(x.shape)}\n".encode(), digest_size=20)
    total.update(x.contiguous().numpy().data)
    return total.hexdigest()


def kept(settings: str, x: Tensor, compute: Callable[[Tensor], Tensor], folder: Path | None) -> Tensor:
    """Returns compute(x), from disk if it was computed before.

    Args:
        settings: everything that the features depend on besides the records, as text.
        x: the records.
        compute: a pure function of the records and the settings.
        folder: where features are kept; None computes and keeps nothing.

    **Formal guarantees**: the answer is that of `compute`, to the bit. A file is written aside, synced and renamed, so
    a crash leaves it whole or not there; two processes that write at once leave one of two equal files.
    **Edge cases**: few records (one client's) are computed and never kept. A file that is damaged is computed anew.

    Raises:
        StorageError: the folder cannot be written, or is open to others.
    """
    if folder is None or x.numel() < _WORTH_KEEPING:
        return compute(x)
    _require_own(folder)
    path = folder / f"{digest(settings, x)}.npy"
    found = _read(path, len(x))
    if found is None:
        found = compute(x)
        _write(path, found)
    return found


def _require_own(folder: Path) -> None:
    """Refuses a folder that others can look into, or write to: they could put other features in their place."""
    if folder.exists() and (folder.stat().st_mode & 0o077 or folder.stat().st_uid != os.getuid()):
        raise StorageError(
            f"data.cache {folder} is open to others, and features of private records are private: chmod 700 it, name a "
            'folder of your own, or set data.cache = "none"'
        )


def _read(path: Path, rows: int) -> Tensor | None:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return torch.from_numpy(array) if array.dtype == np.float32 and len(array) == rows else None


def _write(path: Path, features: Tensor) -> None:
    with writing(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=path.parent, suffix=".part")  # mkstemp makes it 0600
        try:
            with os.fdopen(handle, "wb") as file:
                np.save(file, features.numpy(), allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
            Path(aside).replace(path)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
