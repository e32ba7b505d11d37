"""Settings for private Flower apps; without Flower (`pip install 'sordino[flower]'`) there is nothing to collect."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

collect_ignore_glob = [] if find_spec("flwr") else ["test_*.py"]


@pytest.fixture
def run_config(tmp_path: Path) -> dict[str, Any]:
    """A run configuration as Flower hands it over, flat."""
    return {
        "num-server-rounds": 3,
        "sordino.epsilon": 4.0,
        "sordino.delta": 1e-5,
        "sordino.population": 4,
        "sordino.clip-norm": 1.0,
        "sordino.ledger": str(tmp_path / "ledger.db"),
    }
