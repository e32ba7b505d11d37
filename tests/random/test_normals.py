"""Our normal draws against their distribution, and each row against itself in other company."""

import numpy as np
import pytest
from scipy import stats

from sordino.random.streams import Entropy, Streams


def test_moments_tails_and_shape():
    draws = Streams(3).normals("test", 0, np.arange(20), 50_001).numpy()
    flat = draws.ravel().astype(float)
    assert abs(flat.mean()) < 4 / np.sqrt(flat.size) and abs(flat.std() - 1) < 4 / np.sqrt(2 * flat.size)
    assert stats.kstest(flat, "norm").pvalue > 1e-3
    for far in (3, 4):
        expected = 2 * stats.norm.sf(far) * flat.size
        assert abs((abs(flat) > far).sum() - expected) < 4 * np.sqrt(expected)
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(flat[:10_000], "norm", args=(0, wrong)).pvalue < 1e-6


def test_pairs_rows_and_neighbours_are_independent():
    draws = Streams(3).normals("test", 0, np.arange(20), 50_000).numpy().astype(float)
    cosines, sines = draws[:, :25_000].ravel(), draws[:, 25_000:].ravel()
    for left, right in (
        (cosines, sines),
        (cosines**2, sines**2),
        (draws[:-1], draws[1:]),
        (draws[:, :-1], draws[:, 1:]),
    ):
        assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < 5 / np.sqrt(left.size)


@pytest.mark.parametrize("width", [1, 2, 7, 650, 70_001])
def test_company_changes_no_bit(width):
    together = Streams(1).normals("test", 2, np.arange(100, 104), width)
    assert together.shape == (4, width)
    for row, client in zip(together, range(100, 104), strict=True):
        assert (Streams(1).normals("test", 2, np.array([client]), width)[0] == row).all()
    assert not (together[0] == together[1]).all() or width == 0


def test_no_client_no_draw():
    for source in (Streams(1), Entropy()):
        assert source.normals("test", 0, np.empty(0, np.int64), 5).shape == (0, 5)
        assert source.normals("test", 0, np.arange(3), 0).shape == (3, 0)
