"""Graphs: holders that each client draws for itself; and parameters whose failures are as rare as promised."""

import os
from fractions import Fraction
from itertools import combinations
from math import comb, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.aggregate.secure.graph import SPARSE_FROM, Topology, choose, cut_off, draw_holders, sparse_is_safe
from sordino.errors import RecipeError


@given(st.binary(min_size=32, max_size=32), st.integers(2, 60), st.integers(1, 20), st.data())
def test_holders_are_distinct_and_as_many_as_asked_for(key, size, degree, data):
    place = data.draw(st.integers(0, size - 1))
    holders = draw_holders(key, size, place, degree)
    assert place in holders
    assert len(holders) == min(degree + 1, size) == len(set(holders.tolist()))
    assert (np.diff(holders) > 0).all() and holders[0] >= 0 and holders[-1] < size


def test_the_key_decides_and_nothing_else_does():
    assert (draw_holders(b"a", 50, 7, 10) == draw_holders(b"a", 50, 7, 10)).all()
    assert (draw_holders(b"a", 50, 7, 10) != draw_holders(b"b", 50, 7, 10)).any()


def test_holders_are_spread_evenly():
    counts, pairs = np.zeros(20), 0
    for _ in range(3000):
        drawn = draw_holders(os.urandom(32), 20, 0, 4)
        counts[drawn] += 1
        pairs += {1, 2} <= set(drawn.tolist())
    assert counts[0] == 3000
    expected = 3000 * 4 / 19
    assert ((counts[1:] - expected) ** 2 / expected).sum() < 18 + 5 * np.sqrt(2 * 18)
    chance = 4 * 3 / (19 * 18)
    assert abs(pairs - 3000 * chance) < 5 * np.sqrt(3000 * chance)


def test_cohorts_of_a_few_hundred_get_the_complete_graph():
    assert choose(5, dropout=0.2, corrupt=0.2) == Topology(4, 4, corrupt=1)
    assert choose(100, dropout=0.3, corrupt=0.3) == Topology(66, 70, corrupt=30)
    assert choose(SPARSE_FROM - 1, dropout=0.1, corrupt=0.0).degree == 0 < choose(1000, dropout=0.1, corrupt=0.0).degree


@pytest.mark.parametrize(
    ("clients", "corrupt", "expected"),
    [
        (1000, 0.0, Topology(19, 900, 36, 11, 0)),
        (1000, 0.05, Topology(53, 900, 79, 6, 50)),
        (10_000, 0.1, Topology(89, 9000, 127, 51, 1000)),
    ],
)
def test_large_cohorts_get_few_holders(clients, corrupt, expected):
    # computed once by this code; the bounds behind them are tested by simulation below
    assert choose(clients, dropout=0.1, corrupt=corrupt) == expected


def tail(least, drawn, others, corrupt):
    """The chance to draw so many corrupt holders or more, counted with whole numbers."""
    ways = sum(comb(corrupt, j) * comb(others - corrupt, drawn - j) for j in range(least, min(drawn, corrupt) + 1))
    return Fraction(ways, comb(others, drawn))


