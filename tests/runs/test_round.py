"""A round tells how long each of its stages took, the sum included."""

from __future__ import annotations

import time
import weakref
from pathlib import Path

import pytest
import torch

from sordino.client.side import ClientSide, Contribution
from sordino.errors import LedgerError
from sordino.runs import round as rounds
from sordino.runs.folder import RunFolder
from sordino.runs.run import run
from sordino.server.side import ServerSide

STAGES = {"select", "reserve", "train", "bound", "shield", "sum", "reveal", "release", "settle", "adapt"}


@pytest.mark.parametrize("mechanism", ("dropout_robust", "fed_ldp", "dp_fedavg"))
def test_every_stage_of_a_round_is_timed(mechanism: str, tmp_path: Path) -> None:
    run(mechanism={"name": mechanism}, partition={"clients": 12}, run={"rounds": 2}, out=tmp_path / "run")
    lines = RunFolder(tmp_path / "run").metrics()
    assert len(lines) == 2
    for line in lines:
        assert set(line["seconds"]) == STAGES and all(seconds >= 0 for seconds in line["seconds"].values())
        assert sum(line["seconds"].values()) <= line["seconds_total"]


def test_rows_of_a_chunk_are_let_go_while_later_chunks_train(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A round kept every chunk's messages to its end, so that chunks saved no memory."""
    rows, most, contribute = list[weakref.ref[torch.Tensor]](), [0], ClientSide.contribute

    def counted(*told: object) -> Contribution:
        made = contribute(*told)  # type: ignore[arg-type]
        rows.append(weakref.ref(made.message.rows))
        most[0] = max(most[0], sum(row() is not None for row in rows))
        return made

    monkeypatch.setattr(ClientSide, "contribute", counted)
    monkeypatch.setattr(rounds, "_ENTRIES", 1)  # one client a chunk
    short = {"name": "fed_ldp", "clip_norm": 0.001}
    run(mechanism=short, partition={"clients": 12}, run={"rounds": 1}, out=tmp_path / "run")
    assert len(rows) == 12 and most[0] == 2  # the one that was just made, and the one before it
    (line,) = RunFolder(tmp_path / "run").metrics()
    assert line["clip_fraction"] == 1


@pytest.mark.parametrize("engine", ("batched", "processes"))
@pytest.mark.parametrize("written", (True, False))
def test_nothing_is_added_up_before_the_clerk_has_reserved_it(
    written: bool, engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen, reserve, reveal = list[str](), ServerSide.reserve, ClientSide.reveal

    def slowly(*told: object) -> int:
        time.sleep(0.2)  # longer than training takes
        if not written:
            raise LedgerError("the disk is full")
        number = reserve(*told)  # type: ignore[arg-type]
        seen.append("reserved")
        return number

    def noted(*told: object) -> object:
        seen.append("added")  # what a client reveals follows its message into the sum
        return reveal(*told)  # type: ignore[arg-type]

    monkeypatch.setattr(ServerSide, "reserve", slowly)
    monkeypatch.setattr(ClientSide, "reveal", noted)
    begun = {"partition": {"clients": 12}, "train": {"engine": engine}, "run": {"rounds": 2}, "out": tmp_path / "run"}
    if written:
        run(mechanism={"name": "dp_fedavg"}, **begun)
    else:
        with pytest.raises(LedgerError, match="disk"):
            run(mechanism={"name": "dp_fedavg"}, **begun)
    assert seen == ["reserved", "added"] * 2 * written
