"""What every suite shares: where real data lies, and a turn to hand to parts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from sordino.random.streams import Streams
from sordino.terms import Knobs, Terms, Turn, scalar

torch.set_num_threads(1)

# No test fails because the machine is busy, and the same code gets the same answer twice; to look for what was not
# tried yet: pytest --hypothesis-profile=explore
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("explore"), derandomize=True)
settings.load_profile("same")


def turn_of(round_: int = 1, width: int = 5, cohort: int = 0, seed: int = 0, **knobs: float) -> Turn:
    """Returns a turn; knobs other than clip norm and noise multiplier are numbers by name."""
    clip_norm, noise_multiplier = knobs.pop("clip_norm", 1.0), knobs.pop("noise_multiplier", 1.0)
    public = Knobs(clip_norm, noise_multiplier, {name: scalar(value) for name, value in knobs.items()})
    return Turn(Terms(round_, torch.zeros(width), public, np.arange(cohort)), Streams(seed))


@pytest.fixture
def make_turn() -> Callable[..., Turn]:
    """Makes a turn with scalar knobs."""
    return turn_of


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets; the test is skipped where there is none."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SORDINO_DATA", beside))
    if not folder.is_dir():
        pytest.skip("no folder of real data (set SORDINO_DATA)")
    return folder
