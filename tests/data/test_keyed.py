"""Keyed hashing: bijective, uniform, and a function of its coordinates alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sordino.data import keyed


@given(size=st.integers(1, 300), owner=st.integers(0, 2**40), seed=st.integers(0, 2**30))
@settings(max_examples=60, deadline=None)
def test_each_owner_has_a_bijection(size: int, owner: int, seed: int) -> None:
    positions = np.arange(size)
    image = keyed.permuted(keyed.key(seed, "p"), np.full(size, owner), positions, np.full(size, size))
    assert sorted(image) == list(range(size))


def test_permutations_of_different_owners_and_keys_differ() -> None:
    def image(seed: int, owner: int) -> list[int]:
        return keyed.permuted(keyed.key(seed, "p"), np.full(50, owner), np.arange(50), np.full(50, 50)).tolist()

    assert image(0, 1) == image(0, 1)
    assert len({tuple(image(seed, owner)) for seed in (0, 1) for owner in range(5)}) == 10


def test_first_positions_are_uniform_over_owners() -> None:
    owners = np.arange(30_000)
    first = keyed.permuted(keyed.key(3, "p"), owners, np.zeros_like(owners), np.full(len(owners), 7))
    assert stats.chisquare(np.bincount(first, minlength=7)).pvalue > 1e-4
    pairs = first * 7 + keyed.permuted(keyed.key(3, "p"), owners, np.ones_like(owners), np.full(len(owners), 7))
    counts = np.bincount(pairs, minlength=49).reshape(7, 7)
    assert (np.diag(counts) == 0).all()
    assert stats.chisquare(counts[~np.eye(7, dtype=bool)]).pvalue > 1e-4


def test_sizes_may_differ_by_element() -> None:
    sizes = np.array([1, 2, 5, 1000, 60_000])
    places = keyed.permuted(keyed.key(0, "p"), np.arange(5), np.zeros(5, np.int64), sizes)
    assert ((places >= 0) & (places < sizes)).all()


def test_uniforms_are_uniform_and_never_touch_the_ends() -> None:
    u = keyed.uniforms(keyed.key(0, "u"), np.arange(300)[:, None], np.arange(100)[None, :])
    assert u.shape == (300, 100)
    assert u.min() > 0 and u.max() < 1
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(u[:, :-1].ravel(), u[:, 1:].ravel())[0, 1]) < 0.03


def test_uniforms_depend_on_the_point_not_the_batch() -> None:
    secret = keyed.key(5, "u")
    assert keyed.uniforms(secret, np.arange(10))[7] == keyed.uniforms(secret, np.array([7]))[0]
    assert keyed.uniforms(secret, 1, 2)[0] != keyed.uniforms(secret, 2, 1)[0]
    assert keyed.uniforms(secret, 1)[0] != keyed.uniforms(keyed.key(6, "u"), 1)[0]


def test_shuffle_never_changes_between_versions() -> None:
    # Written down once: the fixed test splits rest on it.
    assert keyed.shuffled(keyed.key(0, "digits"), 10).tolist() == [1, 5, 4, 7, 6, 0, 3, 8, 9, 2]
