"""Table III is attacked with the audit's membership inference, and found once."""

from __future__ import annotations

from pathlib import Path

import pytest
from papers.experiment_runner import ExperimentRunner

from papers import yuan_others

SMALL = ["mechanism.name=fedavg", "data.name=digits", "partition.clients=4", "model.name=linear", "run.rounds=2"]


def test_a_finding_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = ExperimentRunner(tmp_path / "runs", quick=True)
    found = yuan_others._attacked(runner, SMALL)
    assert (found["shadow_models"], found["trials"]) == (3, 2)
    assert 0.4 < found["success_rate"] < 0.75
    monkeypatch.delattr(yuan_others, "infer")
    assert yuan_others._attacked(runner, SMALL) == found
    assert [line.what for line in runner.store.lines.values()] == ["membership/3/2"]
