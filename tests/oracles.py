"""Statistics that several suites judge noise by."""

from __future__ import annotations

import numpy as np
from scipy import stats


def fits_normal(samples: np.ndarray, stddev: float, p: float = 1e-4) -> bool:
    """Whether centred normal samples are consistent with this standard deviation (two-sided chi-square)."""
    statistic = float(np.square(samples.astype(np.float64) / stddev).sum())
    tail = stats.chi2(samples.size).cdf(statistic)
    return bool(p / 2 < tail < 1 - p / 2)


def assert_normal(samples: np.ndarray, stddev: float) -> None:
    """Accepts σ, rejects 2σ/3 and 3σ/2, and looks at shape and centre too."""
    samples = np.asarray(samples, np.float64).ravel()
    assert fits_normal(samples, stddev), (samples.std(), stddev)
    assert not fits_normal(samples, stddev * 2 / 3)
    assert not fits_normal(samples, stddev * 3 / 2)
    assert stats.kstest(samples / stddev, "norm").pvalue > 1e-4
