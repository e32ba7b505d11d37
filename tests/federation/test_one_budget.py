"""One ε a node, whatever kinds of promise an operator has it make one after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from federation.test_refusals import ASKED, Operator, operator
from federation.village import generous
from sordino.events import Guarantee
from sordino.federation.policy import BudgetPolicy, Policy, WhoPolicy

EPSILON = 12.0


def limited(who: WhoPolicy) -> Policy:
    return generous(who).model_copy(update={"budget": BudgetPolicy(epsilon=EPSILON)})


@pytest.fixture
def asked(tmp_path: Path) -> Operator:
    return operator(tmp_path, "fed_ldp mechanism.noise_multiplier=1.0 budget.epsilon=none", policy=limited)


def ask_until_refused(asked: Operator, run: str) -> int:
    """Returns how many rounds of a run the node answers."""
    asked = replace(asked, plan=replace(asked.plan, run=run))
    for round_ in range(1, 4):
        if asked_once(replace(asked, terms=replace(asked.terms, round_=round_))):
            return round_ - 1
    return 3


def asked_once(asked: Operator) -> str:
    return asked.ask("contribute").refused


def test_another_adjacency_is_no_second_budget(asked: Operator) -> None:
    runs = [ask_until_refused(asked, f"run {n}") for n in range(4)]
    assert sum(runs) > 2
    stronger = asked.but(mechanism={"adjacency": "replace"})
    ask_until_refused(stronger, "stronger")
    with asked.village.nodes[ASKED].ledger(write=False) as ledger:
        book = ledger.book(Guarantee("client", "server", "zero_out"))
        assert float(book.prices(1e-5).epsilon.max()) <= EPSILON
