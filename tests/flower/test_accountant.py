"""Flower's accountant protocol on a ledger: tight, durable, for each client, and it halts."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.serverapp import (
    GaussianPrivacyEvent,
    NeighboringRelation,
    PrivacyAccountant,
    PrivacyConfig,
    RdpAccountant,
    SamplingMethod,
)
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

from flower.in_process import TinyGrid, app_of, grow, record
from sordino.account.accountants.accountant import epsilon, price
from sordino.errors import AccountingError, BudgetExceeded, LedgerError
from sordino.events import (
    Charge,
    GaussianDpEvent,
    Guarantee,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)
from sordino.flower import LedgerAccountant, PrivacyBudgetSpent

KINDS = {
    "plain": (SamplingMethod.NO_AMPLIFICATION, NeighboringRelation.ADD_OR_REMOVE_ONE),
    "poisson": (SamplingMethod.POISSON, NeighboringRelation.ADD_OR_REMOVE_ONE),
    "without": (SamplingMethod.WITHOUT_REPLACEMENT, NeighboringRelation.REPLACE_ONE),
}


def config_of(kind: str = "plain", population: int = 100, max_epsilon: float | None = None) -> PrivacyConfig:
    method, relation = KINDS[kind]
    return PrivacyConfig(1e-5, population, relation, method, max_epsilon)


def event_of(noise_multiplier: float = 2.0, sample: int = 10, population: int = 100) -> GaussianPrivacyEvent:
    return GaussianPrivacyEvent(noise_multiplier, sample, population)


def test_it_is_flowers_protocol(tmp_path: Path) -> None:
    accountant: PrivacyAccountant = LedgerAccountant(config_of(), tmp_path / "ledger.db")
    members = [name for name in vars(PrivacyAccountant) if not name.startswith("_")]
    assert len(members) == 9 and all(hasattr(accountant, name) for name in members)


def test_nothing_released_costs_nothing(tmp_path: Path) -> None:
    accountant = LedgerAccountant(config_of(), tmp_path / "ledger.db")
    assert accountant.num_releases == 0 and accountant.get_epsilon(1e-5) == 0 and accountant.get_delta(1.0) == 0
    assert accountant.get_privacy_spent().epsilon == 0


@pytest.mark.parametrize(
    ("kind", "event", "adjacency"),
    [
        ("plain", GaussianDpEvent(2.0), "add_remove"),
        ("poisson", PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), "add_remove"),
        ("without", SampledWithoutReplacementDpEvent(100, 10, GaussianDpEvent(1.0)), "replace"),
    ],
)
def test_its_price_is_ours(kind: str, event: Any, adjacency: Any, tmp_path: Path) -> None:
    accountant = LedgerAccountant(config_of(kind), tmp_path / "ledger.db")
    accountant.compose(event_of())
    accountant.compose(event_of(), count=3)
    assert accountant.num_releases == 4
    assert accountant.get_epsilon(1e-5) == pytest.approx(epsilon({event: 4}, 1e-5, adjacency=adjacency))
    spent = accountant.get_privacy_spent()
    assert (spent.delta, spent.num_releases, spent.epsilon) == (1e-5, 4, accountant.get_epsilon(1e-5))
    assert accountant.get_delta(spent.epsilon) == pytest.approx(1e-5, rel=1e-3)


@pytest.mark.parametrize("kind", ["plain", "poisson"])
def test_it_is_tighter_than_renyi_and_never_free(kind: str, tmp_path: Path) -> None:
    ours, theirs = LedgerAccountant(config_of(kind), tmp_path / "ledger.db"), RdpAccountant(config_of(kind))
    for accountant in (ours, theirs):
        accountant.compose(event_of(1.0), count=20)
    assert 0.5 * theirs.get_epsilon(1e-5) < ours.get_epsilon(1e-5) < 0.97 * theirs.get_epsilon(1e-5)


def test_it_halts_before_the_budget_and_writes_nothing(tmp_path: Path) -> None:
    accountant = LedgerAccountant(config_of(max_epsilon=3.0), tmp_path / "ledger.db")
    accountant.compose(event_of(), count=2)
    head = accountant.ledger.head
    assert accountant.would_exceed(event_of()) and not accountant.would_exceed(event_of(), max_epsilon=10.0)
    with pytest.raises(PrivacyBudgetSpent, match="would exceed max_epsilon = 3") as caught:
        accountant.compose(event_of())
    assert isinstance(caught.value, PrivacyBudgetExhausted) and isinstance(caught.value, BudgetExceeded)
    assert accountant.ledger.head == head and accountant.num_releases == 2


def test_what_was_spent_outlives_the_process_and_others_see_it(tmp_path: Path) -> None:
    first = LedgerAccountant(config_of(), tmp_path / "ledger.db")
    second = LedgerAccountant(config_of(), tmp_path / "ledger.db")
    first.compose(event_of(), count=5)
    assert second.num_releases == 5 and second.get_epsilon(1e-5) == first.get_epsilon(1e-5)
    first.close(), second.close()
    assert LedgerAccountant(config_of(), tmp_path / "ledger.db").num_releases == 5


def test_each_client_pays_for_its_own_participations(tmp_path: Path) -> None:
    names = ["anna", "ben", "cleo"]
    config = config_of(population=3, max_epsilon=3.0)
    accountant = LedgerAccountant(config, tmp_path / "ledger.db", clients=names)
    event = event_of(2.0, 2, 3)
    accountant.compose(event, clients=["anna", "ben"])
    accountant.compose(event, clients=["anna", "cleo"])
    one, two = (epsilon({GaussianDpEvent(2.0): count}, 1e-5) for count in (1, 2))
    assert [accountant.get_epsilon(1e-5, name) for name in names] == pytest.approx([two, one, one])
    assert accountant.get_epsilon(1e-5) == pytest.approx(two)
    assert accountant.would_exceed(event, clients=["anna"]) and not accountant.would_exceed(event, clients=["ben"])
    with pytest.raises(PrivacyBudgetSpent):
        accountant.compose(event, clients=["anna", "ben"])
    accountant.compose(event, clients=["ben", "cleo"])
    accountant.close()
    again = LedgerAccountant(config, tmp_path / "ledger.db", clients=["cleo", "anna", "ben"])  # in another order
    assert [again.get_epsilon(1e-5, name) for name in names] == pytest.approx([two, two, two])
    with pytest.raises(AccountingError, match="dora"):
        again.get_epsilon(1e-5, "dora")


def test_another_relation_does_not_begin_the_budget_anew(tmp_path: Path) -> None:
    """What was charged under one relation was no charge under another: ε was 0 again, and stayed as it was in the first
    one's eyes, whatever the second released."""
    path, event = tmp_path / "ledger.db", event_of(8.0, 10, 20)
    first = LedgerAccountant(config_of("without", 20, 3.0), path)
    first.compose(event, count=29)
    assert 2.9 < first.get_epsilon(1e-5) < 3.0
    other = LedgerAccountant(config_of("poisson", 20, 3.0), path)
    assert other.get_epsilon(1e-5) == other.get_epsilon(1e-5, 3) == math.inf and other.get_delta(3.0) == 1
    assert other.would_exceed(event) and other.get_privacy_spent().epsilon == math.inf
    with pytest.raises(PrivacyBudgetSpent, match="go on under the first relation"):
        other.compose(event)
    unbound = LedgerAccountant(config_of("poisson", 20), path)
    unbound.compose(event)
    assert first.get_epsilon(1e-5) == math.inf and first.would_exceed(event)


