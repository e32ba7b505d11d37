"""Gaussian and Laplace noise rounded to integers, with its exact law: fast in floats, decided in integers where open.

Word j of a row holds the first 64 bits of a uniform number; `more` knows the rest. A float evaluation of the draw comes
with a radius of error (`float_draws`). Where all numbers within that radius round to one integer, that is the result;
the others go to `exact`, which draws further bits. So a result is a function of the random bits alone: block sizes,
processors and versions of the float library change none.

**Formal guarantees**: let N be continuous noise and x an integer vector. Then x + round(N) = round(x + N), for rounding
commutes with integer shifts. So a release of x + round(N) is a function of x + N, and post-processing: its privacy is
that of the continuous mechanism on integer vectors, with their L2 (Gaussian) or L1 (Laplace) sensitivity. There are no
low bits left that could tell more.
**Reference**: Mironov (2012), "On Significance of the Least Significant Bits for Differential Privacy"; lazily drawn
bits as in Knuth and Yao (1976); the length and angle of a pair of draws as in Box and Muller (1958).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sordino.errors import RecipeError
from sordino.random.float_draws import GROUP, RADIUS, Gaussian, LaplaceDraws, More
from sordino.types import BoolArray, FloatArray, IntArray, Words

Integers = NDArray[np.int32] | NDArray[np.int64]

LARGEST = {np.dtype(np.int32): 2.0**26, np.dtype(np.int64): 2.0**52}
"""The largest scale of noise that each type of integers can hold."""


def rounded_gaussian(stddev: float, words: Words, more: More, onto: Integers | None = None) -> Integers:
    """Adds round(stddev · N), N standard normal and independent, to integers (or to zeros, as int64).

    **Formal guarantees**: given uniform bits, the law is that of the rounded Gaussian, tails included; with the
    argument of this module, the sum costs what a Gaussian of this stddev costs.
    **Edge cases**: `stddev` 0 changes nothing. Where a draw is so large that the sum leaves its type (beyond 16
    standard deviations), the sum stays at the type's end, which is a function of the sum. Above 2^36 draws get slow.

    Args:
        stddev: standard deviation before rounding, in steps of the grid.
        words: uniform words `[n, width]`, with one more column where the width is odd.
        more: the further bits of each word's number.
        onto: integers `[n, width]` that are added to in place, at most half the range of their type in size.
    """
    out = _target(stddev, words, onto, "stddev")
    if words.shape != (len(out), out.shape[1] + out.shape[1] % 2):
        raise ValueError(f"words of shape {words.shape} do not make draws of shape {out.shape}: a pair takes two words")
    return _add(out, words, Gaussian(stddev, words, more), stddev)


def rounded_laplace(scale: float, words: Words, more: More, onto: Integers | None = None) -> Integers:
    """Adds round(scale · E), E Laplace of scale 1 and independent, to integers (or to zeros, as int64).

    **Formal guarantees**, **Edge cases** and arguments are those of `rounded_gaussian`, with one word for each draw.
    """
    out = _target(scale, words, onto, "scale")
    if words.shape != out.shape:
        raise ValueError(f"words of shape {words.shape} do not make draws of shape {out.shape}: each takes one word")
    return _add(out, words, LaplaceDraws(scale, words, more), scale)


def _target(scale: float, words: Words, onto: Integers | None, name: str) -> Integers:
    out = np.zeros(words.shape, np.int64) if onto is None else onto
    if not 0 <= scale <= LARGEST[out.dtype]:
        raise RecipeError(
            f"the noise's {name} is {scale} steps of the grid: it must lie between 0 and {LARGEST[out.dtype]:.0f}, "
            "so choose a coarser grid or wider integers"
        )
    return out


def _add(out: Integers, words: Words, law: Gaussian | LaplaceDraws, scale: float) -> Integers:
    """Adds the law's rounded draws, block by block."""
    if scale == 0:
        return out
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for rows, columns in _blocks(words.shape):
            part = out[rows, columns]
            whole, left = _rounded(law.fast(words[rows, columns])[:, : part.shape[1]], RADIUS * scale)
            open_rows, open_columns = np.divmod(np.flatnonzero(left), part.shape[1])
            whole[open_rows, open_columns] = 0.0
            part += whole.astype(out.dtype)
            _add_open(out, law, open_rows + rows.start, open_columns + columns.start)
    return out


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Cuts rows into blocks: several short rows at once, or one group of a long one."""
    high = max(1, GROUP // max(1, shape[1]))
    for row in range(0, shape[0], high):
        for column in range(0, shape[1], GROUP):
            yield slice(row, row + high), slice(column, column + GROUP)


def _rounded(values: FloatArray, radius: float | FloatArray) -> tuple[FloatArray, BoolArray]:
    """Returns values rounded to the nearest integer, and which of them could as well round to another one."""
    whole = np.rint(values)
    values -= whole
    np.abs(values, out=values)
    return whole, ~(values < 0.5 - radius)  # a NaN, too, is open


def _add_open(out: Integers, law: Gaussian | LaplaceDraws, rows: IntArray, columns: IntArray) -> None:
    """Adds the draws that the common radius left open: by a radius of their own, and at last in exact arithmetic."""
    if not rows.size:
        return
    whole, left = _rounded(*law.close(rows, columns))
    ends = np.iinfo(out.dtype)
    for row, column, value, open_ in zip(rows, columns, whole, left, strict=True):
        draw = law.exact(int(row), int(column)) if open_ else int(value)
        out[row, column] = min(max(int(out[row, column]) + draw, int(ends.min)), int(ends.max))
