"""What costs a node nothing tells nothing: neither a muted message, nor one that was never paid for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from federation.test_refusals import ASKED, operator, spent
from sordino.account.ledger.ledger import Ledger
from sordino.data.client_data import ClientData
from sordino.errors import LedgerError
from sordino.federation.memory import NodeMemory
from sordino.messages import from_bytes
from sordino.random.streams import Streams
from sordino.stages import Shielded, Update
from sordino.train.trainer import Trainer


def said(path: Path, forget: bool) -> tuple[torch.Tensor, int]:
    """Returns what a node with a memory says when it is muted, and how many releases it has paid for."""
    asked = operator(path, "fed_cad mechanism.difference=0.5")
    asked.village.randomness = Streams(7)
    assert not asked.ask("contribute").refused
    memory = NodeMemory(asked.village.nodes[ASKED].state_dir / "rounds")
    assert memory.state("run").known.all()
    if forget:
        (state,) = memory.folder.glob("*.state")
        state.unlink()
    later = replace(asked, terms=replace(asked.terms, round_=2))
    answer = later.ask("contribute", mute=b"1")
    assert not answer.refused
    return from_bytes(Shielded, answer.part("message")).rows, spent(asked)


def test_what_a_muted_node_says_does_not_follow_from_its_last_update(tmp_path: Path) -> None:
    """Fed-CAD pulls an update towards the last one: a muted node that remembered it would tell it again, for free."""
    (known, paid), (blank, _) = said(tmp_path / "known", forget=False), said(tmp_path / "blank", forget=True)
    assert paid == 1, "the muted round is free"
    assert torch.equal(known, blank)


def test_a_muted_node_does_not_look_at_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It trained first, and zeroed the result: whether that failed, and how long it took, was told for nothing."""
    asked, seen = operator(tmp_path), list[int]()
    train = Trainer.train

    def noted(self: Trainer, w0: torch.Tensor, data: ClientData, *rest: object) -> Update:
        seen.append(len(data.y))
        return train(self, w0, data, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Trainer, "train", noted)
    assert not asked.ask("contribute", mute=b"1").refused
    assert seen == [0]
    assert spent(asked) == 0


def test_a_message_that_was_never_paid_for_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Fed-CAD sends rests on its last message; one that is in no ledger would make the next one cheaper."""
    asked = operator(tmp_path, "fed_cad mechanism.difference=0.5")

    def full(*_: object, **__: object) -> int:
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "reserve", full)
        assert "disk is full" in asked.ask("contribute").refused
    memory = NodeMemory(asked.village.nodes[ASKED].state_dir / "rounds")
    assert spent(asked) == 0 and not memory.state("run").known.any()
