"""Wasserstein distances of label distributions, against an optimal transport plan solved as a linear programme."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import wasserstein_distance

from sordino.opening.wasserstein import distances, scores


def transport(p: np.ndarray, q: np.ndarray, cost: np.ndarray) -> float:
    """The cheapest plan that turns p into q: the definition of the distance, with nothing simplified."""
    n = len(p)
    rows = np.kron(np.eye(n), np.ones(n))
    columns = np.kron(np.ones(n), np.eye(n))
    plan = linprog(cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([p, q]))
    return float(plan.fun)


def costs(metric: str, classes: int) -> np.ndarray:
    gap = np.abs(np.subtract.outer(np.arange(classes), np.arange(classes)))
    return gap if metric == "ordinal" else (gap > 0).astype(float)


@pytest.mark.parametrize("metric", ["discrete", "ordinal"])
@pytest.mark.parametrize("classes", [2, 5, 10])
def test_distances_are_the_cheapest_transport(metric, classes):
    p, q = np.random.default_rng(classes).dirichlet(np.full(classes, 0.5), 2)
    assert distances(p[None], q, metric)[0] == pytest.approx(transport(p, q, costs(metric, classes)), abs=1e-9)


def test_the_ordinal_distance_is_scipys():
    shares = np.random.default_rng(0).dirichlet(np.ones(7), 20)
    reference, labels = shares.mean(0), np.arange(7)
    expected = [wasserstein_distance(labels, labels, row, reference) for row in shares]
    np.testing.assert_allclose(distances(shares, reference, "ordinal"), expected, atol=1e-12)


def test_nominal_labels_are_all_equally_far_and_ordered_ones_are_not():
    first = np.eye(4)[0]
    np.testing.assert_allclose(distances(np.eye(4), first, "discrete"), [0, 1, 1, 1])
    np.testing.assert_allclose(distances(np.eye(4), first, "ordinal"), [0, 1, 2, 3])


@given(st.lists(st.floats(0, 10), min_size=1, max_size=20))
def test_scores_fall_with_distance_and_lie_in_the_unit_interval(values):
    distance = np.array(values)
    merit = scores(distance)
    assert ((merit > 0) & (merit <= 1)).all()
    order = np.argsort(distance)
    assert (np.diff(merit[order]) <= 0).all()


def test_an_average_client_scores_one_over_e_whatever_the_scale():
    distance = np.array([0.1, 0.2, 0.3])
    average = np.sqrt(np.mean(distance**2))
    np.testing.assert_allclose(scores(np.append(distance, average)), scores(10 * np.append(distance, average)))
    assert scores(np.append(distance, average))[-1] == pytest.approx(np.exp(-1))


def test_when_nobody_differs_everybody_scores_one():
    assert (scores(np.zeros(3)) == 1).all()
