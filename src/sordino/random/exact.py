"""The rounded value of a draw whose first bits leave it open: more bits are drawn until only one integer is possible.

No floating point is involved. Random bits give an interval around each uniform number, integer arithmetic an interval
around the draw; both shrink until they round to one integer.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

from sordino.random.fixed_point import SLACK, cosine_and_sine, minus_log

Extend = Callable[[int], int]
"""Returns the next 64 bits of a uniform number, for step 0, 1, 2, …; the same step gives the same bits."""

_WORD = 64
_GUARD = 64
_TURN_ERROR = 7
"""Above 2π: how far the angle can lie from its lower end, in units of the angle's last random bit."""

Interval = tuple[int, int]


def gaussian(
    stddev: Fraction, radius: int, angle: int, extend: tuple[Extend, Extend], *, sine: bool, depth: int = 64
) -> int:
    """Returns round(stddev · √(−2 ln U) · cos 2πV), or with the sine.

    U lies in [radius, radius + 1]·2^−depth and V in [angle, angle + 1]·2^−depth; radius is in [0, 2^depth) and angle in
    [−2^(depth−1), 2^(depth−1)).
    """
    step = 0
    while True:
        bits = depth + _GUARD
        if radius:
            low, high = _minus_log(radius, depth, bits)
            length = isqrt(2 * low << bits), isqrt(2 * high << bits) + 1
            middle = cosine_and_sine(angle, depth, bits)[sine]
            error = (_TURN_ERROR << _GUARD) + SLACK
            decided = _rounded(stddev, _product(length, (middle - error, middle + error)), 2 * bits)
            if decided is not None:
                return decided
        radius, angle = radius << _WORD | extend[0](step), angle << _WORD | extend[1](step)
        step, depth = step + 1, depth + _WORD


def laplace(scale: Fraction, size: int, extend: Extend, depth: int = 63) -> int:
    """Returns round(−scale · ln U), U in [size, size + 1]·2^−depth: the size of a Laplace draw, without its sign."""
    step = 0
    while True:
        bits = depth + _GUARD
        if size:
            decided = _rounded(scale, _minus_log(size, depth, bits), bits)
            if decided is not None:
                return decided
        size = size << _WORD | extend(step)
        step, depth = step + 1, depth + _WORD


def _minus_log(prefix: int, depth: int, bits: int) -> Interval:
    """Encloses −ln U for all U in [prefix, prefix + 1]·2^−depth."""
    return max(0, minus_log(prefix + 1, depth, bits) - SLACK), minus_log(prefix, depth, bits) + SLACK


def _product(size: Interval, factor: Interval) -> Interval:
    """Encloses the product of an interval of numbers ≥ 0 with any interval."""
    return min(size[0] * factor[0], size[1] * factor[0]), max(size[0] * factor[1], size[1] * factor[1])


def _rounded(scale: Fraction, interval: Interval, bits: int) -> int | None:
    """Returns the one integer to which all numbers in scale · interval · 2^−bits round, or nothing if there are two."""
    whole = scale.denominator << bits
    first, last = ((2 * scale.numerator * end + whole) // (2 * whole) for end in interval)
    return first if first == last else None
