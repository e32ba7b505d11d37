"""What an operator cannot find out about a node's records by asking: each attack would cost nothing."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from federation.test_refusals import ASKED, Operator, operator, spent
from sordino.federation.declarations import MOST
from sordino.federation.node_statement import state


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


def test_training_that_fails_is_answered_without_its_text(asked: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("3.7 is the value of a record")

    monkeypatch.setattr("sordino.federation.node.ClientSide.contribute", fails)
    refusal = asked.ask("contribute").refused
    assert "its own log" in refusal
    assert "3.7" not in refusal


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
