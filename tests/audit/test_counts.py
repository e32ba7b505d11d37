"""The statistics of an audit: bounds hold as often as they say, and are not idle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants.accountant import price
from sordino.audit.counts import (
    Counts,
    at_least,
    at_most,
    epsilon_at_least,
    excess,
    gaussian_epsilon_at_least,
    separation_at_least,
)
from sordino.audit.threshold import choose
from sordino.events import GaussianDpEvent

DELTA = 1e-5


@pytest.mark.parametrize(("hits", "trials"), [(0, 50), (1, 50), (17, 50), (49, 50), (50, 50), (3, 10_000)])
def test_clopper_pearson_inverts_the_binomial(hits: int, trials: int) -> None:
    low, high = at_least(hits, trials, 0.975), at_most(hits, trials, 0.975)
    if hits:
        assert stats.binom(trials, low).sf(hits - 1) == pytest.approx(0.025)
    if hits < trials:
        assert stats.binom(trials, high).cdf(hits) == pytest.approx(0.025)
    assert low <= hits / trials <= high


def test_epsilon_is_the_logarithm_of_the_bounded_ratio() -> None:
    counts = Counts(900, 1000, 10, 1000)
    tpr, fpr = stats.beta.ppf(0.025, 900, 101), stats.beta.ppf(0.975, 11, 990)
    assert epsilon_at_least(counts, DELTA) == pytest.approx(math.log((tpr - DELTA) / fpr))
    assert separation_at_least(counts) == pytest.approx(stats.norm.ppf(tpr) - stats.norm.ppf(fpr))


def test_swapped_counts_read_the_test_the_other_way() -> None:
    counts = Counts(3, 10, 2, 20)
    assert counts.swapped == Counts(18, 20, 7, 10)
    assert counts.swapped.swapped == counts


def test_nothing_is_refuted_by_a_coin() -> None:
    counts = Counts(500, 1000, 500, 1000)
    assert epsilon_at_least(counts, DELTA) == 0
    assert gaussian_epsilon_at_least(counts, DELTA) == 0
    assert epsilon_at_least(Counts(0, 10, 0, 10), DELTA) == 0


def _audit(rng: np.random.Generator, mu: float, pilot: int, trials: int) -> tuple[float, float]:
    """One audit of two known Gaussians: threshold from a pilot, counts on fresh trials."""
    cuts = choose(rng.normal(0, 1, pilot), rng.normal(mu, 1, pilot), DELTA, trials)
    without, with_ = rng.normal(0, 1, trials), rng.normal(mu, 1, trials)
    confidence = 1 - 0.05 / len(cuts.telling)
    bound = max(epsilon_at_least(cut.count(without, with_), DELTA, confidence) for cut in cuts.telling)
    return bound, gaussian_epsilon_at_least(cuts.middle.count(without, with_), DELTA)


@pytest.mark.parametrize("mu", [0.15, 1.0, 3.0])
def test_bounds_cover_the_truth(mu: float) -> None:
    rng, truth = np.random.default_rng(7), gaussian.epsilon_of(mu, DELTA)
    found = np.array([_audit(rng, mu, 4000, 4000) for _ in range(80)])
    # 5 % may exceed the truth; 80 audits of exactly that risk do so more than 9 times with probability < 2 %
    assert (found > truth).sum(axis=0).max() <= 9
    if mu >= 1:
        # a bound that is never near the truth is worth nothing
        assert np.median(found[:, 1]) > 0.85 * truth
        assert np.median(found[:, 0]) > 0.4 * min(truth, math.log(4000))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_ten_million_trials_find_most_of_epsilon(epsilon: float) -> None:
    """The whole audit of a Gaussian, as far as statistics go: expected counts of 10⁷ trials at the best cut."""
    mu, trials = gaussian.separation_for(epsilon, DELTA), 10_000_000
    grid = np.linspace(0, 6, 600)
    counts = [Counts(trials * stats.norm.sf(t - mu), trials, trials * stats.norm.sf(t), trials) for t in grid]
    best = max(epsilon_at_least(c, DELTA, 0.975) for c in counts)
    assert 0.8 * epsilon < best < epsilon


def test_a_certified_curve_is_refuted_by_noise_that_is_a_tenth_too_small() -> None:
    rng, trials = np.random.default_rng(3), 1_000_000
    certified = price(GaussianDpEvent(1.0))
    curve = [(0.1 * k, certified.delta(0.1 * k)) for k in range(40)]

    def exceeds(stddev: float) -> float:
        without, with_ = rng.normal(0, stddev, trials), rng.normal(1, stddev, trials)
        cut = choose(without[:10_000], with_[:10_000], DELTA, trials).middle
        return excess(cut.count(without, with_), curve, 0.999)

    assert exceeds(1.0) <= 0
    assert exceeds(0.9) > 0
    assert exceeds(1.1) <= 0


def test_the_cut_sees_what_gaussian_tails_cannot() -> None:
    """Clamped noise never exceeds 3: whatever lies beyond gives the unit away, and only frequencies show it."""
    rng = np.random.default_rng(5)
    without, with_ = np.clip(rng.normal(0, 1, 200_000), -3, 3), np.clip(rng.normal(0, 1, 200_000), -3, 3) + 0.1
    cuts = choose(without[:100_000], with_[:100_000], DELTA, 100_000)
    found = max(epsilon_at_least(cut.count(without[100_000:], with_[100_000:]), DELTA, 0.975) for cut in cuts.telling)
    assert found > 2 * gaussian.epsilon_of(0.1, DELTA)
