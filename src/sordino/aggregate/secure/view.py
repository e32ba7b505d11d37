"""What every party of a secure sum can compute from the roster: places, neighbours, fingerprints."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sordino.aggregate.secure.graph import Graph
from sordino.aggregate.secure.messages import Roster
from sordino.aggregate.secure.terms import Terms
from sordino.types import BoolArray, IntArray


@dataclass(frozen=True)
class View:
    """The roster as one party was shown it, and the graph that follows from it."""

    terms: Terms
    roster: Roster

    @cached_property
    def fingerprint(self) -> bytes:
        """A fingerprint of the terms and the whole roster, signatures included."""
        return hashlib.sha256(self.terms.context + self.roster.pack()).digest()

    @cached_property
    def graph(self) -> Graph:
        """Who is whose neighbour."""
        return Graph(self.fingerprint, self.size, self.terms.degree)

    @property
    def size(self) -> int:
        """How many clients the roster has."""
        return len(self.roster.entries)

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of each client in the roster, by id."""
        return {entry.client: place for place, entry in enumerate(self.roster.entries)}

    def client(self, place: int) -> int:
        """Returns the id of the client at a place."""
        return self.roster.entries[place].client

    def clients(self, flags: BoolArray) -> IntArray:
        """Returns the ids of the clients that are flagged."""
        return np.array([self.client(int(place)) for place in np.flatnonzero(flags)], np.int64)

    def agreed(self, sharers: BoolArray, alive: BoolArray) -> bytes:
        """Returns what clients consent to: the roster, who shared secrets, and who is alive."""
        parts = self.fingerprint + np.packbits(sharers).tobytes() + np.packbits(alive).tobytes()
        return hashlib.sha256(b"consent" + parts).digest()

    def near(self, place: int, flags: BoolArray) -> IntArray:
        """Returns the flagged neighbours of a client."""
        neighbours = self.graph.neighbours(place)
        return neighbours[flags[neighbours]]


def commitment(terms: Terms, client: int, seed: bytes) -> bytes:
    """Returns what a client publishes of its self-mask seed, so that a wrong share of it is noticed."""
    return hashlib.sha256(b"seed" + terms.context + client.to_bytes(8, "little") + seed).digest()
