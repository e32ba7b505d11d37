"""What an operator cannot find out about a node's records by asking: each attack would cost nothing."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from torch import Tensor

from federation.test_refusals import ASKED, Operator, operator, spent
from sordino.data.client_data import ClientData
from sordino.federation.declarations import MOST
from sordino.federation.node_statement import state
from sordino.messages import from_bytes
from sordino.opening.histograms import LabelHistograms
from sordino.runs.folder import RunFolder
from sordino.stages import Shielded
from sordino.terms import Turn
from sordino.train.shard import Shard
from sordino.train.trainer import Trainer


@pytest.fixture
def asked(tmp_path: Path) -> Operator:
    return operator(tmp_path)


def test_ranges_of_a_plan_are_no_questions_about_values(asked: Operator) -> None:
    """A range that holds no value once made the node quote the first value that it found outside."""
    for ranges in ({"*": (1e8, 1e9)}, {"*": (0.0, 0.5)}):
        assert not asked.but(public={"ranges": ranges}).ask("hello").refused


def test_nobody_learns_how_many_records_a_node_has(asked: Operator) -> None:
    count = str(len(asked.village.nodes[ASKED].records().train_y))
    for declared in ({"least_records": 10**6}, {"most_records": 1}):
        refusal = asked.but(public=declared).ask("hello").refused
        assert "public." in refusal
        assert count not in refusal


def test_an_interval_cannot_be_halved_until_one_number_is_left(asked: Operator) -> None:
    low, high = 1, 2**20
    for _ in range(20):
        middle = (low + high) // 2
        refusal = asked.but(public={"least_records": middle}).ask("hello").refused
        if "different declarations" in refusal:
            break
        low, high = (low, middle - 1) if refusal else (middle, high)
    assert high - low >= 2**20 // 2**MOST - 2
    assert "different declarations" in refusal
    assert spent(asked) == 0


def test_what_is_wrong_with_a_file_of_records_stays_on_the_node(asked: Operator) -> None:
    node = asked.village.nodes[ASKED]
    np.savez(node.path / "data" / "records.npz", x=np.array([["diagnosis: secret"]]), y=np.array([0]))
    refusal = asked.ask("hello").refused
    assert "its own log" in refusal
    assert "secret" not in refusal


def test_an_error_that_nobody_foresaw_is_answered_without_its_text(
    asked: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("the value of a record")

    monkeypatch.setattr("sordino.federation.node.check_plan", fails)
    assert asked.ask("hello").refused == "this node failed: its own log says why"


def test_what_fails_whatever_the_records_is_answered_without_its_text_and_is_paid_for(
    asked: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("3.7 is the value of a record")

    monkeypatch.setattr("sordino.federation.contribution.ClientSide.contribute", fails)
    refusal = asked.ask("contribute").refused
    assert "its own log" in refusal
    assert "3.7" not in refusal
    assert spent(asked) == 1


def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes training, and whatever is told before it, fail wherever there are records."""
    cut, tell = Trainer._shards, LabelHistograms.tell

    def cut_(self: Trainer, w0: Tensor, data: ClientData, *rest: Any, **more: Any) -> list[Shard]:
        if len(data.y):
            raise ValueError("a record of 3.7 is no good")
        return cut(self, w0, data, *rest, **more)

    def tell_(self: LabelHistograms, data: ClientData, turn: Turn) -> Tensor:
        if len(data.y):
            raise ValueError("a record of 3.7 is no good")
        return tell(self, data, turn)

    monkeypatch.setattr(Trainer, "_shards", cut_)
    monkeypatch.setattr(LabelHistograms, "tell", tell_)


@pytest.mark.parametrize("mechanism", ["fed_ldp", "dp_fedavg", "fed_cad"])
def test_training_that_fails_on_a_node_is_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    """It was one, signed and unpaid: one bit about the records in every round, for nothing."""
    asked = operator(tmp_path, mechanism)
    failing(monkeypatch)
    answer = asked.ask("contribute")
    assert not answer.refused
    rows = from_bytes(Shielded, answer.part("message")).rows
    assert spent(asked) == 1
    assert bool(rows.any()) == (mechanism != "dp_fedavg"), "zero, with noise where the trust wants it"


def test_an_opening_that_fails_on_a_node_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = operator(tmp_path, "a_dpfl")
    failing(monkeypatch)
    asked.terms = replace(asked.terms, round_=0)
    assert not asked.ask("tell").refused
    assert spent(asked) == 1


def test_a_secure_sum_goes_on_with_a_node_whose_training_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = operator(tmp_path, "dropout_robust")
    failing(monkeypatch)
    last = asked.village.deployment().play()
    assert last.here.round_ == asked.village.recipe.run.rounds
    assert spent(asked) == last.here.round_
    assert not [one for one in metrics(asked) if "aborted" in one]


def metrics(asked: Operator) -> list[dict[str, object]]:
    file = RunFolder(asked.village.folder.run_dir).metrics_file
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("mechanism", ["fed_ldp", "local_dp_sgd", "a_dpfl", "dp_fedavg", "fed_cad"])
def test_a_node_whose_last_record_goes_answers_as_before(tmp_path: Path, mechanism: str) -> None:
    """It refused, signed and unpaid: whether its one record is there was told for nothing."""
    asked = operator(tmp_path, mechanism)
    file = asked.village.nodes[ASKED].path / "data" / "records.npz"
    with np.load(file) as found:
        x, y = found["x"][:0], found["y"][:0]
    np.savez(file, x=x, y=y)
    assert not asked.ask("hello").refused
    assert not asked.ask("contribute").refused
    assert spent(asked) == 1


def test_what_kills_a_node_in_the_middle_of_its_training_is_paid_for(
    asked: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many records as the memory does not hold: which plan that is tells how many there are."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "train", killed)
    with pytest.raises(KeyboardInterrupt):
        asked.ask("contribute")
    assert spent(asked) == 1


def test_infinite_noise_is_refused(asked: Operator) -> None:
    assert "infinite" in asked.knobs(noise_multiplier=float("inf")).ask("contribute").refused


def test_a_plan_that_invents_members_does_not_lower_what_a_node_pays(asked: Operator) -> None:
    """Others' noise in a sum was credited against an outsider, and the plan said how many they are: 0.04 for 9.6."""
    told = tomllib.loads(asked.plan.recipe)
    told["public"]["population"] = 10**5
    crowd = replace(asked, plan=replace(asked.plan, recipe=tomli_w.dumps(told), population=10**5))
    assert not crowd.ask("contribute").refused
    with asked.village.nodes[ASKED].ledger(write=False) as ledger:
        (entry,) = ledger.entries
    server, outsider = entry.charges
    assert (server.guarantee.observer, outsider.guarantee.observer) == ("server", "outsider")
    assert outsider.event == server.event
    for promise in state(asked.village.nodes[ASKED]).promises:
        assert promise["price"] == pytest.approx(float(entry.costs[0]))
