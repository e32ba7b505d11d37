"""Masks: the same on both sides, gone when taken off, uniform, and never the same twice."""

import os
from itertools import product

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from sordino.aggregate.secure import masks as masks_module
from sordino.aggregate.secure.errors import ShareRejected
from sordino.aggregate.secure.keys import Agreement, derive, seal, unseal
from sordino.aggregate.secure.masks import add_masks, opposite, pair_mask, self_mask

KINDS = [np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 5, 300_001])
def test_a_mask_is_the_cipher_s_keystream(kind, width):
    seed, vector = os.urandom(32), np.zeros(width, kind)
    add_masks(vector, [(seed, 1)])
    stream = Cipher(AES(seed[:16]), CTR(seed[16:])).encryptor().update(bytes(vector.nbytes))
    assert vector.tobytes() == stream


@pytest.mark.parametrize("kind", KINDS)
def test_threads_give_the_same_masks(kind, monkeypatch):
    seeds, vector = [(os.urandom(15) + b"\xff" * 17, 1), (os.urandom(32), -1)], np.zeros(700_001, kind)
    add_masks(vector, seeds)
    monkeypatch.setattr(masks_module, "_WORTH_THREADS", 0)
    for cores, narrow in product((2, 3, 8), (0, 1 << 40)):  # cores share out the vector, or the masks
        monkeypatch.setattr(masks_module, "_CORES", cores)
        monkeypatch.setattr(masks_module, "_NARROW", narrow)
        again = np.zeros_like(vector)
        add_masks(again, seeds)
        assert (again == vector).all()


@pytest.mark.parametrize("kind", KINDS)
def test_masks_cancel(kind):
    vector = np.arange(1000).astype(kind)
    masks = [(os.urandom(32), sign) for sign in (1, -1, 1)]
    masked = vector.copy()
    add_masks(masked, masks)
    assert (masked != vector).mean() > 0.9
    add_masks(masked, [opposite(mask) for mask in masks])
    assert (masked == vector).all()


def test_both_sides_of_a_pair_add_the_same_stream_with_opposite_signs():
    alice, bob = Agreement(), Agreement()
    here = pair_mask(alice.with_(bob.public), b"context", 3, 9)
    there = pair_mask(bob.with_(alice.public), b"context", 9, 3)
    assert here == opposite(there)


def test_more_masks_than_are_handled_at_once():
    vector = np.zeros(10, np.uint32)
    masks = [(os.urandom(32), 1) for _ in range(600)]
    add_masks(vector, masks)
    add_masks(vector, [opposite(mask) for mask in reversed(masks)])
    assert not vector.any()


def test_masks_are_uniform():
    vector = np.zeros(200_000, np.uint16)
    add_masks(vector, [(os.urandom(32), 1)])
    counts = np.bincount(vector >> 8, minlength=256)
    expected = len(vector) / 256
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 5 * np.sqrt(2 * 255)


def test_every_purpose_party_and_round_has_its_own_key():
    secret = os.urandom(32)
    keys = [
        self_mask(secret, b"round 1", 3),
        self_mask(secret, b"round 2", 3),
        self_mask(secret, b"round 1", 4),
        pair_mask(secret, b"round 1", 3, 4)[0],
        pair_mask(secret, b"round 1", 3, 5)[0],
        pair_mask(secret, b"round 2", 3, 4)[0],
        derive(secret, b"round 1", "share", 3, 4),
        derive(secret, b"round 1", "share", 4, 3),
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 32 for key in keys)


def test_a_key_that_was_moved_by_a_point_of_small_order_agrees_on_the_same_secret_and_shares_no_stream():
    # adding the point (0, 0) of order 2 maps u to 1/u; clamped scalars are multiples of 8 and do not notice
    prime, one, other = 2**255 - 19, Agreement(), Agreement()
    moved = pow(int.from_bytes(other.public, "little"), -1, prime).to_bytes(32, "little")
    assert moved != other.public and one.with_(moved) == one.with_(other.public)
    agreed, story = one.with_(moved), bytes(32)
    assert pair_mask(agreed, story, 1, 2)[0] != pair_mask(agreed, story, 1, 3)[0]
    box = seal(agreed, story, 1, 2, b"secret")
    with pytest.raises(ShareRejected):
        unseal(agreed, story, 1, 3, box)