@pytest.mark.parametrize("dropout", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("corrupt", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("clients", [5, 50, 200, 399, 400, 1000, 3000])
def test_the_parameters_meet_the_theorem_against_a_lying_server(clients, corrupt, dropout):
    """Bell et al. (2020), malicious setting, with failures of 2^-40 in all, counted here once more and exactly."""
    chosen, bad, gone = (
        choose(clients, dropout=dropout, corrupt=corrupt),
        int(clients * corrupt),
        int(clients * dropout),
    )
    assert chosen.corrupt == bad and chosen.smallest_cohort == clients - gone
    assert 2 * chosen.consents > clients + bad  # one story
    if not chosen.degree:
        assert clients < SPARSE_FROM and 2 * chosen.threshold > clients + bad  # one secret, with certainty
        assert chosen.threshold <= clients - gone and chosen.margin == 0
        return
    k, t, margin, others = chosen.degree, chosen.threshold, chosen.margin, chosen.consents - 1
    exposed = clients * tail(2 * t - k - 1, k, others, bad)
    assert 2 * t > k + 1 and exposed <= Fraction(1, 2**40)
    cut = 0.0
    for a in range(k + 2 - t, clients - margin):  # every size of the group that would be opened by itself
        b = max(margin + 1, chosen.consents - bad - a)
        if a + b <= clients and clients - 1 - b >= k:
            avoid = log2(comb(clients - 1 - b, k)) - log2(comb(clients - 1, k))
            cut += 2.0 ** (log2(comb(clients, a)) + log2(comb(clients - a, b)) + a * avoid)
    assert float(exposed) + cut <= 2.0**-40 * (1 + 1e-6)
    # and every client's secrets can be recovered after the tolerated dropouts, but for 2^-20
    stays = sum(comb(clients - 1 - gone, j) * comb(gone, k - j) for j in range(max(0, k - gone), t))
    assert clients * Fraction(stays, comb(clients - 1, k)) <= Fraction(1, 2**20)


def test_the_bound_holds_for_every_number_of_corrupt_clients_up_to_the_promised_one():
    chosen = choose(1000, dropout=0.1, corrupt=0.05)
    bounds = [
        cut_off(1000, c, chosen.degree, chosen.threshold, chosen.consents, chosen.margin) for c in range(0, 51, 10)
    ]
    assert max(bounds) == bounds[-1] <= -40


def test_failures_are_as_rare_as_promised():
    # at 4 bits failures are common enough to be counted; the bounds must hold and not be absurdly wide
    clients, gone, corrupt, bits = 80, 16, 8, 4
    chosen = choose(clients, dropout=0.2, corrupt=0.1, security_bits=bits, correctness_bits=bits, sparse_from=64)
    assert 0 < chosen.degree < 50
    rng, exposed, stuck, trials = np.random.default_rng(0), 0, 0, 600
    for _ in range(trials):
        bad, lost = np.zeros(clients, bool), np.zeros(clients, bool)
        who = rng.permutation(clients)
        bad[who[:corrupt]], lost[who[-gone:]] = True, True
        drawn = [np.setdiff1d(draw_holders(rng.bytes(32), clients, i, chosen.degree), i) for i in range(clients)]
        exposed += any(bad[d].sum() >= 2 * chosen.threshold - chosen.degree - 1 for d in drawn)
        stuck += any((~lost[d]).sum() < chosen.threshold for d in drawn)
    rare = trials * 2.0**-bits
    assert exposed <= rare + 5 * np.sqrt(rare)
    assert stuck <= rare + 5 * np.sqrt(rare)


def test_the_chance_to_cut_somebody_off_is_a_bound():
    # exhaustively: who can be left out of a sum of which all others are opened, among few clients?
    clients, degree, threshold, consents, trials, found = 7, 2, 2, 6, 3000, 0
    rng = np.random.default_rng(1)
    for _ in range(trials):
        drawn = [set(draw_holders(rng.bytes(32), clients, i, degree).tolist()) - {i} for i in range(clients)]
        found += _cut(drawn, clients, consents, margin=1, least=degree + 2 - threshold)
    bound = 2 ** cut_off(clients, 0, degree, threshold, consents, 1)
    assert 0 < found / trials <= bound + 5 * np.sqrt(bound / trials)


def _cut(drawn, clients, consents, margin, least):
    everybody = set(range(clients))
    for size in range(least, clients):
        for one in combinations(range(clients), size):
            reached = set().union(*(drawn[i] for i in one)) | set(one)
            left = everybody - reached
            if len(left) >= max(margin + 1, consents - size):
                return True
    return False


def test_fewer_holders_would_break_the_promise():
    sparse = choose(1000, dropout=0.1, corrupt=0.05)
    assert choose(1000, dropout=0.1, corrupt=0.05, security_bits=30).degree < sparse.degree
    assert choose(1000, dropout=0.2, corrupt=0.05).degree > sparse.degree
    assert choose(1000, dropout=0.1, corrupt=0.1).degree > sparse.degree
    safe = (1000, 50, sparse.degree, sparse.threshold, 900, sparse.margin, 40)
    assert sparse_is_safe(*safe)
    for place, worse in ((1, 60), (2, sparse.degree + 8), (3, sparse.threshold - 1), (5, sparse.margin - 1), (6, 60)):
        assert not sparse_is_safe(*safe[:place], worse, *safe[place + 1 :])


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
    for share in (float("nan"), -0.1, float("inf")):
        with pytest.raises(RecipeError, match="share"):
            choose(10, dropout=share, corrupt=0.0)
