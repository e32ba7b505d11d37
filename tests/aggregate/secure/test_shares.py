"""Shares: interchangeable with pycryptodome's, any threshold of them enough, fewer worth nothing."""

import os
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from Crypto.Protocol.SecretSharing import Shamir
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.aggregate.secure.shares import combine, split


@settings(deadline=None, max_examples=30)
@given(st.binary(min_size=16, max_size=16), st.integers(2, 7), st.integers(0, 5))
def test_pycryptodome_combines_what_we_split(secret, threshold, more):
    parts = split(secret, threshold, threshold + more)
    assert Shamir.combine(list(enumerate(parts, 1))[more:]) == secret


@settings(deadline=None, max_examples=30)
@given(st.binary(min_size=16, max_size=16), st.integers(2, 7), st.integers(0, 5))
def test_we_combine_what_pycryptodome_splits(secret, threshold, more):
    parts = Shamir.split(threshold, threshold + more, secret)
    assert combine(dict(parts[more:]), threshold + more) == secret


def test_any_threshold_of_shares_is_enough_and_more_do_not_hurt():
    secret = os.urandom(64)
    parts = dict(enumerate(split(secret, 3, 6), 1))
    for size in range(3, 7):
        for some in combinations(parts, size):
            assert combine({point: parts[point] for point in some}, 6) == secret


def test_a_large_cohort_that_loses_many():
    secret, rng = os.urandom(32), np.random.default_rng(0)
    parts = split(secret, 40, 300)
    some = (rng.choice(300, 40, replace=False) + 1).tolist()
    assert combine({point: parts[point - 1] for point in some}, 300) == secret


def test_one_share_less_is_another_secret_every_time():
    secret = bytes(16)
    wrong = [combine(dict(enumerate(split(secret, 3, 5)[:2], 1)), 5) for _ in range(20)]
    assert secret not in wrong and len(set(wrong)) == 20


def test_shares_below_the_threshold_look_uniform_whatever_the_secret():
    counts = [Counter(split(secret, 2, 3)[1][0] for _ in range(3000)) for secret in (bytes(16), b"\xff" * 16)]
    for count in counts:
        observed = np.array([count[byte] for byte in range(256)])
        assert ((observed - 3000 / 256) ** 2).sum() / (3000 / 256) < 255 + 5 * np.sqrt(2 * 255)


def test_every_coefficient_is_random():
    # with the entropy replaced, the polynomial is known: secret + a·x over the field
    parts = split(bytes(15) + b"\x05", 2, 2, entropy=lambda count: bytes(count - 1) + b"\x07")
    assert [part[-1] for part in parts] == [5 ^ 7, 5 ^ 14]


@pytest.mark.parametrize("threshold", [1, 4])
def test_edge_thresholds(threshold):
    secret = os.urandom(32)
    parts = split(secret, threshold, 4)
    assert combine(dict(enumerate(parts[:threshold], 1)), 4) == secret
    assert (parts[0] == secret) == (threshold == 1)
