"""What the clients and the server of one secure sum have agreed on beforehand."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from sordino.aggregate.secure.errors import Malformed
from sordino.errors import RecipeError
from sordino.types import whole_part

VERSION = 4
"""Version of the protocol: of its messages, its keys and its checks."""

_NUMBERS = struct.Struct("<11Q32s")
_U64 = struct.Struct("<Q")
MOST_CLIENTS = 1 << 20


@dataclass(frozen=True)
class SumMechanism:
    """What the clients put into a sum, as far as its privacy rests on it. Its digest is part of the terms."""

    clip_norm: float
    scale: float
    noise: float
    least_survivors: int
    colluders: int
    modulus_bits: int

    @property
    def digest(self) -> bytes:
        """32 bytes that differ whenever one of the numbers does."""
        numbers = struct.pack("<3d3Q", self.clip_norm, self.scale, self.noise, self.least_survivors, self.colluders,
                              self.modulus_bits)  # fmt: skip
        return hashlib.sha256(b"sordino sum mechanism" + numbers).digest()


@dataclass(frozen=True)
class SumTerms:
    """Public settings of one secure sum; every message and every key is bound to all of them.

    Attributes:
        round_: the round; `attempt` tells apart repetitions of one that was aborted.
        clients: ids of the invited clients, increasing. Nobody else can be in the sum.
        width: number of entries d of a vector.
        modulus_bits: sums are taken modulo 2^modulus_bits.
        threshold: how many shares recover a secret.
        smallest_cohort: fewest clients of which a sum can be opened.
        degree: how many holders of its shares a client draws for itself; 0 for all others (the complete graph).
        margin: how many consenting clients a lying server may leave out of the sum (see `graph.choose`); 0 if complete.
        corrupt: how many of the invited clients may work with the server.
        reveals: whether survivors reveal a removable part of their vectors when they unmask.
        mechanism: digest of what the clients put in (`SumMechanism.digest`).
        federation: name of the federation.
        run: name of the run; another run of the same federation is another domain.
        tagged: whether consents carry a tag for each reader instead of one signature for all: a third of a client's
            work, and 16 bytes for each other client.

    **Formal guarantees**: two parties that differ in any of these share no key, and accept no message of each other.
    """

    round_: int
    clients: tuple[int, ...]
    width: int
    modulus_bits: int
    threshold: int
    smallest_cohort: int
    degree: int = 0
    margin: int = 0
    corrupt: int = 0
    reveals: bool = False
    attempt: int = 0
    mechanism: bytes = bytes(32)
    federation: str = ""
    run: str = ""
    tagged: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= self.smallest_cohort:
            raise RecipeError(
                f"threshold {self.threshold} must lie between 1 and the smallest cohort {self.smallest_cohort}"
            )
        if not (1 <= self.modulus_bits <= 64 and 1 <= self.width < 2**32):
            raise RecipeError("modulus_bits must lie between 1 and 64, and width between 1 and 2^32 − 1")
        if not 0 <= self.degree < 2**32 or 0 < self.degree < self.threshold - 1:
            raise RecipeError(f"degree {self.degree} must be 0 (complete graph) or at least the threshold less one")
        if not (0 <= self.round_ < 2**64 and 0 <= self.attempt < 2**32):
            raise RecipeError(f"round {self.round_} and attempt {self.attempt} must not be negative")
        ids = self.clients
        if not (0 < len(ids) <= MOST_CLIENTS and ids[0] >= 0 and ids[-1] < 2**64):
            raise RecipeError("clients must be 1 to 2^20 ids from 0 to 2^64 − 1: check who is invited")
        if any(a >= b for a, b in pairwise(ids)):
            raise RecipeError("clients must be distinct ids in increasing order: sort who is invited")
        if not (0 <= self.margin < 2**32 and 0 <= self.corrupt < 2**32 and len(self.mechanism) == 32):
            raise RecipeError("margin and corrupt must not be negative, and mechanism must be a digest of 32 bytes")
        if max(len(self.federation.encode()), len(self.run.encode())) > 255:
            raise RecipeError("the names of federation and run must be shorter than 256 bytes")

    @property
    def consents(self) -> int:
        """How many signed consents a client wants to see, its own included, before it unmasks anything."""
        return self.smallest_cohort + self.margin

    @property
    def holders(self) -> int:
        """Most holders that a client's shares can have, itself included."""
        return min(self.degree + 1, len(self.clients)) if self.degree else len(self.clients)

    @cached_property
    def invited(self) -> frozenset[int]:
        """The invited ids, for looking up."""
        return frozenset(self.clients)

    @cached_property
    def context(self) -> bytes:
        """A fingerprint of everything above, 256 bits, which separates the domains of all keys and signatures."""
        return hashlib.sha256(b"sordino secure sum %d" % VERSION + self.pack()).digest()

    @cached_property
    def occasion(self) -> bytes:
        """A fingerprint of (federation, run, round): what a client takes part in once, attempt by attempt."""
        names = [name.encode() for name in (self.federation, self.run)]
        parts = b"".join(_U64.pack(len(name)) + name for name in names)
        return hashlib.sha256(b"sordino occasion" + parts + _U64.pack(self.round_)).digest()

    def pack(self) -> bytes:
        """Returns all of it as bytes, to be sent to a client."""
        numbers = (self.round_, self.width, self.modulus_bits, self.threshold, self.smallest_cohort, self.degree,
                   self.margin, self.corrupt, self.reveals, self.attempt, self.tagged)  # fmt: skip
        names = b"".join(bytes([len(name.encode())]) + name.encode() for name in (self.federation, self.run))
        ids = struct.pack(f"<{len(self.clients)}Q", *self.clients)
        return _NUMBERS.pack(*numbers, self.mechanism) + names + ids

    @classmethod
    def parse(cls, data: bytes) -> SumTerms:
        """Reads what `pack` writes; anything else is `Malformed`."""
        if not _NUMBERS.size + 2 <= len(data) <= _NUMBERS.size + 512 + 8 * MOST_CLIENTS:
            raise Malformed(f"terms cannot have {len(data)} bytes: they were truncated or padded")
        *numbers, mechanism = _NUMBERS.unpack_from(data)
        round_, width, bits, threshold, cohort, degree, margin, corrupt, reveals, attempt, tagged = numbers
        names, rest = [], data[_NUMBERS.size :]
        for _ in range(2):
            size = rest[0] if rest else 0
            names.append(rest[1 : 1 + size])
            rest = rest[1 + size :]
        if max(reveals, tagged) > 1 or len(rest) % 8:
            raise Malformed("these terms are none that this version writes: update both sides")
        ids = struct.unpack(f"<{len(rest) // 8}Q", rest)
        try:
            terms = cls(round_, ids, width, bits, threshold, cohort, degree, margin, corrupt, bool(reveals), attempt,
                        mechanism, names[0].decode(), names[1].decode(), bool(tagged))  # fmt: skip
        except (RecipeError, UnicodeDecodeError) as error:
            raise Malformed(f"these terms are impossible: {error}") from error
        if terms.pack() != data:
            raise Malformed("these terms are none that this version writes: update both sides")
        return terms


def part(share: float, clients: int) -> int:
    """Returns a share of so many clients in whole clients: 0.29 of 100 is 29, whatever floats say."""
    if not (math.isfinite(share) and 0 <= share <= 1):
        raise RecipeError(f"a share of the clients is {share}: it must lie between 0 and 1")
    return whole_part(share, clients)


def client_ids(clients: Iterable[int]) -> tuple[int, ...]:
    """Returns ids as terms list them: increasing."""
    return tuple(sorted(int(client) for client in clients))
