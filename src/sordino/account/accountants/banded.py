"""Banded matrix factorisation: which correlation over time serves prefix sums best, and what it costs a participant.

Let C be a lower triangular Toeplitz matrix with b bands, C[s, t] = c_{s−t} for 0 ≤ s − t < b, and X the matrix whose
row t is the sum of the contributions of round t. What a mechanism with noise C⁻¹Z reveals is V = C·X + Z, Z with
independent N(0, σ²) entries, and everything else is a function of V: round t's noisy sum is (C⁻¹V)_t = X_t + (C⁻¹Z)_t.

**Sensitivity under separated participations.** *Let a unit take part in rounds P = {t_1 < … < t_k}, any two at least b
apart, with contributions u_t of norm at most 1. Then C·X moves by C·U with ‖C·U‖² = Σ_{t ∈ P} ‖c^{(t)}‖²·‖u_t‖² ≤
k·‖c‖²*, c^{(t)} being the part of column t that lies within the rounds, and ‖c‖² = Σ_j c_j².

*Proof.* Column t of C is zero outside rows t … t+b−1. For t, t′ ∈ P with t < t′ we have t′ ≥ t + b, so these rows are
disjoint. Row s of C·U is c_{s−t}·u_t for the only t ∈ P with t ≤ s < t + b, or zero. Summing squares over rows gives
the sum over t of Σ_s c_{s−t}²·‖u_t‖² = ‖c^{(t)}‖²·‖u_t‖². A column that is cut off by the last round is
shorter than c. ∎

So with ‖c‖ = 1 and σ = z a unit that takes part k times costs k Gaussians of multiplier z, the same as with independent
noise: one `CorrelatedGaussian(z)` a participation, whenever it happens, as long as participations are b apart. That
contributions follow earlier releases changes nothing: given the past, the rows of a block move by a fixed multiple of
the u_t that was chosen when it began, and blocks compose adaptively (Denisov et al. 2022, Theorem 2.1).

**What it gains.** The noise of the model after s rounds is (A·C⁻¹Z)_s, A the matrix of prefix sums. `coefficients`
minimises the mean over s of its variance, for ‖c‖ = 1.

**Reference**: Denisov et al. (2022), "Improved DP-SGD via optimal private linear operators on adaptive streams";
Choquette-Choo et al. (2023), "(Amplified) Banded Matrix Factorization"; McKenna (2024), "Scaling up the banded matrix
factorization mechanism" (banded Toeplitz).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.linalg import solve_triangular, toeplitz
from scipy.optimize import minimize

from sordino.errors import AccountingError
from sordino.types import FloatArray


def matrix(bands: FloatArray, rounds: int) -> FloatArray:
    """Returns C, lower triangular Toeplitz with these bands."""
    column = np.zeros(rounds)
    column[: min(rounds, len(bands))] = bands[:rounds]
    return np.asarray(toeplitz(column, np.zeros(rounds)), dtype=np.float64)


def inverse_column(bands: FloatArray, rounds: int) -> FloatArray:
    """Returns the first column of C⁻¹: the noise of round t is Σ_s inverse[t − s]·z_s."""
    inverse = np.zeros(rounds)
    inverse[0] = 1 / bands[0]
    for t in range(1, rounds):
        reach = min(t, len(bands) - 1)
        inverse[t] = -float(bands[1 : reach + 1] @ inverse[t - reach : t][::-1]) / bands[0]
    return inverse


def sensitivity(bands: FloatArray, rounds: int, rounds_apart: int, participations: int) -> float:
    """Returns how far C·X moves at most when one unit of norm 1 takes part so often, so far apart.

    Raises:
        AccountingError: participations may be closer than there are bands: columns overlap, and this bound is void.
    """
    if rounds_apart < len(bands):
        raise AccountingError(
            f"participations may be {rounds_apart} rounds apart and noise has {len(bands)} bands: "
            "columns overlap, so use at most as many bands"
        )
    most = min(participations, -(-rounds // rounds_apart))
    return float(np.sqrt(most) * np.linalg.norm(bands[:rounds]))


def error(bands: FloatArray, rounds: int) -> float:
    """Returns the mean variance of all prefix sums' noise, over that of one noise of the same price.

    Row s of A·C⁻¹ is the running sum of the inverse's first column, backwards; independent noise has (rounds + 1)/2.
    """
    unit = bands / np.linalg.norm(bands)
    return float((rounds - np.arange(rounds)) @ np.cumsum(inverse_column(unit, rounds)) ** 2 / rounds)


def last_error(bands: FloatArray, rounds: int) -> float:
    """Returns the variance of the last model's noise, over that of one noise of the same price."""
    unit = bands / np.linalg.norm(bands)
    return float(np.sum(np.cumsum(inverse_column(unit, rounds)) ** 2))


@lru_cache(maxsize=64)
def coefficients(bands: int, rounds: int) -> tuple[float, ...]:
    """Returns c_0 … c_{b−1} with Σ c_j² = 1 and the least mean error of prefix sums.

    **Edge cases**: one band is independent noise; more bands than rounds are cut off. The search begins at the
    coefficients of (1 − x)^(−1/2), which are optimal up to lower-order terms without a limit on bands (Fichtenberger,
    Henzinger, Upadhyay 2022), and never ends above them.
    """
    if bands < 1 or rounds < 1:
        raise AccountingError(f"{bands} bands over {rounds} rounds: there must be at least one of each")
    width = min(bands, rounds)
    start = np.cumprod(np.concatenate([[1.0], (2 * np.arange(1, width) - 1) / (2 * np.arange(1, width))]))
    found = start / np.linalg.norm(start)
    if width > 1:
        free = minimize(_objective, start[1:], (rounds,), "L-BFGS-B", jac=True)
        best = np.concatenate([[1.0], free.x])
        if np.isfinite(free.fun) and error(best, rounds) < error(found, rounds):
            found = best / np.linalg.norm(best)
    return tuple(found.tolist())


def _objective(tail: FloatArray, rounds: int) -> tuple[float, FloatArray]:
    """Returns the error of bands (1, tail), and its gradient."""
    bands = np.concatenate([[1.0], tail])
    norm = float(bands @ bands)
    left = np.sqrt((rounds - np.arange(rounds)) / rounds)
    sums = np.cumsum(inverse_column(bands, rounds))
    raw = float((left * sums) @ (left * sums))
    # d sums / d c_j is minus the convolution of sums with the inverse, delayed by j rounds
    adjoint = solve_triangular(matrix(bands, rounds).T, left**2 * sums, lower=False)
    slopes = [-2 * float(adjoint[j:] @ sums[: rounds - j]) for j in range(1, len(bands))]
    gradient = norm * np.array(slopes) + 2 * raw * tail
    return norm * raw, gradient
