"""A replay's books lie in a folder that goes away with it: nobody writes there any more when it ends."""

from __future__ import annotations

import threading
import time

import pytest

import sordino
from sordino.account.ledger.ledger import Ledger
from sordino.audit.replay import replay
from sordino.runs.setup import load


def test_the_last_round_is_written_down_before_the_books_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    flush, close, done = Ledger.flush, Ledger.close, list[str]()

    def slow(ledger: Ledger) -> None:
        aside = threading.current_thread() is not threading.main_thread()
        if aside:
            time.sleep(0.1)
        flush(ledger)
        done.extend(["written"] * aside)

    def closing(ledger: Ledger) -> None:
        close(ledger)
        done.append("closed")

    monkeypatch.setattr(Ledger, "flush", slow)
    monkeypatch.setattr(Ledger, "close", closing)
    recipe = sordino.Recipe.load(None, ["partition.clients=5", "run.rounds=1", "mechanism.name=dp_fedavg"])
    replay(recipe, load(recipe), 1)
    time.sleep(0.3)
    assert done[-1] == "closed"
