"""A turn for property tests, which may not use function-scoped fixtures."""

from collections.abc import Callable

import pytest

from conftest import turn_of
from sordino.terms import Turn


@pytest.fixture(scope="session")
def turn_factory() -> Callable[..., Turn]:
    return lambda width=6, **knobs: turn_of(width=width, **knobs)
