"""Integer logarithms, cosines and sines against an independent library, well inside their slack."""

import random

import mpmath
import pytest

from sordino.random.fixed_point import SLACK, cosine_and_sine, minus_log


@pytest.mark.parametrize("depth", [1, 4, 63, 64, 128, 700, 4000])
def test_results_are_within_the_slack(depth):
    draw, bits = random.Random(depth), depth + 64
    drawn = [draw.randrange(1, 2**depth + 1) for _ in range(20)]
    small = [draw.randrange(1, 2 ** min(depth, 10)) for _ in range(5)]
    with mpmath.workprec(3 * bits + 100):
        unit = mpmath.mpf(2) ** bits
        for number in [1, 2**depth, 2**depth - 1 or 1, *drawn, *small]:
            x = mpmath.mpf(number) / mpmath.mpf(2) ** depth
            assert abs(minus_log(number, depth, bits) + mpmath.log(x) * unit) < SLACK / 16
        for number in [0, 1, -1, 2 ** (depth - 1), -(2 ** (depth - 1)), *(n - 2 ** (depth - 1) for n in drawn)]:
            angle = 2 * mpmath.pi * number / mpmath.mpf(2) ** depth
            cosine, sine = cosine_and_sine(number, depth, bits)
            assert abs(cosine - mpmath.cos(angle) * unit) < SLACK / 16
            assert abs(sine - mpmath.sin(angle) * unit) < SLACK / 16
