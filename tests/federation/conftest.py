"""Without Flower (`pip install 'sordino[flower]'`, which `make setup` does) there is nothing to collect here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

collect_ignore_glob = [] if find_spec("flwr") else ["test_*.py"]

_MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory, where the system has one: a federation waits for its disks more than for anything else."""
    there = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    with tempfile.TemporaryDirectory(dir=_MEMORY if there else None, prefix="sordino-") as folder:
        yield Path(folder)
