"""An operator who chooses each run, its noise or its unit from what earlier ones released: the node's ε holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from federation.test_one_budget import limited
from federation.test_refusals import ASKED, Operator, operator, spent
from federation.village import generous
from sordino.account.accountants.filter import GaussianFilter, RdpFilter
from sordino.account.accountants.rdp import divergence
from sordino.events import Guarantee
from sordino.federation.node_statement import state
from sordino.federation.policy import BudgetPolicy, Policy, WhoPolicy

SAMPLED = "local_dp_sgd mechanism.sampling_rate=0.2 mechanism.noise_multiplier={noise} budget.epsilon=none"


def tight(who: WhoPolicy) -> Policy:
    return generous(who).model_copy(update={"budget": BudgetPolicy(epsilon=6.0)})


def another(asked: Operator, run: str, **settings: dict[str, object]) -> Operator:
    changed = asked.but(**settings)
    return replace(changed, plan=replace(changed.plan, run=run))


def next_run(asked: Operator, run: str, noise: float) -> str:
    """Plays one round of a new run with noise of the operator's choice; returns the refusal."""
    asked = another(asked, run, mechanism={"noise_multiplier": noise}).knobs(noise_multiplier=noise)
    return asked.ask("contribute").refused


def test_noise_that_follows_releases_is_admitted_by_one_filter_over_all_runs(tmp_path: Path) -> None:
    """Sampled noise has no Gaussian filter: the order is fixed by the first plan, and no later one changes it."""
    asked = operator(tmp_path, SAMPLED.format(noise=4.0), policy=tight)
    node = asked.village.nodes[ASKED]
    assert not asked.ask("contribute").refused
    first = node.filters.read()
    assert first and all(isinstance(one, RdpFilter) for one in first.values())
    refused, runs = "", 0
    while not refused and runs < 12:
        runs += 1
        refused = next_run(asked, f"run {runs}", (4.0, 0.6, 0.8)[runs % 3])
    assert "budget.epsilon of 6" in refused
    assert node.filters.read() == first, "an order that is chosen afterwards promises nothing"
    with node.ledger(write=False) as ledger:
        for guarantee in ledger.guarantees:
            chosen, history = first[guarantee], ledger.book(guarantee).histories(np.array([0]))[0]
            assert isinstance(chosen, RdpFilter)
            together = float(divergence(history, np.array([chosen.order]), guarantee.adjacency)[0])
            assert 0 < together <= chosen.capacity * (1 + 1e-9)


def test_the_statement_promises_what_the_filter_allows_and_prices_what_was_released_beside_it(tmp_path: Path) -> None:
    asked = operator(tmp_path, "fed_ldp mechanism.noise_multiplier=4.0 budget.epsilon=none", policy=limited)
    node = asked.village.nodes[ASKED]
    assert not asked.ask("contribute").refused
    told = state(node)
    promise = told.promises[0]
    assert promise["epsilon"] == pytest.approx(12.0) and promise["accountant"] == "gaussian-filter"
    assert 0 < promise["price"] < 3
    assert "fixed beforehand" in told.text() and "ε = 12" in told.text()
    # its owner lowers ε below what was spent: the promise that was made is told, not one that nobody kept
    node.policy_file.write_text(stricter(node.policy, 0.1).to_toml())
    node.__dict__.pop("policy")
    assert state(node).promises[0]["epsilon"] == pytest.approx(12.0)
    assert "budget.epsilon of 0.1" in next_run(asked, "more", 4.0)


def stricter(policy: Policy, epsilon: float) -> Policy:
    return policy.model_copy(update={"budget": BudgetPolicy(epsilon=epsilon)})


def test_gaussian_noise_loses_nothing_to_the_filter(tmp_path: Path) -> None:
    """Under a fixed plan as many rounds are admitted as the exact price allows."""
    asked = operator(tmp_path, "fed_ldp mechanism.noise_multiplier=1.0 budget.epsilon=none", policy=limited)
    runs = 0
    while not next_run(asked, f"run {runs}", 1.0):
        runs += 1
    assert runs == int(GaussianFilter(12.0, 1e-5).capacity)


def test_a_run_of_another_unit_does_not_break_an_older_promise(tmp_path: Path) -> None:
    asked = operator(tmp_path, "dp_fedavg", policy=generous)
    assert not asked.ask("contribute").refused
    record = another(asked, "records", mechanism={"name": "dp_sgd", "trust": "central"})
    refused = record.ask("contribute").refused
    assert "promised something to a client" in refused and "same unit" in refused
    assert spent(asked) == 1
    kept = [one for one in state(asked.village.nodes[ASKED]).promises if one["unit"] == "client"]
    assert any(one["epsilon"] is not None for one in kept)
    assert not another(asked, "clients").ask("contribute").refused


def test_the_kept_filter_is_read_back(tmp_path: Path) -> None:
    asked = operator(tmp_path, "fed_ldp mechanism.noise_multiplier=4.0 budget.epsilon=none", policy=limited)
    assert not asked.ask("contribute").refused
    kept = asked.village.nodes[ASKED].filters
    assert kept.read()[Guarantee("client", "server", "zero_out")] == GaussianFilter(12.0, 1e-5)
    told = json.loads(kept.path.read_text())
    kept.path.write_text(json.dumps([told[0] | {"filter": "wishful"}]))
    assert "filters.json cannot be read" in next_run(asked, "more", 4.0)
