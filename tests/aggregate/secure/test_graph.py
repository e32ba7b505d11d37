"""Graphs: symmetric, regular, derived alike by all; and parameters whose failures are as rare as promised."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from sordino.aggregate.secure.graph import Graph, Topology, choose
from sordino.errors import RecipeError


@given(st.binary(min_size=1, max_size=8), st.integers(2, 60), st.integers(1, 20))
def test_neighbourhoods_are_symmetric_and_regular(seed, size, half):
    graph = Graph(seed, size, 2 * half)
    near = [set(graph.neighbours(i).tolist()) for i in range(size)]
    assert all(i in near[j] for i in range(size) for j in near[i])
    assert {len(n) for n in near} == {min(2 * half, size - 1)}
    assert all(graph.holders(i).tolist() == sorted(near[i] | {i}) for i in range(size))


def test_the_seed_decides_the_graph():
    same, other = Graph(b"a", 50, 10), Graph(b"b", 50, 10)
    assert (same.neighbours(7) == Graph(b"a", 50, 10).neighbours(7)).all()
    assert any((same.neighbours(i) != other.neighbours(i)).any() for i in range(50))


def test_neighbours_are_spread_evenly():
    # over many shuffles every other client is a neighbour equally often
    counts = np.zeros(20)
    for seed in range(3000):
        counts[Graph(seed.to_bytes(2, "big"), 20, 4).neighbours(0)] += 1
    expected = 3000 * 4 / 19
    assert counts[0] == 0
    assert ((counts[1:] - expected) ** 2 / expected).sum() < 18 + 5 * np.sqrt(2 * 18)


def test_a_small_or_endangered_cohort_gets_the_complete_graph():
    assert choose(5, dropout=0.2, corrupt=0.2) == Topology(4, 4)
    assert choose(100, dropout=0.3, corrupt=0.3) == Topology(66, 70)
    assert choose(100, dropout=0.3, corrupt=0.3, lying_server=False) == Topology(31, 70)


@pytest.mark.parametrize(
    ("clients", "dropout", "corrupt", "lying", "expected"),
    [
        (1000, 0.1, 0.05, True, Topology(54, 900, 80)),
        (1000, 0.1, 0.1, False, Topology(28, 900, 48)),
        (10_000, 0.1, 0.1, True, Topology(90, 9000, 128)),
    ],
)
def test_large_cohorts_get_few_neighbours(clients, dropout, corrupt, lying, expected):
    # computed once by this code; the bounds behind them are tested by simulation below
    assert choose(clients, dropout=dropout, corrupt=corrupt, lying_server=lying) == expected


@pytest.mark.parametrize("lying", [True, False])
def test_failures_are_as_rare_as_promised(lying):
    # at 5 bits failures are common enough to be counted; the bounds must hold and not be absurdly wide
    clients, gone, corrupt = 80, 16, 16
    chosen = choose(clients, dropout=0.2, corrupt=0.2, security_bits=5, correctness_bits=5, lying_server=lying)
    assert 0 < chosen.degree < 70
    rng, exposed, apart, stuck, trials = np.random.default_rng(0), 0, 0, 0, 400
    for trial in range(trials):
        graph = Graph(trial.to_bytes(4, "big"), clients, chosen.degree)
        who = rng.permutation(clients)
        bad, lost = np.isin(np.arange(clients), who[:corrupt]), np.isin(np.arange(clients), who[-gone:])
        near = [graph.neighbours(i) for i in range(clients)]
        limit = 2 * chosen.threshold - (chosen.degree + 1) if lying else chosen.threshold
        exposed += any(bad[n].sum() >= limit for n in near)
        stuck += any((~lost[n]).sum() < chosen.threshold for n in near)
        stay = np.flatnonzero(~bad & ~lost)
        links = np.zeros((clients, clients), bool)
        for i in stay:
            links[i, near[i]] = True
        apart += connected_components(links[np.ix_(stay, stay)])[0] > 1
    assert exposed + apart <= trials * 2**-5 + 5 * np.sqrt(trials * 2**-5)
    assert stuck <= trials * 2**-5 + 5 * np.sqrt(trials * 2**-5)


def test_fewer_neighbours_would_break_the_promise():
    sparse = choose(1000, dropout=0.1, corrupt=0.05)
    assert choose(1000, dropout=0.1, corrupt=0.05, security_bits=30).degree < sparse.degree
    assert choose(1000, dropout=0.2, corrupt=0.05).degree > sparse.degree
    assert choose(1000, dropout=0.1, corrupt=0.1).degree > sparse.degree
    assert choose(1000, dropout=0.1, corrupt=0.05, lying_server=False).degree < sparse.degree


@pytest.mark.parametrize(("clients", "corrupt"), [(5, 0), (7, 1), (9, 2)])
def test_two_groups_of_holders_always_share_an_honest_one(clients, corrupt):
    threshold = choose(clients, dropout=0.0, corrupt=corrupt / clients).threshold
    for first in combinations(range(clients), threshold):
        for second in combinations(range(clients), threshold):
            assert len(set(first) & set(second)) > corrupt


@pytest.mark.parametrize("percent", [0, 7, 10, 29, 30])
@pytest.mark.parametrize("clients", [10, 100, 1000])
def test_the_smallest_cohort_is_what_the_dropouts_leave(clients, percent):
    # 0.29 · 100 is a little less than 29 in floats
    assert choose(clients, dropout=percent / 100, corrupt=0.0).smallest_cohort == clients - clients * percent // 100


def test_the_impossible_is_refused():
    with pytest.raises(RecipeError, match="ask more clients"):
        choose(10, dropout=0.5, corrupt=0.3)