def test_who_took_part_is_not_told_where_sampling_hides_it(tmp_path: Path) -> None:
    accountant = LedgerAccountant(config_of("poisson"), tmp_path / "ledger.db")
    with pytest.raises(AccountingError, match="everybody pays"):
        accountant.compose(event_of(), clients=[1, 2])
    with pytest.raises(AccountingError, match="everybody pays"):
        accountant.compose(event_of(), clients=[1])


def test_state_is_the_ledgers_head_and_a_rolled_back_ledger_is_refused(tmp_path: Path) -> None:
    books, copy = tmp_path / "books", tmp_path / "copy"
    books.mkdir()
    accountant = LedgerAccountant(config_of(), books / "ledger.db")
    accountant.compose(event_of())
    shutil.copytree(books, copy)
    accountant.compose(event_of())
    state = json.loads(json.dumps(accountant.state_dict()))
    accountant.load_state_dict(state)
    restored = LedgerAccountant(config_of(), copy / "ledger.db")
    with pytest.raises(LedgerError, match="rolled back"):
        restored.load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [({"backend": "rdp"}, "not one of LedgerAccountant"), ({"config": {}}, "another PrivacyConfig")],
)
def test_states_of_others_are_refused(change: dict[str, object], sentence: str, tmp_path: Path) -> None:
    accountant = LedgerAccountant(config_of(), tmp_path / "ledger.db")
    with pytest.raises(AccountingError, match=sentence):
        accountant.load_state_dict(accountant.state_dict() | change)


