"""Dithered rounding: given the dither, one record moves the integers by what is accounted."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregate.rounding import round_row
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
    without = round_row(dither, row, np.random.default_rng(seed + 1))
    with_it = round_row(dither, row + record, np.random.default_rng(seed + 1))
    gap = (with_it - without).astype(float)
    assert np.linalg.norm(gap) <= event.l2_sensitivity * (1 + 1e-12)
    assert np.abs(gap).sum() <= event.l1_sensitivity * (1 + 1e-12)


def test_the_accounted_sensitivity_is_nearly_reached():
    dither = Dither.fine(1, 1.0, 10, inflation=0.5)  # scale 2: a record is worth up to 2 integers, and 1 for rounding
    reached = max(
        abs(int(round_row(dither, np.array([x + 1.0]), np.random.default_rng(s))[0])
            - int(round_row(dither, np.array([x]), np.random.default_rng(s))[0]))
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
    for row in (np.array([np.nan, 0, 0]), np.array([np.inf, 0, 0]), np.zeros(4)):
        with pytest.raises(DataError):
            round_row(dither, row, np.random.default_rng(0))
    with pytest.raises(RecipeError, match="add_remove"):
        dither.event(1.0, "replace")
    with pytest.raises(RecipeError, match="64"):
        Dither.fine(10**6, 1.0, 10**16).modulus_bits(10, 1.0)


@settings(max_examples=30, deadline=None)
@given(st.integers(2000, 20_000), st.floats(0.01, 0.2), st.integers(0, 2**31), st.booleans())
def test_wide_rows_move_by_at_most_the_likely_bound_which_is_far_below_the_certain_one(width, inflation, seed, even):
    """The certain bound is L + √d; rounding at random adds d/4 to the square, and the likely bound says so."""
    generator, dither = np.random.default_rng(seed), Dither.fine(width, 1.0, 10, inflation)
    event, length = dither.event(1.0), dither.scale
    assert event.l2_sensitivity <= length * (1 + inflation) * (1 + 1e-5)
    assert event.l2_sensitivity < length + np.sqrt(width) * (1 + 1e-5)
    record = np.full(width, 1.0) if even else generator.normal(size=width)
    record /= np.linalg.norm(record)
    row = generator.normal(size=width)
    gaps = [
        round_row(dither, row + record, np.random.default_rng(s)) - round_row(dither, row, np.random.default_rng(s))
        for s in range(seed, seed + 3)
    ]
    longest = max(float(np.linalg.norm(gap.astype(float))) for gap in gaps)
    assert length * 0.9 < longest <= event.l2_sensitivity


def test_the_likely_bound_holds_where_rounding_adds_most():
    """Entries that lie half-way between integers add 1/4 each: the mean of the squared gap is L² + d/4."""
    width = 4096
    dither = Dither(width, 1.0, 0.5 * np.sqrt(width), 10)  # a record of equal entries is worth 1/2 in each of them
    record, row = np.full(width, 1 / np.sqrt(width)), np.zeros(width)
    squares = []
    for seed in range(200):
        gap = round_row(dither, row + record, np.random.default_rng(seed)) - round_row(
            dither, row, np.random.default_rng(seed)
        )
        squares.append(float((gap**2).sum()))
    assert np.mean(squares) == pytest.approx(dither.scale**2 + width / 4, rel=0.01)
    assert max(squares) <= dither.event(1.0).l2_sensitivity ** 2


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.floats(0.01, 10), st.floats(0.005, 0.5), st.floats(0, 32), st.integers(0, 2**31))
def test_the_sensitivities_hold_for_doubles_of_any_size_that_is_accepted(width, clip_norm, inflation, power, seed):
    # rows as they were computed, up to the largest; the distance between them is measured in exact arithmetic
    rng = np.random.default_rng(seed)
    dither = Dither.fine(width, clip_norm, 10, inflation)
    row = rng.uniform(-1, 1, width) * 2.0**power / dither.scale * (1 - 1e-9)
    record = rng.normal(size=width)
    record *= clip_norm * (1 - 1e-9) / np.linalg.norm(record)
    other = row + record
    apart = [Fraction(b) - Fraction(a) for a, b in zip(row.tolist(), other.tolist(), strict=True)]
    if sum(x * x for x in apart) > Fraction(clip_norm) ** 2 or not (np.abs(other * dither.scale) < 2.0**32).all():
        return  # doubles of this size cannot hold the record
    rounded = [round_row(dither, x, np.random.default_rng(seed)).tolist() for x in (row, other)]
    gap = [b - a for a, b in zip(*rounded, strict=True)]
    event = dither.event(1.0)
    assert sum(x * x for x in gap) <= event.l2_sensitivity**2 * (1 + 1e-12)
    assert sum(map(abs, gap)) <= event.l1_sensitivity * (1 + 1e-12)


def test_entries_that_doubles_cannot_tell_apart_stay_below_the_largest():
    # the review's S9, in doubles: from 2^53 on they have steps of 2 and more, and a record moves a row by whole steps
    row, record = 2.0**60, 150.0
    wide = Dither(1, record, 1.0, 10)
    assert (row + record) - row == 256 > wide.event(1.0).l2_sensitivity  # what the old limit of 2^62 let through
    for sign in (-1, 1):
        made = [round_row(wide, np.array([sign * x]), np.random.default_rng(0)) for x in (2.0**32, row, row + record)]
        assert made[0] == made[1] == made[2]
        assert abs(int(made[0][0])) < 2**32
    assert round_row(wide, np.array([2.0**31]), np.random.default_rng(0)) == 2**31
    with pytest.raises(DataError, match="1 numbers"):
        round_row(wide, np.array([np.nan]), np.random.default_rng(0))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.floats(30, 34), st.integers(0, 2**31))
def test_no_row_is_refused_for_its_length_and_the_longest_move_no_further_apart(width, power, seed):
    """Rows are sums over records: whether one was refused told for nothing on which side of a line it lies."""
    rng = np.random.default_rng(seed)
    dither = Dither.fine(width, 1.0, 10)
    row = rng.choice([-1.0, 1.0], width) * 2.0**power / dither.scale
    record = rng.normal(size=width)
    record /= np.linalg.norm(record) * (1 + 1e-9)
    rounded = [round_row(dither, x, np.random.default_rng(seed)).astype(float) for x in (row, row + record)]
    assert np.linalg.norm(rounded[1] - rounded[0]) <= dither.event(1.0).l2_sensitivity * (1 + 1e-9)
