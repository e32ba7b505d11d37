"""Integer noise and the Gaussian that dominates it, against mass functions added up directly."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ive, logsumexp

from sordino.account.accountants import dominate, lattice, pld, rdp, renyi
from sordino.account.accountants import exact as gaussian
from sordino.account.accountants.accountant import price
from sordino.events import DiscreteGaussian, GaussianDpEvent, PoissonSampledDpEvent, Skellam

EPSILONS = np.array([-3.0, -1.0, -0.3, 0.0, 0.2, 0.7, 1.5, 3.0, 6.0])


def skellam_mass(variance: float, width: int) -> np.ndarray:
    return ive(np.abs(np.arange(-width, width + 1)), variance)


def discrete_mass(stddev: float, width: int) -> np.ndarray:
    mass = np.exp(-(np.arange(-width, width + 1.0) ** 2) / (2 * stddev**2))
    return mass / mass.sum()


def shifted(mass: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    wide = np.pad(mass, abs(k))
    return np.roll(wide, k), wide


def hockey(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(0.0, p - math.exp(epsilon) * q).sum())


def gaussian_hockey(mu: float, epsilon: float) -> float:
    if epsilon >= 0:
        return gaussian.delta_of(mu, epsilon)
    return -math.expm1(epsilon) + math.exp(epsilon) * gaussian.delta_of(mu, -epsilon)


@given(st.floats(0.3, 400), st.lists(st.integers(-6, 6), min_size=1, max_size=2))
@settings(max_examples=60, deadline=None)
def test_a_gaussian_dominates_every_shift_of_skellam_noise(variance, shift):
    """One and two coordinates, all shifts, both signs of ε, by adding up the mass functions."""
    if not any(shift):
        return
    width = int(9 * math.sqrt(variance) + 40)
    pairs = [shifted(skellam_mass(variance, width), k) for k in shift]
    p, q = pairs[0] if len(pairs) == 1 else (np.multiply.outer(pairs[0][j], pairs[1][j]).ravel() for j in (0, 1))
    mu = dominate.separation(Skellam(variance, math.hypot(*shift), sum(map(abs, shift))))
    for epsilon in EPSILONS:
        assert hockey(p, q, epsilon) <= gaussian_hockey(mu, epsilon) + 1e-13


@given(st.floats(0.4, 40), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_a_gaussian_dominates_every_shift_of_discrete_gaussian_noise(stddev, shift):
    p, q = shifted(discrete_mass(stddev, int(12 * stddev + 20)), shift)
    mu = dominate.separation(DiscreteGaussian(stddev, shift))
    if mu is None:
        assert shift > 3 * stddev
        return
    for epsilon in EPSILONS:
        assert hockey(p, q, epsilon) <= gaussian_hockey(mu, epsilon) + 1e-13


@pytest.mark.parametrize("variance", [0.7, 9.0, 250.0])
def test_the_step_is_attained_so_no_smaller_gaussian_dominates(variance):
    """A slightly larger variance fails at some threshold: the search did find the largest step."""
    found = lattice.skellam(variance).step
    mass = skellam_mass(variance, int(9 * math.sqrt(variance) + 40))
    p, q = shifted(mass, 1)
    beaten = [hockey(p, q, e) > gaussian_hockey(found * (1 - 2e-3), e) for e in np.linspace(-0.5, 0.5, 401)]
    assert any(beaten)


@pytest.mark.parametrize("variance", [0.5, 30.0, 4000.0])
def test_steps_agree_with_arithmetic_in_fifty_digits(variance):
    with mpmath.workdps(50):
        mass = [mpmath.besseli(j, variance) * mpmath.exp(-variance) for j in range(2)]
        centre = float(2 * mpmath.sqrt(2) * mpmath.erfinv(mass[0]))  # Z(0) − Z(−1), with F(0) = (1 + P(0))/2
    assert lattice.skellam(variance).step == pytest.approx(centre, rel=2e-6)
    assert lattice.skellam(variance).step >= centre


def test_a_third_of_a_unit_is_what_integers_cost():
    assert 1 / lattice.skellam(100.0).step ** 2 == pytest.approx(100 - 1 / 3, abs=2e-3)
    assert 1 / lattice.discrete_gaussian(10.0).step ** 2 == pytest.approx(100 - 1 / 12, abs=2e-3)
    assert 1 / lattice.discrete_gaussian(5000.0).step ** 2 == pytest.approx(5000.0**2 - 18)


def test_a_gaussian_rounded_at_random_is_a_discrete_gaussian():
    """The argument for wide noise: N(0, σ² − τ²), rounded by a discrete Gaussian of variance τ² around it (τ² = 18)."""
    stddev, x = 9.0, np.linspace(-70, 70, 56_001)
    density = np.exp(-(x**2) / (2 * (stddev**2 - 18))) * (x[1] - x[0]) / math.sqrt(2 * math.pi * (stddev**2 - 18))
    places = np.arange(-40, 41)
    kernel = np.exp(-((places[:, None] - x) ** 2) / 36)
    around = np.exp(-((np.arange(-130, 131)[:, None] - x) ** 2) / 36).sum(axis=0)
    np.testing.assert_allclose(kernel / around @ density, discrete_mass(stddev, 200)[160:241], rtol=1e-9)


@pytest.mark.parametrize(("stddev", "summands"), [(6.0, 2), (6.5, 4)])
def test_sums_of_discrete_gaussians_are_discrete_gaussians(stddev, summands):
    mass, total = discrete_mass(stddev, 100), np.ones(1)
    for _ in range(summands):
        total = np.convolve(total, mass)
    wide = discrete_mass(stddev * math.sqrt(summands), (len(total) - 1) // 2)
    middle = len(total) // 2
    np.testing.assert_allclose(total[middle - 60 : middle + 60], wide[middle - 60 : middle + 60], rtol=1e-11)


@pytest.mark.parametrize("variance", [3.0, 20.0])
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.8])
def test_the_swap_makes_one_direction_the_larger(variance, rate):
    """D(Q‖mix) ≤ D(mix‖Q) for two coordinates, at every order; and the binomial sum is what it says it is."""
    pairs = [shifted(skellam_mass(variance, 80), k) for k in (2, -1)]
    p, q = (np.multiply.outer(pairs[0][j], pairs[1][j]).ravel() for j in (0, 1))
    mix = (1 - rate) * q + rate * p
    inside = (q > 1e-250) & (p > 1e-250)

    def moment(a, b, order):
        return logsumexp(order * np.log(a[inside]) + (1 - order) * np.log(b[inside])) / (order - 1)

    for order in (1.2, 2.0, 3.0, 5.5, 8.0):
        assert moment(q, mix, order) <= moment(mix, q, order) * (1 + 1e-12)
    unsampled = {k: float(moment(p, q, k)) for k in range(2, 9)}
    whole = np.array([2.0, 3.0, 5.0, 8.0])
    found = renyi.poisson_any(rate, unsampled, whole, symmetric=True)
    np.testing.assert_allclose(found, [moment(mix, q, order) for order in whole], rtol=1e-9)
    assert np.all(found <= renyi.poisson_any(rate, unsampled, whole))


@given(st.floats(0.01, 0.9), st.floats(1, 60), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=10, deadline=None)
def test_sampled_skellam_curves_are_above_brute_force(rate, variance, shift, rounds):
    """Up to three rounds of one coordinate, composed by adding up all outcomes, in both directions."""
    p, q = shifted(skellam_mass(variance, int(7 * math.sqrt(variance) + 12)), shift)
    mix, ratio = (1 - rate) * q + rate * p, None
    for _ in range(rounds):
        one = (mix, q)
        ratio = (
            one if ratio is None else tuple(np.multiply.outer(a, b).ravel() for a, b in zip(ratio, one, strict=True))
        )
    curve = price({PoissonSampledDpEvent(rate, Skellam(variance, shift, shift)): rounds})
    assert curve.accountant == "pld"
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        true = max(hockey(ratio[0], ratio[1], epsilon), hockey(ratio[1], ratio[0], epsilon))
        assert true <= curve.delta(epsilon) + 1e-9
        if variance >= 20:  # with little noise the integers show, and the Gaussian is an upper bound only
            assert curve.delta(epsilon) <= true * 1.5 + 0.02


def test_the_numbers_of_the_review():
    """40 rounds: what the factor 3 cost, without it, by domination in Rényi terms, and by loss distributions."""
    orders, whole = renyi.MODERN_ORDERS, renyi.whole_orders(renyi.MODERN_ORDERS)

    def told(rate, z, **how):
        costs = dict(
            zip(whole.astype(int).tolist(), renyi.skellam((z * 1e3) ** 2, 1e3, 3e4, whole).tolist(), strict=True)
        )
        return renyi.epsilon_modern(orders, 40 * renyi.poisson_any(rate, costs, orders, **how), 1e-5)

    for rate, z, three, swap, domination, tight in [
        (0.3, 8.0, 2.5997, 0.9887, 0.9887, 0.9001),
        (0.1, 4.0, 1.7586, 0.6769, 0.6769, 0.6099),
        (0.01, 1.0, 1.2027, 1.1179, 1.1171, 0.5476),
    ]:
        event = PoissonSampledDpEvent(rate, Skellam((z * 1e3) ** 2, 1e3, 3e4))
        assert told(rate, z) == pytest.approx(three, abs=1e-3)
        assert told(rate, z, symmetric=True) == pytest.approx(swap, abs=1e-3)
        assert price({event: 40}, "rdp").epsilon(1e-5) == pytest.approx(domination, abs=1e-3)
        assert price({event: 40}).epsilon(1e-5) == pytest.approx(tight, abs=1e-3)


def test_renyi_takes_the_better_of_both_bounds():
    event, orders = Skellam(50.0, 3.0, 8.0), np.array([2.0, 8.0, 30.0])
    found = rdp.divergence({event: 1}, orders, "zero_out")
    assert np.all(found <= renyi.skellam(50.0, 3.0, 8.0, orders))
    assert np.all(found <= renyi.gaussian(1 / dominate.separation(event), orders))
    assert pld.simplified({PoissonSampledDpEvent(0.1, event): 2}, "add_remove") == {
        PoissonSampledDpEvent(0.1, GaussianDpEvent(1 / dominate.separation(event))): 2
    }
