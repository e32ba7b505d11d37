"""Flower's own failures: a push that is lost aborts one round; anything else is a reason to start again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

from federation.village import simulated, village
from sordino.errors import FederationError
from sordino.federation.folder import FederationFolder
from sordino.federation.operate import Operation
from sordino.federation.status import FederationStatus
from sordino.runs.folder import RunFolder

SMALL = ("partition.clients=5", "run.rounds=3", "budget.epsilon=20", "aggregate.tolerance=0.3", "mechanism.name=dp_sgd")


def failing(grid: Any, at: int, error: Exception) -> Any:
    """Returns the grid, of which the push of this number fails."""
    push, count = grid.push_messages, [0]

    def push_messages(messages: Any) -> Any:
        count[0] += 1
        if count[0] == at:
            raise error
        return push(messages)

    grid.push_messages = push_messages
    return grid


def test_a_push_that_flower_loses_aborts_one_round_and_the_next_works(tmp_path: Path) -> None:
    here = village(tmp_path, *simulated(*SMALL))
    here.deployment(failing(here.grid(), 8, ObjectPushError("object", 1, "session"))).play()
    lines = RunFolder(here.folder.run_dir).metrics()
    assert [("aborted" in line) for line in lines] == [False, True, False]
    assert "lost a message" in lines[1]["aborted"]


def test_any_other_failure_is_told_as_an_interruption_and_the_run_resumes(tmp_path: Path) -> None:
    here = village(tmp_path, *simulated(*SMALL))
    with pytest.raises(OSError, match="unplugged"):
        here.deployment(failing(here.grid(), 8, OSError("unplugged"))).play()
    status = FederationStatus.read(here.folder.status_file)
    assert status is not None and status.state == "interrupted"
    here.deployment().play()
    assert [("aborted" in line) for line in RunFolder(here.folder.run_dir).metrics()] == [False, True, False]


@pytest.mark.parametrize("state", ("interrupted", "stopped", "failed"))
def test_the_operator_starts_again_after_an_interruption_and_not_after_a_reason(tmp_path: Path, state: Any) -> None:
    folder = FederationFolder(tmp_path / "operator")
    folder.make("f", ("127.0.0.1",), 9)
    folder.serverapp_pid.write_text(str(os.getpid()))
    FederationStatus(federation="f", state=state, events=["two nodes are there"]).write(folder.status_file)
    said: list[str] = []
    operation = Operation(folder, tell=said.append)
    if state == "failed":
        with pytest.raises(FederationError, match="two nodes are there"):
            operation._follow(None)  # type: ignore[arg-type]
    else:
        ended = operation._follow(None)  # type: ignore[arg-type]
        assert (ended is None) == (state == "interrupted")
        assert bool(said) == (state == "interrupted")
