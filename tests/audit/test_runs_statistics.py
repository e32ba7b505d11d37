"""Statistics of whole runs: one-run bounds, one-shot canaries, ROC curves and likelihood ratios."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from sordino.account.accountants import exact as gaussian
from sordino.audit import one_run, one_shot
from sordino.audit.lira import lira, logits
from sordino.audit.membership import Trained, learned
from sordino.audit.roc import roc


def test_pure_privacy_is_the_binomial_tail() -> None:
    guesses = one_run.Guesses(1000, 200, 150)
    assert one_run.risk(guesses, 1.0, 0.0) == pytest.approx(stats.binom(200, math.e / (1 + math.e)).sf(149))
    found = one_run.epsilon_at_least(guesses, 0.0)
    assert stats.binom(200, 1 / (1 + math.exp(-found))).sf(149) == pytest.approx(0.05)


def test_delta_only_weakens_the_bound() -> None:
    guesses = one_run.Guesses(1000, 200, 170)
    bounds = [one_run.epsilon_at_least(guesses, delta) for delta in (0.0, 1e-5, 1e-3)]
    assert bounds[0] > bounds[1] > bounds[2]


def test_the_published_figure_for_perfect_guesses() -> None:
    """With δ = 0 and all of r guesses right, ε = ln(p/(1−p)) with p = 0.05^(1/r) (Steinke et al., section 5)."""
    p = 0.05 ** (1 / 100)
    assert one_run.epsilon_at_least(one_run.Guesses(100, 100, 100), 0.0) == pytest.approx(math.log(p / (1 - p)))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_randomised_response_is_covered_and_nearly_found(epsilon: float) -> None:
    """The worst pure mechanism: every coin comes back, flipped with probability 1/(1+e^ε)."""
    rng, found = np.random.default_rng(1), []
    for _ in range(60):
        member = rng.random(800) < 0.5
        honest = rng.random(800) < 1 / (1 + math.exp(-epsilon))
        scores = np.where(honest, member, ~member) + 0.01 * rng.random(800)
        found.append(one_run.best_bound(scores, member, 0.0)[0])
    assert np.mean(np.array(found) > epsilon) <= 0.08
    assert np.median(found) > 0.6 * epsilon


def test_two_gaussians_agree_with_the_closed_form() -> None:
    assert one_shot.two_gaussians(2.0, 1.0, 1.0, 1e-5) == pytest.approx(gaussian.epsilon_of(2.0, 1e-5), rel=1e-3)
    assert one_shot.two_gaussians(0.1, 0.05, 0.05, 1e-5) == pytest.approx(gaussian.epsilon_of(2.0, 1e-5), rel=1e-3)


def test_absent_canaries_follow_their_exact_law() -> None:
    rng, dimension = np.random.default_rng(2), 40
    directions = rng.standard_normal((50_000, dimension))
    cosines = directions[:, 0] / np.linalg.norm(directions, axis=1)
    for level in (0.3, 0.01):
        cut = one_shot.null_quantile(np.array([level]), dimension)[0]
        assert np.mean(cosines > cut) == pytest.approx(level, rel=0.1)


def test_one_shot_finds_what_is_there_and_nothing_where_nothing_is() -> None:
    rng, dimension = np.random.default_rng(3), 1000
    null = 1 / math.sqrt(dimension)
    nothing = one_shot.measure(rng.normal(0, null, 400), dimension, 1e-5)
    assert nothing.bound_if_independent < 0.5
    mu = gaussian.separation_for(3.0, 1e-5)
    found = one_shot.measure(rng.normal(mu * null, null, 2000), dimension, 1e-5)
    assert found.estimate == pytest.approx(3.0, rel=0.15)
    assert 1.0 < found.bound_if_independent < 3.0


def test_roc_agrees_with_an_independent_one() -> None:
    rng = np.random.default_rng(4)
    member = rng.random(500) < 0.4
    scores = np.round(rng.normal(member * 1.0, 1), 1)  # with ties
    mine, (fpr, tpr, _) = roc(scores, member), roc_curve(member, scores, drop_intermediate=False)
    assert np.allclose(mine.fpr, fpr)
    assert np.allclose(mine.tpr, tpr)
    assert mine.area == pytest.approx(roc_auc_score(member, scores))
    assert mine.tpr_at(0.0) == tpr[fpr == 0].max()
    assert mine.success == pytest.approx(((1 + tpr - fpr) / 2).max())


def test_lira_beats_a_global_threshold_on_records_of_different_difficulty() -> None:
    rng, shadows, records = np.random.default_rng(5), 25, 4000
    hard = rng.normal(0, 3, records)
    member = rng.random((shadows + 1, records)) < 0.5
    scores = hard + 1.0 * member + rng.normal(0, 0.5, member.shape)
    found = roc(lira(scores[:-1], member[:-1], scores[-1]), member[-1])
    plain = roc(scores[-1], member[-1])
    assert found.tpr_at(0.001) > 10 * plain.tpr_at(0.001)
    assert found.area > 0.85 > plain.area
    # the best possible: two normals of distance 1.0/0.5, each mean known to about 12 draws
    assert found.area < stats.norm.cdf(2.0 / math.sqrt(2)) + 0.01


def test_logits_undo_the_logistic_function() -> None:
    assert logits(np.array([0.5, 1 / (1 + math.exp(-3))])) == pytest.approx([0, 3])
    assert np.isfinite(logits(np.array([0.0, 1.0]))).all()


@pytest.mark.parametrize(("surer", "least", "most"), [(8.0, 0.95, 1.0), (0.0, 0.45, 0.55)])
def test_the_learned_attack_finds_members_where_they_show(surer: float, least: float, most: float) -> None:
    """Models that are surer of a record's class by a factor e^surer if they were trained on it."""
    rng = np.random.default_rng(6)
    label, member = rng.integers(0, 3, 1000), rng.random((7, 1000)) < 0.5
    scores = rng.normal(size=(7, 1000, 3))
    scores[:, np.arange(1000), label] += 1 + surer * member
    seen = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    models = Trained(member, seen, label)
    rates = learned(models.part(slice(4)), models.part(slice(4, None)))
    assert len(rates) == 3
    assert least <= rates.mean() <= most
