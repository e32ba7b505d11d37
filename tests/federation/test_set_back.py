"""A server that is restored from an older copy of its folder: its members remember what it has forgotten."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from federation.test_interruptions import failing
from federation.village import Village, simulated, village
from sordino.errors import FederationError
from sordino.federation.journal import Journal, Progress
from sordino.runs.folder import RunFolder

SMALL = ("partition.clients=5", "run.rounds=3", "budget.epsilon=20", "aggregate.tolerance=0.3", "mechanism.name=dp_sgd")


def set_back(here: Village, aside: Path, push: int) -> None:
    """Plays a run to its end, and puts a copy of its folder back that was made when this push failed."""
    with pytest.raises(OSError, match="unplugged"):
        here.deployment(failing(here.grid(), push, OSError("unplugged"))).play()
    shutil.copytree(here.folder.run_dir, aside)
    here.deployment().play()
    shutil.rmtree(here.folder.run_dir)
    shutil.copytree(aside, here.folder.run_dir)


@pytest.mark.parametrize(("push", "more"), [(8, ""), (1, ""), (1, "opening.feature_mean=0.2")])
def test_a_server_that_forgot_what_members_paid_for_does_not_go_on(tmp_path: Path, push: int, more: str) -> None:
    """Its ledger and heads are as old as the rest, so that nothing there tells: the certificate would be too small."""
    here = village(tmp_path, *simulated(*SMALL, *([more] if more else [])))
    set_back(here, tmp_path / "copy", push)
    with pytest.raises(FederationError, match=r"has paid for round 3 .* older copy"):
        here.deployment().play()
    assert not RunFolder(here.folder.run_dir).certificate_file.exists()


def test_a_server_that_was_killed_in_the_middle_of_a_round_goes_on(tmp_path: Path) -> None:
    here = village(tmp_path, *simulated(*SMALL))
    with pytest.raises(OSError, match="unplugged"):
        here.deployment(failing(here.grid(), 10, OSError("unplugged"))).play()
    assert here.deployment().play().stopped


def test_progress_is_two_numbers_or_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.progress == Progress(0, 0)
    journal.announce("round", 4)
    journal.announce("FeatureMean", 2)
    journal.announce("opening", 1)
    assert journal.progress == Progress(4, 3) == Progress.parse(Progress(4, 3).pack())
    assert Progress(4, 3).within(journal.progress)
    assert not Progress(5, 0).within(journal.progress) and not Progress(0, 4).within(journal.progress)
    for wrong in (b"[1]", b"[1, true]", b"[-1, 0]", b"[1.0, 2]", b'{"a": 1}', b"nothing"):
        with pytest.raises((ValueError, TypeError)):
            Progress.parse(wrong)
