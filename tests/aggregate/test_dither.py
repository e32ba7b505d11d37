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
        Dither.fine(10**6, 1.0, 10**15).modulus_bits(10, 1.0)


def float32_sums(records, order):
    """A client's row without and with its last record, each added up in single precision."""
    total = np.zeros(records.shape[1], np.float32)
    for record in order:
        total = total + records[record]
    return total, total + records[-1]


def test_a_record_moves_a_sum_in_single_precision_by_more_than_itself():
    # the review's S9: from 8192 on, single precision has steps of 2^-10, and the stated bound is exceeded
    row, record = np.full(4_000_000, 8193, np.float32), np.full(4_000_000, 0.00049, np.float32)
    assert np.linalg.norm(record.astype(float)) <= 1
    moved = (row + record).astype(float) - row
    assert np.linalg.norm(moved) > 1.9
    plain = Dither.fine(len(row), 1.0, 10**5)
    rounded = [plain.round_row(x, np.random.default_rng(0)) for x in (row, row + record)]
    assert np.linalg.norm((rounded[1] - rounded[0]).astype(float)) > 1.8 * plain.event(1.0).l2_sensitivity


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 200), st.integers(0, 2**31), st.booleans())
def test_the_slack_covers_sums_in_single_precision_in_any_order(count, seed, one_sided):
    rng = np.random.default_rng(seed)
    records = rng.normal(size=(count, 16)).astype(np.float32)
    records = np.abs(records) if one_sided else records
    records *= ((1 - 1e-6) / np.linalg.norm(records, axis=1, keepdims=True)).astype(np.float32)
    dither = Dither.fine(16, 1.0, count, 0.5, each=count)
    without, _ = float32_sums(records, rng.permutation(count - 1))
    with_it, _ = float32_sums(records, rng.permutation(count))
    moved = np.linalg.norm(with_it.astype(float) - without.astype(float))
    assert moved <= 1 + dither.slack
    rounded = [dither.round_row(row, np.random.default_rng(seed)) for row in (without, with_it)]
    assert np.linalg.norm((rounded[1] - rounded[0]).astype(float)) <= dither.event(1.0).l2_sensitivity


def test_the_slack_is_charged_where_the_records_of_a_client_are_declared():
    silent, told = Dither.fine(100, 1.0, 10**4), Dither.fine(100, 1.0, 10**4, each=600)
    assert silent.slack == 0 and told.slack == pytest.approx(2 * 600 * 601 * 2**-24, rel=1e-3)
    gained = told.event(1.0).l2_sensitivity - silent.event(1.0).l2_sensitivity
    assert gained == pytest.approx(told.slack * told.scale)
    with pytest.raises(RecipeError, match=r"public\.most_records is 5000"):
        Dither.fine(100, 1.0, 10**6, each=5000)


def test_the_slack_is_needed():
    # summed from the largest to the smallest, single precision loses every small record
    records = np.zeros((151, 1), np.float32)
    records[0], records[1:] = 1.0, 2.0**-25
    without, with_it = float32_sums(records, range(150))
    exact = records[:150].astype(float).sum()
    dither = Dither.fine(1, 1.0, 151, each=150)
    assert 0 < exact - float(without[0]) <= dither.slack / 2
    assert with_it[0] == without[0]
