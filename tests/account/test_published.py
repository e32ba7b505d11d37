"""Every published number that the papers' formulas determine, to the digits given."""

import numpy as np
import pytest
from papers.accounting import PAPERS, published_numbers

from sordino.account.accountants import published
from sordino.account.accountants.accountant import price
from sordino.account.accountants.calibrate import largest_rounds
from sordino.errors import AccountingError
from sordino.events import GaussianDpEvent, PoissonSampledDpEvent

DELTA = 1e-5


def baek(dropout):
    return PoissonSampledDpEvent(0.01, GaussianDpEvent((1 - dropout) ** 0.5))


@pytest.mark.parametrize(
    ("dropout", "row"),
    [
        (0.0, (1.317, 1.414, 1.612, 2.538, 7.429)),
        (0.1, (1.467, 1.586, 1.822, 2.855, 8.212)),
        (0.3, (1.894, 2.089, 2.463, 3.867, 10.70)),
    ],
)
def test_baek_table_2(dropout, row):
    for rounds, printed in zip((1, 10, 100, 1000, 10_000), row, strict=True):
        found = price({baek(dropout): rounds}, "rdp-classic").epsilon(DELTA)
        assert f"{found:.{2 if printed == 10.70 else 3}f}" == f"{printed:.{2 if printed == 10.70 else 3}f}"


@pytest.mark.parametrize(
    ("dropout", "row"), [(0.0, (429, 2952, 11479)), (0.1, (216, 2348, 9520)), (0.3, (3, 1110, 5690))]
)
def test_baek_largest_rounds(dropout, row):
    found = tuple(largest_rounds(e, DELTA, lambda n: {baek(dropout): n}, "rdp-classic") for e in (2, 4, 8))
    assert found == row


@pytest.mark.parametrize(
    ("dropout", "row"),
    [(0.0, (0.199, 0.380, 0.718, 1.828)), (0.1, (0.243, 0.463, 0.847, 2.049)), (0.3, (0.401, 0.756, 1.294, 2.784))],
)
def test_baek_tight(dropout, row):
    found = tuple(round(price({baek(dropout): n}).epsilon(DELTA), 3) for n in (1, 10, 100, 1000))
    assert found == row


@pytest.mark.parametrize(
    ("sigma0", "epsilon", "claimed", "exact"), [(26, 0.5, 7, 13), (26, 2, 108, 170), (10, 8, 208, 277), (26, 0.3, 2, 5)]
)
def test_xue_equation_12(sigma0, epsilon, claimed, exact):
    assert published.xue_participations(epsilon, sigma0, DELTA) == claimed
    assert largest_rounds(epsilon, DELTA, lambda n: {GaussianDpEvent(float(sigma0)): n}) == exact
    assert published.xue_epsilon(claimed, sigma0, DELTA) <= epsilon < published.xue_epsilon(claimed + 1, sigma0, DELTA)


@pytest.mark.parametrize(("epsilon", "rounds"), [(0.5, 7), (2.0, 108), (8.0, 208), (12.0, 3), (30.0, 100)])
def test_xue_equation_13_is_equation_12_turned_round(epsilon, rounds):
    sigma0 = published.xue_sigma0(epsilon, rounds, DELTA)
    assert published.xue_delta(epsilon, rounds, sigma0 * (1 + 1e-9), DELTA) <= DELTA
    assert published.xue_delta(epsilon, rounds, sigma0 * (1 - 1e-6), DELTA) > DELTA
    # By hand: the least of T·α / (2(ε − ln(1/δ)/(α−1))) over whole α.
    squares = [rounds * a / (2 * room) for a in range(2, 20_000) if (room := epsilon - np.log(1 / DELTA) / (a - 1)) > 0]
    assert sigma0 == pytest.approx(min(squares) ** 0.5)


