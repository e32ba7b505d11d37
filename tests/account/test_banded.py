"""Banded noise: the closed form of its sensitivity against every participation pattern, and against jax_privacy."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.account.accountants.banded import coefficients, error, inverse_column, last_error, matrix, sensitivity
from sordino.errors import AccountingError

PUBLISHED = {
    (2, 40): (11.480213, 21.56434),
    (5, 40): (6.390287, 10.9102),
    (10, 40): (4.869164, 7.52744),
    (10, 100): (8.681874, 14.68792),
}
"""(bands, rounds) → mean and last squared error of prefix sums, by jax_privacy 2.0.0 in double precision:
`toeplitz.optimize_banded_toeplitz(n, bands)`, `toeplitz.per_query_error(strategy_coef=…, n=n)`."""

SENSITIVITIES = {(3, 1): 1.145644, (3, 4): 2.291288, (4, 3): 1.984313, (5, 9): 1.968502, (3, 99): 2.291288}
"""(rounds_apart, participations) → `sensitivity.get_sensitivity_banded` of jax_privacy 2.0.0, for bands 1, ½, ¼ over 12
rounds."""


def brute_force(bands: list[float], rounds: int, rounds_apart: int, participations: int) -> float:
    """Returns the largest ‖C·u‖ over every pattern that is allowed and every choice of signs (of one coordinate)."""
    made, largest = matrix(np.array(bands), rounds), 0.0
    for count in range(1, participations + 1):
        for pattern in combinations(range(rounds), count):
            if any(b - a < rounds_apart for a, b in pairwise(pattern)):
                continue
            for signs in product((-1.0, 1.0), repeat=count):
                largest = max(largest, float(np.linalg.norm(made[:, pattern] @ np.array(signs))))
    return largest


@pytest.mark.parametrize(("rounds_apart", "participations"), [(3, 1), (3, 2), (3, 4), (4, 3), (5, 2)])
def test_no_allowed_pattern_moves_more_and_one_moves_as_much(rounds_apart: int, participations: int) -> None:
    bands = [1.0, 0.5, 0.25]
    found = brute_force(bands, 12, rounds_apart, participations)
    stated = sensitivity(np.array(bands), 12, rounds_apart, participations)
    assert found <= stated * (1 + 1e-12)
    if (participations - 1) * rounds_apart + len(bands) <= 12:  # else the last column is cut off in every pattern
        assert found == pytest.approx(stated)


def test_closer_participations_would_cost_more_and_are_refused() -> None:
    bands = np.array([1.0, 0.5, 0.25])
    with pytest.raises(AccountingError, match="columns overlap"):
        sensitivity(bands, 12, 2, 2)
    assert brute_force(bands.tolist(), 12, 1, 2) > sensitivity(bands, 12, 3, 2) * 1.2


@pytest.mark.parametrize("case", SENSITIVITIES)
def test_the_sensitivity_is_that_of_an_independent_implementation(case: tuple[int, int]) -> None:
    ours, theirs = sensitivity(np.array([1.0, 0.5, 0.25]), 12, *case), SENSITIVITIES[case]
    if case == (5, 9):  # rounds 1, 6, 11: the last column is cut off by the twelfth, and ours is a bound
        assert theirs < ours < theirs * 1.01
    else:
        assert ours == pytest.approx(theirs, abs=2e-6)


@pytest.mark.parametrize("case", PUBLISHED)
def test_the_errors_are_those_of_an_independent_implementation(case: tuple[int, int]) -> None:
    bands = np.array(coefficients(*case))
    mean, last = PUBLISHED[case]
    assert np.linalg.norm(bands) == pytest.approx(1, abs=1e-12)
    assert error(bands, case[1]) == pytest.approx(mean, rel=1e-5)
    assert last_error(bands, case[1]) == pytest.approx(last, rel=2e-3)  # flat at the optimum of the mean


def test_the_same_numbers_by_jax_privacy_where_it_is_installed() -> None:
    toeplitz = pytest.importorskip("jax_privacy.matrix_factorization.toeplitz")
    bands = np.array(coefficients(5, 40))
    squared = toeplitz.minsep_sensitivity_squared(bands, min_sep=5, n=40, max_participations=4)
    assert float(squared) ** 0.5 == pytest.approx(sensitivity(bands, 40, 5, 4), rel=1e-5)


@given(bands=st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5), rounds=st.integers(1, 12))
def test_the_inverse_and_the_errors_agree_with_explicit_matrices(bands: list[float], rounds: int) -> None:
    row = np.array(bands)
    inverse = np.linalg.inv(matrix(row, rounds))
    assert np.allclose(inverse[:, 0], inverse_column(row, rounds), rtol=1e-6, atol=1e-9 * abs(inverse).max())
    unit = row / np.linalg.norm(row)
    sums = np.tril(np.ones((rounds, rounds))) @ np.linalg.inv(matrix(unit, rounds))
    assert error(row, rounds) == pytest.approx((sums**2).sum() / rounds, rel=1e-6)
    assert last_error(row, rounds) == pytest.approx((sums[-1] ** 2).sum(), rel=1e-6)


def test_one_band_is_independent_noise_and_more_bands_never_hurt() -> None:
    assert coefficients(1, 40) == (1.0,) and error(np.ones(1), 40) == pytest.approx(20.5)
    errors = [error(np.array(coefficients(b, 30)), 30) for b in (1, 2, 3, 5, 10, 30, 99)]
    assert all(b < a for a, b in pairwise(errors[:-1])) and errors[-1] == errors[-2]


def test_no_correlation_helps_the_final_sum_under_full_participation() -> None:
    """For every lower triangular C the price of everybody in every round times the last error is at least rounds²."""
    generator = np.random.default_rng(0)
    for _ in range(200):
        rounds = int(generator.integers(1, 9))
        made = np.tril(generator.standard_normal((rounds, rounds))) + 2 * np.eye(rounds)
        everything = np.linalg.norm(made @ np.ones(rounds)) ** 2  # what the constant sequence moves
        last = np.linalg.norm(np.linalg.solve(made.T, np.ones(rounds))) ** 2  # ‖1ᵀC⁻¹‖²
        assert everything * last >= rounds**2 * (1 - 1e-9)
    assert np.linalg.norm(np.ones(5)) ** 2 * np.linalg.norm(np.ones(5)) ** 2 == pytest.approx(
        25
    )  # independent: attained
