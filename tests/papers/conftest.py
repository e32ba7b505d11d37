"""The rivals of a figure are registered when it is played: no other suite should meet them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sordino.mechanisms import MECHANISMS


@pytest.fixture(autouse=True)
def no_rivals_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Puts the registry back as it was."""
    list(MECHANISMS)
    monkeypatch.setattr(MECHANISMS, "_specs", dict(MECHANISMS._specs))
    yield
