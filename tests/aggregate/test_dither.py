"""Dithered rounding: given the dither, one record moves the integers by what is accounted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.aggregate.dither import Dither
from sordino.errors import DataError, RecipeError


@settings(max_examples=50)
@given(st.integers(1, 60), st.floats(0.01, 10), st.floats(0.005, 0.5), st.integers(0, 2**31))
def test_a_record_moves_the_rounded_row_by_at_most_the_sensitivities(width, clip_norm, inflation, seed):
    generator = np.random.default_rng(seed)
    dither = Dither.fine(width, clip_norm, 10, inflation)
    event = dither.event(1.0, "add_remove")
    row = generator.normal(size=width) * 10
    record = generator.normal(size=width)
    record *= clip_norm / np.linalg.norm(record)
    without = dither.round_row(row, np.random.default_rng(seed + 1))
    with_it = dither.round_row(row + record, np.random.default_rng(seed + 1))
    gap = (with_it - without).astype(float)
    assert np.linalg.norm(gap) <= event.l2_sensitivity * (1 + 1e-12)
    assert np.abs(gap).sum() <= event.l1_sensitivity * (1 + 1e-12)


def test_the_accounted_sensitivity_is_nearly_reached():
    dither = Dither.fine(1, 1.0, 10, inflation=0.5)  # scale 2: a record is worth up to 2 integers, and 1 for rounding
    reached = max(
        abs(int(dither.round_row(np.array([x + 1.0]), np.random.default_rng(s))[0])
            - int(dither.round_row(np.array([x]), np.random.default_rng(s))[0]))
        for x in np.linspace(0, 1, 50) for s in range(50)
    )  # fmt: skip
    assert 2 <= reached <= dither.event(1.0, "add_remove").l2_sensitivity


def test_the_modulus_holds_every_record_and_the_noise():
    dither = Dither.fine(100, 1.0, records=1000, inflation=0.1)
    bits = dither.modulus_bits(50, 1e6)
    assert 2 ** (bits - 1) > 1000 * dither.scale + 50 + 6 * 1e3
    assert dither.modulus_bits(50, 1e12) > bits


def test_impossible_rows_and_adjacencies_are_refused():
    dither = Dither.fine(3, 1.0, 10)
    for row in (np.array([np.nan, 0, 0]), np.array([np.inf, 0, 0]), np.zeros(4), np.full(3, 1e30)):
        with pytest.raises(DataError):
            dither.round_row(row, np.random.default_rng(0))
    with pytest.raises(RecipeError, match="add_remove"):
        dither.event(1.0, "replace")
    with pytest.raises(RecipeError, match="64"):
        Dither.fine(10**6, 1.0, 10**16).modulus_bits(10, 1.0)
