"""A round tells how long each of its stages took, the sum included."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordino.runs.folder import RunFolder
from sordino.runs.run import run

STAGES = {"select", "reserve", "train", "bound", "shield", "sum", "reveal", "release", "settle", "adapt"}


@pytest.mark.parametrize("mechanism", ("dropout_robust", "fed_ldp", "dp_fedavg"))
def test_every_stage_of_a_round_is_timed(mechanism: str, tmp_path: Path) -> None:
    run(mechanism={"name": mechanism}, partition={"clients": 12}, run={"rounds": 2}, out=tmp_path / "run")
    lines = RunFolder(tmp_path / "run").metrics()
    assert len(lines) == 2
    for line in lines:
        assert set(line["seconds"]) == STAGES and all(seconds >= 0 for seconds in line["seconds"].values())
        assert sum(line["seconds"].values()) <= line["seconds_total"]
