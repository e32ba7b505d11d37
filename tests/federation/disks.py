"""Small disks that can be filled: a real one where this process may mount it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(path: Path, kibibytes: int = 2048) -> Iterator[Path]:
    """Puts a folder, with what is in it, on a disk of its own of this size, in memory.

    Skips the test where this process may not mount one (it takes root).
    """
    aside = path.with_name(f"{path.name}.aside")
    shutil.move(path, aside)
    path.mkdir(mode=0o700)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k,mode=0700", "tmpfs", str(path)], capture_output=True
    )
    if made.returncode:
        pytest.skip("a disk that can be full takes root: this process may not mount one")
    try:
        shutil.copytree(aside, path, dirs_exist_ok=True)
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(path: Path) -> Path:
    """Writes a file until the disk is full, and returns it."""
    filler = path / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            os.fsync(file.fileno())
    return filler