@pytest.mark.parametrize(("epsilon", "sigma0", "uploads"), [(0.5, 26, 5), (2.0, 26, 90), (8.0, 10, 300)])
def test_xue_delta_is_the_least_over_whole_orders(epsilon, sigma0, uploads):
    least = int(1 + np.log(1 / DELTA) / epsilon) + 1
    orders = np.arange(least, 20_000, dtype=float)
    by_hand = np.exp(((orders - 1) * (uploads * orders / (2 * sigma0**2) - epsilon)).min())
    assert published.xue_delta(epsilon, uploads, sigma0, DELTA) == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("aggregations", "row"),
    [
        (30, (0.027933, 0.016334, 0.010730, 0.007870, 0.006308)),
        (17, (0.013136, 0.010073, 0.008077, 0.006740, 0.005819)),
    ],
)
def test_yuan_equation_8(aggregations, row):
    sensitivity = published.yuan_sensitivity(5, 600)
    found = [
        published.yuan_sigma(sensitivity, 10, 1e-3, 0.1, published.yuan_sum(theta, aggregations))
        for theta in (0.9, 0.95, 1, 1.05, 1.1)
    ]
    assert tuple(round(value, 6) for value in found) == row


@pytest.mark.parametrize("theta", [0.9, 1.0, 1.1])
def test_yuan_sum_is_the_sum_of_precisions(theta):
    variances = [4.0 * theta ** (m - 1) for m in range(1, 31)]  # Eq. (6)
    assert published.yuan_sum(theta, 30) == pytest.approx(sum(4.0 / variance for variance in variances))


@pytest.mark.parametrize(("at", "until"), [(1, 30), (10, 27), (27, 27)])
def test_yuan_theorem_2_three_cases(at, until):
    rising = sum(1.1 ** (1 - n) for n in range(1, at + 1)) + (until - at)
    falling = (0.9 ** (1 - at) - 0.9 + 0.9 ** (at - until)) / 0.1
    assert published.yuan_refined(1.1, at, until) == pytest.approx(rising)
    assert published.yuan_refined(1.0, at, until) == until
    assert published.yuan_refined(0.9, at, until) == pytest.approx(falling)
    assert published.yuan_refined(1 + 1e-9, at, until) == pytest.approx(until, rel=1e-5)
    with pytest.raises(AccountingError):
        published.yuan_refined(1.1, until + 1, until)


def test_yuan_table_2_is_the_root_of_theta():
    for theta, printed in ((0.9, 0.003556), (0.95, 0.003654), (1, 0.003749), (1.05, 0.003841), (1.1, 0.003932)):
        assert 0.003749 * theta**0.5 == pytest.approx(printed, abs=1.1e-6)


@pytest.mark.parametrize(
    ("difference", "row"),
    [
        (0.3, (1, 0.671141, 0.578001, 0.541199, 0.524825, 0.517158)),
        (0.5, (1, 0.8, 0.761905, 0.752941, 0.750733, 0.750183)),
        (0.7, (1, 0.917431, 0.910664, 0.910060, 0.910005, 0.910000)),
    ],
)
def test_fed_cad_variances(difference, row):
    variances, carried, fresh = published.fed_cad_schedule(difference, 6)
    assert tuple(np.round(variances, 6)) == row
    closed = [(2 * difference - difference**2) / (1 - (1 - difference) ** (2 * t)) for t in range(1, 7)]
    np.testing.assert_allclose(variances, closed, rtol=1e-12)
    # The recursion of the noise itself: fresh noise plus what is carried on.
    np.testing.assert_allclose(variances[1:], fresh[1:] ** 2 + carried[1:] ** 2 * variances[:-1], rtol=1e-12)


@pytest.mark.parametrize(
    ("sigma", "uploads", "replace", "zero_out"),
    [(0.3, 30, 821.45, 243.63), (0.5, 30, 332.53, 105.88), (0.3, 60, 1552.61, 442.53)],
)
def test_fed_cad_certified(sigma, uploads, replace, zero_out):
    assert round(price({GaussianDpEvent(sigma / 2): uploads}).epsilon(DELTA), 2) == replace
    assert round(price({GaussianDpEvent(sigma): uploads}).epsilon(DELTA), 2) == zero_out


def test_every_paper_has_lines_and_each_is_finite():
    found = list(published_numbers())
    assert {line.paper.split()[0].rstrip(",") for line in found} >= {"Baek", "Xue", "Fed-CAD", "Yuan", "one"}
    assert all(np.isfinite(line.computed) for line in found)
    assert [line for name in PAPERS for line in published_numbers(name)] == found
