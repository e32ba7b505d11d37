"""Sets of clients: what is packed comes back, in few bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.account.ledger.cohort import Cohort
from sordino.errors import LedgerError

members = st.integers(1, 3000).flatmap(
    lambda population: st.tuples(st.just(population), st.sets(st.integers(0, population - 1), max_size=population))
)


@given(members)
@settings(deadline=None)
def test_round_trip(case):
    population, clients = case
    cohort = Cohort.of(np.array(sorted(clients, reverse=True), np.int64), population)
    again = Cohort.unpack(cohort.pack(), population)
    assert again.ids().tolist() == sorted(clients)
    assert len(again) == len(cohort) == len(clients)
    every = np.arange(population)
    assert (
        again.contains(every).tolist() == cohort.contains(every).tolist() == [c in clients for c in range(population)]
    )
    assert again.mask().tolist() == again.contains(every).tolist()
    assert again.pack() == cohort.pack()


def test_a_thousand_of_a_million_take_two_kilobytes():
    rng = np.random.default_rng(0)
    assert len(Cohort.of(rng.choice(1_000_000, 1000, replace=False), 1_000_000).pack()) < 2500
    assert len(Cohort.of(np.arange(1_000_000), 1_000_000).pack()) < 1000


@pytest.mark.parametrize("clients", [[3, 3], [-1], [10]])
def test_bad_ids_are_named(clients):
    with pytest.raises(LedgerError):
        Cohort.of(np.array(clients), 10)


@pytest.mark.parametrize("population", [40, 100, 1000])
@pytest.mark.parametrize("share", [0.01, 0.9])
def test_who_came_later_is_no_member_of_an_earlier_cohort(population, share):
    members = np.flatnonzero(np.random.default_rng(0).random(population) < share)
    cohort = Cohort.unpack(Cohort.of(members, population).pack(), population)
    asked = np.arange(2 * population)
    assert np.flatnonzero(cohort.contains(asked)).tolist() == members.tolist()
    assert cohort.rest(population + 3).tolist() == [*members, population, population + 1, population + 2]
    assert cohort.rest(population).tolist() == members.tolist()
