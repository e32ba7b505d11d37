"""Rounded noise against its law, against an independent library, and against itself by every other way of drawing."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from draws import gaussian, laplace, more, words
from sordino.errors import RecipeError
from sordino.random import exact, float_draws
from sordino.random.float_draws import GROUP, RADIUS, Gaussian, LaplaceDraws
from sordino.random.rounded import rounded_gaussian, rounded_laplace

LAWS = [(rounded_gaussian, stats.norm, gaussian, Gaussian), (rounded_laplace, stats.laplace, laplace, LaplaceDraws)]


def fits(draws, law, scale):
    """The p-value of integer draws under a rounded law: chi-square over cells of at least 20 expected draws."""
    far = int(np.ceil(40 * scale)) + 1
    edges = np.arange(-far, far + 1) + 0.5
    cells = np.diff(law.cdf(edges / scale))
    index = np.clip(draws + far, 0, len(cells) - 1) - 1
    counts = np.bincount(np.clip(index, 0, len(cells) - 1), minlength=len(cells))
    big = cells * len(draws) >= 20
    expected = np.append(cells[big], 1 - cells[big].sum()) * len(draws)
    return stats.chisquare(np.append(counts[big], counts[~big].sum()), expected).pvalue


@pytest.mark.parametrize(("draw", "law", "_oracle", "_kind"), LAWS)
@pytest.mark.parametrize("scale", [0.35, 0.8, 2.5, 12.0])
def test_the_law_is_right_and_others_are_told_apart(draw, law, _oracle, _kind, scale):
    draws = draw(scale, words(3, 60_000, 5), more).ravel()
    assert fits(draws, law, scale) > 1e-3
    for wrong in (2 / 3, 3 / 2):
        assert fits(draws, law, scale * wrong) < 1e-9


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_coarse_prefix_refined_gives_the_same_law(depth):
    draw, count = np.random.default_rng(depth), 6000
    prefixes = draw.integers(0, 2**depth, (count, 2))
    asked = []

    def extend(_step):
        asked.append(1)
        return int(draw.integers(0, 2**64, dtype=np.uint64))

    normals = [
        exact.gaussian(2, int(a), int(b) - 2 ** (depth - 1), (extend, extend), sine=bool(i % 2), depth=depth)
        for i, (a, b) in enumerate(prefixes)
    ]
    assert len(asked) > count  # almost every draw was open
    sizes = [exact.laplace(2, int(a), extend, depth=depth) for a, _ in prefixes]
    signs = draw.choice([-1, 1], count)
    for draws, law in ((np.array(normals), stats.norm), (np.array(sizes) * signs, stats.laplace)):
        assert fits(draws, law, 2.0) > 1e-3
        assert fits(draws, law, 4 / 3) < 1e-6 and fits(draws, law, 3.0) < 1e-6


@pytest.mark.parametrize("depth", [1, 4, 20, 53, 63])
def test_refinement_finds_what_more_bits_at_once_would_have_given(depth):
    numbers = words(1, 400, 9)
    fast = rounded_gaussian(1e5, numbers, more)
    for i in range(200):
        lengths, angles = int(numbers[0, i]), int(numbers[0, i + 200].astype(np.int64))

        def rest(word, place, depth=depth):
            bits = (word % 2**64) << 192 | more(0, place, 0) << 128 | more(0, place, 1) << 64
            return lambda step: bits >> (192 - depth - 64 * step) & (2**64 - 1)

        extend = rest(lengths, i), rest(angles, i + 200)
        for sine, column in ((False, i), (True, i + 200)):
            found = exact.gaussian(
                100_000, lengths >> (64 - depth), angles >> (64 - depth), extend, sine=sine, depth=depth
            )
            assert found == fast[0, column]


@pytest.mark.parametrize(("draw", "_law", "oracle", "_kind"), LAWS)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e3, 2.0**26, 2.0**36, 2.0**44, 2.0**52])
def test_integers_are_those_of_an_independent_library(draw, _law, oracle, _kind, scale):
    numbers = words(2, 150, 3)
    numbers[0, :8] = [0, 1, 2**64 - 1, 2**63, 2**63 - 1, 2**46, 2**64 - 2**46, 3]  # the far tail, and next to one
    found = draw(scale, numbers, more)
    with mpmath.workprec(400):
        for row, column in np.ndindex(2, 150):
            assert found[row, column] == int(mpmath.floor(oracle(numbers, row, column) * scale + 0.5))


@pytest.mark.parametrize(("draw", "_law", "_oracle", "kind"), LAWS)
def test_float_errors_change_nothing(monkeypatch, draw, _law, _oracle, kind):
    numbers = words(2, 20_000)
    before, real = draw(1e8, numbers, more), kind.fast
    error = np.random.default_rng(1)

    def inexact(law, block):
        return real(law, block) + error.uniform(-0.9, 0.9, block.shape) * RADIUS * 1e8

    monkeypatch.setattr(kind, "fast", inexact)
    assert (draw(1e8, numbers, more) == before).all()
    monkeypatch.setattr(kind, "fast", lambda law, block: np.full(block.shape, np.nan))  # all are open
    assert (draw(1e8, numbers[:, :500], more) == draw(1e8, numbers[:, :500].copy(), more)).all()


@pytest.mark.parametrize(("draw", "_law", "_oracle", "kind"), LAWS)
def test_blocks_rows_and_types_change_nothing(monkeypatch, draw, _law, _oracle, kind):
    numbers = words(5, GROUP + 4242)
    whole = draw(1e7, numbers, more)
    onto = np.arange(whole.size, dtype=np.int32).reshape(whole.shape)
    assert (draw(1e7, numbers, more, onto.copy()) == onto + whole).all()
    for row in range(5):
        alone = draw(1e7, numbers[row : row + 1], lambda _row, place, step, row=row: more(row, place, step))
        assert (alone[0] == whole[row]).all()
    first = draw(1e7, numbers[:, :GROUP], more)
    assert (first == whole[:, :GROUP]).all()


def test_tails_and_saturation():
    numbers = np.zeros((1, 4), np.uint64)  # both lengths beyond 9.4 standard deviations, both angles 0
    draws = rounded_gaussian(1e6, numbers, more)[0]
    assert (draws[:2] > 9.4e6).all() and (draws[:2] < 15e6).all() and (abs(draws[2:]) < 1).all()
    onto = np.full((1, 4), 2**30, np.int32)
    assert (rounded_gaussian(2.0**26, numbers, more, onto)[0, :2] > 2**30).all()
    onto = np.full((1, 4), 2**31 - 5, np.int32)
    assert (rounded_gaussian(2.0**26, numbers, more, onto)[0, :2] == 2**31 - 1).all()


def test_odd_widths_empty_rows_and_no_noise():
    numbers = words(2, 8)
    assert (
        rounded_gaussian(1e6, numbers, more, np.zeros((2, 7), np.int64)) == rounded_gaussian(1e6, numbers, more)[:, :7]
    ).all()
    assert not rounded_gaussian(0.0, numbers, more).any() and not rounded_laplace(0.0, numbers, more).any()
    assert rounded_gaussian(1.0, words(0, 8), more).shape == (0, 8)
    assert rounded_laplace(1.0, words(3, 0), more).shape == (3, 0)


@pytest.mark.parametrize("draw", [rounded_gaussian, rounded_laplace])
def test_impossible_scales_and_shapes_are_refused(draw):
    for scale in (float("nan"), float("inf"), -1.0, 2.0**53):
        with pytest.raises(RecipeError, match="steps of the grid"):
            draw(scale, words(1, 4), more)
    with pytest.raises(RecipeError, match="wider integers"):
        draw(2.0**27, words(1, 4), more, np.zeros((1, 4), np.int32))
    with pytest.raises(ValueError, match="do not make"):
        draw(1.0, words(1, 4), more, np.zeros((1, 6), np.int64))


def test_few_draws_need_exact_arithmetic(monkeypatch):
    asked, real = [], Gaussian.exact
    monkeypatch.setattr(float_draws.Gaussian, "exact", lambda law, *place: asked.append(place) or real(law, *place))
    rounded_gaussian(2.0**26, words(1, 1_000_000), more)
    assert len(asked) < 20
