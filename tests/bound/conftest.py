"""A turn for property tests, which may not use function-scoped fixtures."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sordino.mechanism import Turn, scalar
from sordino.random.streams import Streams
from sordino.runs.client_store import ClientStore


@pytest.fixture(scope="session")
def turn_factory() -> Callable[..., Turn]:
    def make(width: int = 6, **knobs: float) -> Turn:
        public = {name: scalar(value) for name, value in knobs.items()}
        return Turn(1, torch.zeros(width), public, Streams(0), ClientStore(), np.empty(0, np.int64))

    return make
