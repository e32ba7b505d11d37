"""A server that is restored from an older copy of its folder: its members remember what it has forgotten."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from federation.test_interruptions import failing
from federation.village import Village, simulated, village
from sordino.aggregate.secure.keys import Identity
from sordino.errors import FederationError, ProtocolError
from sordino.federation.journal import Journal, Progress
from sordino.federation.messages import Parcel
from sordino.federation.receipts import Receipt, pack, parse, proven, with_newest
from sordino.federation.status import FederationStatus
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


def test_a_journal_counts_what_was_announced(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.progress == Progress(0, 0)
    journal.announce("round", 4)
    journal.announce("FeatureMean", 2)
    journal.announce("opening", 1)
    assert journal.progress == Progress(4, 3)
    assert Progress(4, 3).within(journal.progress)
    assert not Progress(5, 0).within(journal.progress) and not Progress(0, 4).within(journal.progress)


def request(operator: Identity, **changes: Any) -> Receipt:
    """Returns what a member keeps of a request that this operator signed."""
    parcel = Parcel("mask", "run", 3, 0, 2, {"terms": b"model"})
    return Receipt.of(replace(parcel, **changes).sealed(operator))


def test_receipts_show_what_the_operator_signed_and_nothing_else() -> None:
    operator = Identity()
    opening, other = request(operator, round_=0, stage="tell"), request(operator, round_=0)
    kept = with_newest(with_newest(with_newest([], opening), request(operator, round_=1)), request(operator))
    assert [receipt.round_ for receipt in kept] == [0, 3]
    assert proven(parse(pack([*kept, other, other])), "run", 2, operator.public) == Progress(3, 2)
    signed = request(operator)
    wrong = {
        "another operator's": request(Identity()),
        "another round": Receipt(signed.message.replace('"round":3', '"round":9'), signed.signature),
        "another run's": request(operator, run="earlier"),
        "another member's": request(operator, node=1),
        "a greeting": request(operator, stage="hello"),
        "an answer": request(operator, request=False),
    }
    for name, receipt in wrong.items():
        with pytest.raises(ProtocolError, match="is left out"):
            raise AssertionError(f"{name}: {proven([receipt], 'run', 2, operator.public)}")
    for bytes_ in (b"3", b"[[1, 2]]", b'[["a"]]', b"{}", pack([signed] * 65)):
        with pytest.raises(ValueError, match=r"expected|two texts|unpack"):
            parse(bytes_)


def test_a_node_that_lost_its_receipts_takes_no_part(tmp_path: Path) -> None:
    here = village(tmp_path, *simulated(*SMALL))
    with pytest.raises(OSError, match="unplugged"):
        here.deployment(failing(here.grid(), 8, OSError("unplugged"))).play()
    for left in (here.nodes[0].state_dir / "rounds").glob("*.paid"):
        left.unlink()
    here.deployment().play()
    status = FederationStatus.read(here.folder.status_file)
    assert status is not None
    assert "this run is over for it" in status.node(0).note
