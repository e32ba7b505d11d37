"""Logarithms, cosines and sines in integer arithmetic, each with a proven error: the last word where floats fall short.

A number x is held as the integer part of x·2^bits. All functions are off by less than `SLACK` such units, at every
precision up to 2^14 bits: no sum below has more than 2^13 terms, and no term is off by more than 64 units.
"""

from __future__ import annotations

from functools import lru_cache

SLACK = 2**20
"""Every result is within this many units of the truth."""


def minus_log(numerator: int, depth: int, bits: int) -> int:
    """Returns −ln(numerator / 2^depth) · 2^bits, within SLACK, for a number in (0, 1].

    The number is f·2^−s with f in [1, 2), and ln f = 2·artanh q with q = (f − 1)/(f + 1) ≤ 1/3. The halvings s are at
    most `depth`, so their share of the error is below 2·depth units.
    """
    length = numerator.bit_length() - 1
    power = 1 << length
    fraction = ((numerator - power) << bits) // (numerator + power)
    return (depth - length) * _log_two(bits) - 2 * _artanh(fraction, bits)


def cosine_and_sine(numerator: int, depth: int, bits: int) -> tuple[int, int]:
    """Returns cos and sin of 2π·numerator/2^depth, times 2^bits, within SLACK, for at most half a turn either way.

    Both Taylor series at once. The angle is at most 3.15, so no term exceeds 5.2; a term's error is its predecessor's
    times angle/k, plus under 6 units for the angle's own error: it stays below 64.
    """
    angle = (2 * _pi(bits) * abs(numerator)) >> depth
    parts, term, k = [0, 0], 1 << bits, 0
    while term:
        parts[k % 2] += -term if k % 4 in (2, 3) else term
        k += 1
        term = (term * angle >> bits) // k
    return parts[0], parts[1] if numerator >= 0 else -parts[1]


def _artanh(fraction: int, bits: int) -> int:
    """Returns artanh of a number in [0, 1/3]: q + q³/3 + q⁵/5 + …, each term rounded down and off by under 3 units."""
    square, power, total, k = fraction * fraction >> bits, fraction, 0, 1
    while power:
        total += power // k
        power, k = power * square >> bits, k + 2
    return total


@lru_cache(maxsize=64)
def _log_two(bits: int) -> int:
    """Returns ln 2 = 2·artanh(1/3), off by under 2 units (32 guard bits)."""
    guard = bits + 32
    return 2 * _artanh((1 << guard) // 3, guard) >> 32


@lru_cache(maxsize=64)
def _pi(bits: int) -> int:
    """Returns π = 16·arctan(1/5) − 4·arctan(1/239) (Machin), off by under 2 units (32 guard bits)."""
    guard = bits + 32
    return 4 * (4 * _arctan_inverse(5, guard) - _arctan_inverse(239, guard)) >> 32


def _arctan_inverse(x: int, bits: int) -> int:
    """Returns arctan(1/x) for an integer x: 1/x − 1/(3x³) + …, each term off by under 2 units."""
    power, total, k = (1 << bits) // x, 0, 1
    while power:
        total += -(power // k) if k % 4 == 3 else power // k
        power, k = power // (x * x), k + 2
    return total
