from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sordino.compare.contest import Class, Contender, Trial
from sordino.compare.page import score, verdict
from sordino.compare.standing import Result, against_leader, promise, ranking, standings
from sordino.recipe import Recipe

SCORES = st.lists(st.floats(0, 1).map(lambda x: round(x, 3)), min_size=4, max_size=4)


def found(label: str, seed: int, score: float, certified: float | None = 1.0, epsilon: float = 1.0) -> Result:
    contender = Contender(label, Recipe.load(None, [f"mechanism.name={label}"]))
    return Result(Trial(contender, epsilon, seed, Path(label)), score, 5, 1.0, certified, None, 100)


@given(SCORES, SCORES)
def test_two_contenders_are_told_apart_by_a_paired_t_test(first: list[float], second: list[float]) -> None:
    gaps = np.array(first) - np.array(second)
    p = against_leader([dict(enumerate(first)), dict(enumerate(second))])[1]
    if np.ptp(gaps) < 1e-9:
        assert p == (None if gaps.any() else 1.0)
    else:
        assert p == pytest.approx(stats.ttest_rel(first, second).pvalue)


def test_holm_asks_more_where_more_is_tested() -> None:
    leader = {0: 0.9, 1: 0.91, 2: 0.92, 3: 0.90}
    near, far = {0: 0.89, 1: 0.91, 2: 0.91, 3: 0.90}, {0: 0.5, 1: 0.53, 2: 0.51, 3: 0.5}
    raw = [stats.ttest_rel(list(leader.values()), list(other.values())).pvalue for other in (near, far)]
    assert against_leader([leader, near, far])[1:] == pytest.approx([max(raw[0], 2 * raw[1]), 2 * raw[1]])


def test_two_seeds_prove_nothing() -> None:
    assert against_leader([{0: 0.9}, {0: 0.1}]) == [None, None]
    assert against_leader([{0: 0.9, 1: 0.8}, {0: 0.1, 1: 0.1}]) == [None, None]


def test_pairs_are_made_of_the_same_seed() -> None:
    # Shared luck makes the spread; the difference is the same in every seed, so it is certain.
    lucky = [{0: 0.3, 1: 0.6, 2: 0.9}, {0: 0.28, 1: 0.59, 2: 0.87}]
    unpaired = stats.ttest_ind(list(lucky[0].values()), list(lucky[1].values())).pvalue
    assert against_leader(lucky)[1] < 0.15 < 0.9 < unpaired  # type: ignore[operator]


def test_the_best_mean_leads_and_the_worst_certificate_is_shown() -> None:
    results = [found("fed_ldp", s, 0.5 + 0.01 * s, 1.0 + s) for s in range(3)]
    results += [found("laplace", s, 0.7 - 0.01 * s, None if s else 1.0) for s in range(3)]
    first, second = ranking(results, 1.0)
    assert (first.contender.label, first.rank, first.p_value) == ("laplace", 1, None)
    assert second.mean == pytest.approx(0.51) and second.spread == pytest.approx(0.01)
    assert second.certified == 3.0 and first.certified is None


def test_equal_means_share_a_rank_and_what_diverged_comes_last() -> None:
    results = [found("fed_ldp", 0, float("nan")), found("laplace", 0, 0.5), found("fed_cad", 0, 0.5)]
    results.append(found("geometric", 0, 0.4))
    rows = {row.contender.label: row for row in ranking(results, 1.0)}
    assert list(rows) == ["laplace", "fed_cad", "geometric", "fed_ldp"]
    assert [row.rank for row in rows.values()] == [1, 1, 3, 4]
    assert [score(row) for row in rows.values()] == ["50.00 %", "50.00 %", "40.00 %", "diverged"]
    assert [verdict(row) for row in rows.values()] == ["best mean", "best mean", "no test: too few seeds", "–"]
    json.dumps([row.to_json() for row in rows.values()], allow_nan=False)


def test_a_seed_that_diverged_is_not_tested() -> None:
    assert against_leader([{0: 0.9, 1: 0.8, 2: 0.7}, {0: 0.1, 1: float("nan"), 2: 0.3}]) == [None, None]


def test_other_promises_and_no_privacy_are_kept_apart() -> None:
    panels = standings([found("fed_ldp", 0, 0.5), found("dp_sgd", 0, 0.9), found("fedavg", 0, 0.99)])
    assert [[row.contender.label for row in rows] for rows in panels.values()] == [["fed_ldp"], ["dp_sgd"]]


def test_of_two_promises_to_the_same_observer_the_weakest_counts() -> None:
    entries = [
        {"unit": "client", "observer": "server", "adjacency": adjacency, "epsilon": epsilon}
        for adjacency, epsilon in (("zero_out", 0.3), ("replace", 0.9), ("add_remove", None))
    ]
    kind = Class("client", "distributed")
    assert promise(entries[:2], kind)["adjacency"] == "replace"
    assert promise(entries, kind)["adjacency"] == "add_remove"
    assert promise(entries, Class("record", "distributed")) == {}
