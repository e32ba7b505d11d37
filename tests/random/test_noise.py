"""Noise by key: whose rows are computed together changes nothing, and each row has a stream of its own."""

import numpy as np
import pytest
from scipy import stats

from sordino.errors import RecipeError
from sordino.random import float_draws, noise, rounded
from sordino.random.keystream import Keystream, fresh_key, named_key
from sordino.random.noise import add_gaussian, add_laplace

KEYS = [named_key(f"test/{client}") for client in range(6)]


@pytest.mark.parametrize("add", [add_gaussian, add_laplace])
@pytest.mark.parametrize("width", [1, 2, 7, 650, 2**16, 2**16 + 1, 70_001])
def test_company_changes_no_bit(add, width):
    together = add(np.zeros((6, width), np.int64), 1e7, KEYS)
    for row, key in zip(together, KEYS, strict=True):
        assert (add(np.zeros((1, width), np.int32), 1e7, [key])[0] == row).all()
    assert (add(np.zeros((6, width), np.int64), 1e7, KEYS[::-1])[::-1] == together).all()
    assert len(np.unique(together[:, 0])) == 6


@pytest.mark.parametrize(("add", "law"), [(add_gaussian, stats.norm), (add_laplace, stats.laplace)])
def test_rows_follow_the_law_and_are_independent(add, law):
    draws = add(np.zeros((6, 70_000), np.int64), 1e6, KEYS) / 1e6
    assert stats.kstest(draws.ravel(), law.cdf).pvalue > 1e-3
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(draws.ravel()[:10_000], law(0, wrong).cdf).pvalue < 1e-6
    half = 2**14
    for left, right in (
        (draws[:-1], draws[1:]),
        (draws[:, :-1], draws[:, 1:]),
        (draws[:, :half], draws[:, half : 2 * half]),
    ):
        for power in (1, 2):
            assert abs(np.corrcoef(left.ravel() ** power, right.ravel() ** power)[0, 1]) < 5 / np.sqrt(left.size)


def test_a_keystream_is_one_stream_however_it_is_cut():
    whole, pieces = np.empty(100_000, np.uint64), np.empty(100_000, np.uint64)
    Keystream(KEYS[0]).fill(whole)
    stream = Keystream(KEYS[0])
    for first, last in ((0, 1), (1, 4), (4, 50_001), (50_001, 100_000)):
        stream.fill(pieces[first:last])
    assert (whole == pieces).all() and len(np.unique(whole)) == 100_000
    further = {stream.further(place, step) for place in range(50) for step in range(4)}
    assert len(further) == 200 and not further & set(whole.tolist())
    assert "key" not in repr(stream)


def test_keys_and_scales_that_cannot_be_are_refused():
    assert fresh_key() != fresh_key() and len(fresh_key()) == 32
    with pytest.raises(ValueError, match="32"):
        Keystream(b"short")
    with pytest.raises(ValueError, match="key of its own"):
        add_gaussian(np.zeros((2, 3), np.int64), 1.0, KEYS[:1])
    for scale in (float("nan"), -1.0, 2.0**27):
        with pytest.raises(RecipeError, match="steps of the grid"):
            add_gaussian(np.zeros((1, 3), np.int32), scale, KEYS[:1])
    assert not add_gaussian(np.zeros((1, 3), np.int32), 0.0, KEYS[:1]).any()


def test_further_bits_belong_to_the_word_in_its_row_not_in_its_block(monkeypatch):
    for module in (float_draws, rounded, noise):
        monkeypatch.setattr(module, "GROUP", 8)
    asked, real = set(), Keystream.further
    monkeypatch.setattr(Keystream, "fill", lambda _stream, words: words.fill(0))  # lengths of 0: every draw is open
    monkeypatch.setattr(Keystream, "further", lambda s, place, step: asked.add((s.key, place)) or real(s, place, step))
    add_gaussian(np.zeros((2, 20), np.int64), 1e6, KEYS[:2])
    assert asked == {(key, place) for key in KEYS[:2] for place in range(20)}