def test_wrong_events_are_refused(tmp_path: Path) -> None:
    accountant = LedgerAccountant(config_of(), tmp_path / "ledger.db")
    with pytest.raises(AccountingError, match="population_size"):
        accountant.compose(event_of(population=99))
    for count in (0, True, 1.5):
        with pytest.raises(AccountingError, match="count"):
            accountant.compose(event_of(), count=count)  # type: ignore[arg-type]
    with pytest.raises(AccountingError, match="max_epsilon"):
        accountant.would_exceed(event_of())
    with pytest.raises(AccountingError, match="name all of them"):
        LedgerAccountant(config_of(), tmp_path / "other.db", clients=["anna"])


def test_it_serves_flowers_own_strategy(tmp_path: Path) -> None:
    accountant = LedgerAccountant(config_of(population=4, max_epsilon=3.0), tmp_path / "ledger.db")
    strategy = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(min_available_nodes=4), 2.0, 1.0, 4, accountant=accountant
    )
    grid = TinyGrid({node: app_of(grow(0.1)) for node in (11, 12, 13, 14)}, {})
    with pytest.raises(PrivacyBudgetExhausted):
        strategy.start(grid, record({"weight": np.zeros(3, np.float32)}), num_rounds=5)
    assert accountant.num_releases == 2


def test_two_processes_that_ask_at_once_do_not_both_spend_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (LedgerAccountant(config_of(max_epsilon=2.5), tmp_path / "ledger.db") for _ in range(2))
    asked = one.would_exceed

    def overtaken(*args: Any, **more: Any) -> bool:
        told = asked(*args, **more)
        monkeypatch.setattr(one, "would_exceed", asked)
        other.compose(event_of())
        return told

    monkeypatch.setattr(one, "would_exceed", overtaken)
    with pytest.raises(PrivacyBudgetSpent):
        one.compose(event_of())
    assert one.get_epsilon(1e-5) <= 2.5


def test_what_promised_nothing_of_the_kind_is_not_forgotten(tmp_path: Path) -> None:
    """Two accountants of other relations on one ledger: what the first released is no release of nothing."""
    path = tmp_path / "ledger.db"
    first = LedgerAccountant(config_of("without", max_epsilon=3.0), path)
    first.compose(event_of(), count=4)
    assert first.get_epsilon(1e-5) < 3
    second = LedgerAccountant(config_of("plain", max_epsilon=3.0), path)
    assert second.get_epsilon(1e-5) == np.inf and second.get_delta(5.0) == 1
    assert second.get_privacy_spent().epsilon == np.inf
    with pytest.raises(PrivacyBudgetSpent):  # else the same people's budget were spent a second time
        second.compose(event_of())
    free = LedgerAccountant(config_of("plain"), path)
    free.compose(event_of())  # nothing binds it: then the first one's promise is broken, and it says so
    assert first.get_epsilon(1e-5) == np.inf and first.would_exceed(event_of(1.0))


@pytest.mark.parametrize(
    ("early_end", "adaptive", "proved"),
    [(0.0, False, True), (4e-6, False, True), (1.0, False, False), (0.0, True, False)],
)
def test_ends_by_coins_and_noise_that_followed_releases_are_counted(
    early_end: float, adaptive: bool, proved: bool, tmp_path: Path
) -> None:
    """What a later certificate on the same ledger would take out of δ, or would not add up, is not added up here."""
    accountant = LedgerAccountant(config_of("poisson"), tmp_path / "ledger.db")
    accountant.compose(event_of(), count=3)
    alone = accountant.get_epsilon(1e-5)
    event = PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0))
    charge, everyone = Charge(Guarantee("client", "outsider", "add_remove"), event, "eligible"), np.arange(100)
    accountant.ledger.reserve("another run", 1, everyone, [charge], early_end=early_end, adaptive=adaptive)
    found, left = accountant.get_epsilon(1e-5), 1e-5 - early_end
    assert found == (pytest.approx(epsilon({event: 4}, left)) if proved else np.inf) and found > alone
    assert accountant.get_delta(1.0) == (pytest.approx(price({event: 4}).delta(1.0) + early_end) if proved else 1)
