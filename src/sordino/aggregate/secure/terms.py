"""What the clients and the server of one secure sum have agreed on beforehand."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property

from sordino.errors import RecipeError


@dataclass(frozen=True)
class Terms:
    """Public settings of one secure sum; every message and every key is bound to all of them.

    Attributes:
        round_: the round; `attempt` tells apart repetitions of one that was aborted.
        width: number of entries d of a vector.
        modulus_bits: sums are taken modulo 2^modulus_bits.
        threshold: how many shares recover a secret.
        smallest_cohort: fewest survivors of which a sum is released.
        degree: neighbours of each client in the sparse graph; 0 for the complete graph.
        reveals: whether survivors reveal a removable part of their vectors when they unmask.
        federation: name of the federation.

    **Formal guarantees**: two parties that differ in any of these share no key, and accept no message of each other.
    """

    round_: int
    width: int
    modulus_bits: int
    threshold: int
    smallest_cohort: int
    degree: int = 0
    reveals: bool = False
    attempt: int = 0
    federation: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= self.smallest_cohort:
            raise RecipeError(
                f"threshold {self.threshold} must lie between 1 and the smallest cohort {self.smallest_cohort}"
            )
        if not (1 <= self.modulus_bits <= 64 and 1 <= self.width < 2**32):
            raise RecipeError("modulus_bits must lie between 1 and 64, and width between 1 and 2^32 − 1")
        if self.degree % 2 or not 0 <= self.degree < 2**32 or 0 < self.degree < self.threshold:
            raise RecipeError(f"degree {self.degree} must be 0 (complete graph), or even and at least the threshold")
        if not (0 <= self.round_ < 2**64 and 0 <= self.attempt < 2**32):
            raise RecipeError(f"round {self.round_} and attempt {self.attempt} must not be negative")

    @cached_property
    def context(self) -> bytes:
        """A fingerprint of everything above, which separates the domains of all keys and signatures."""
        numbers = (self.round_, self.width, self.modulus_bits, self.threshold, self.smallest_cohort, self.degree)
        packed = struct.pack("<8Q", *numbers, self.reveals, self.attempt)
        return hashlib.sha256(b"sordino secure sum 1" + packed + self.federation.encode()).digest()[:16]
