"""Who masks with whom: everybody with everybody, or a few neighbours on a shuffled ring; and how many that takes."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.stats import hypergeom

from sordino.errors import RecipeError
from sordino.types import IntArray

_SPARSE_FROM = 64


@dataclass(frozen=True)
class Topology:
    """How a cohort is connected: `degree` neighbours each (0: all others), and how many shares recover a secret."""

    threshold: int
    smallest_cohort: int
    degree: int = 0


@dataclass(frozen=True)
class Graph:
    """The neighbourhoods of `size` clients, on a ring that is shuffled by `seed` and links the nearest `degree`.

    The seed is the fingerprint of the signed key list, so every client derives the same graph and nobody deals it out.

    **Formal guarantees**: symmetric and k-regular (a Harary graph); complete where the degree is 0 or reaches the rest.
    A server that could try out 2^g key lists before it shows one gains at most g bits against the bound of `choose`.
    """

    seed: bytes
    size: int
    degree: int = 0

    @cached_property
    def _ring(self) -> IntArray:
        keys = [hashlib.sha256(self.seed + index.to_bytes(8, "little")).digest() for index in range(self.size)]
        return np.array(sorted(range(self.size), key=keys.__getitem__), np.int64)

    @cached_property
    def _place(self) -> IntArray:
        return np.argsort(self._ring)

    @property
    def complete(self) -> bool:
        """Whether everybody is everybody's neighbour."""
        return self.degree == 0 or self.degree >= self.size - 1

    def neighbours(self, index: int) -> IntArray:
        """Returns the neighbours of a client, in increasing order, without itself."""
        holders = self.holders(index)
        return np.delete(holders, np.searchsorted(holders, index))

    def holders(self, index: int) -> IntArray:
        """Returns who holds shares of a client's secrets, in the order of their points: its neighbours and itself."""
        if self.complete:
            return np.arange(self.size)
        reach = self.degree // 2
        return np.sort(self._ring[np.arange(self._place[index] - reach, self._place[index] + reach + 1) % self.size])


@lru_cache(maxsize=256)
def choose(
    clients: int,
    *,
    dropout: float,
    corrupt: float,
    security_bits: int = 40,
    correctness_bits: int = 20,
    lying_server: bool = True,
) -> Topology:
    """Returns the sparsest graph, and a threshold, that are safe for a cohort of this size.

    Args:
        clients: how many are asked.
        dropout: share of them that may vanish, at any stage.
        corrupt: share of them that may work with the server.
        security_bits: σ; what the server and its friends must not learn, they learn with probability ≤ 2^-σ.
        correctness_bits: η; with tolerable dropouts a round is aborted with probability ≤ 2^-η.
        lying_server: whether the threshold must also stop a server that tells two halves of a neighbourhood
            different stories of who is alive, to collect both secrets of the client between them.

    **Formal guarantees**: for any corrupt and any vanishing clients chosen independently of the shuffle:
    (1) no client has `threshold` corrupt neighbours (with `lying_server`: no two groups of `threshold` holders of its
    shares have only corrupt ones in common), (2) those who are neither corrupt nor gone are connected, each with
    failure probability in sum ≤ 2^-σ; (3) every client keeps `threshold` neighbours that answer, but for 2^-η.
    Hypergeometric tails and a union bound over clients, as in the reference. Dropouts before the key list is shown
    make corrupt clients a larger share of it, which (1) allows for.
    **Edge cases**: below 64 clients, and where no sparse graph is safe, the complete one is returned, for which (1) to
    (3) hold with certainty; where even that is impossible, a `RecipeError` says so. A degree is never below 2·log₂ n.
    A server that *chooses* who vanishes after it has seen the graph is beyond (2): against it take the complete graph.
    **Reference**: Bell, Bonawitz, Gascón, Lepoint, Raykova (2020), "Secure Single-Server Aggregation with
    (Poly)Logarithmic Overhead", section 3 and the computation of parameters there.
    """
    bounds = _Bounds(clients, _part(corrupt, clients), _part(dropout, clients), lying_server)
    complete = bounds.complete()  # refuses what is impossible at any degree
    least = 2 * math.ceil(math.log2(clients)) if clients >= _SPARSE_FROM else clients
    for degree in range(least, clients - 1, 2):
        apart = 2.0 ** bounds.disconnected(degree)
        threshold = bounds.highest_threshold(degree, correctness_bits) if apart <= 2.0**-security_bits else 0
        if threshold and apart + 2.0 ** bounds.exposed(degree, threshold) <= 2.0**-security_bits:
            return Topology(threshold, clients - bounds.gone, degree)
    return complete


def _part(share: float, clients: int) -> int:
    return math.floor(round(share * clients, 9))  # 0.29 · 100 is 29, whatever floats say


@dataclass(frozen=True)
class _Bounds:
    """Failure probabilities as binary logarithms, for all clients together."""

    clients: int
    corrupt: int
    gone: int
    lying_server: bool

    def exposed(self, degree: int, threshold: int) -> float:
        """That some client's secrets can be recovered by corrupt holders, or in two stories at once."""
        least = 2 * threshold - (degree + 1) if self.lying_server else threshold
        roster = self.clients - self.gone  # the worst case: all dropouts are honest, and happen first
        tail = hypergeom.logsf(least - 1, roster - 1, min(self.corrupt, roster - 1), degree)
        return float(tail / math.log(2) + math.log2(self.clients))

    def disconnected(self, degree: int) -> float:
        """That degree/2 clients in a row on the ring are corrupt or gone, without which it cannot fall apart."""
        lost, run = self.corrupt + self.gone, degree // 2
        if lost < run:
            return -math.inf
        return math.log2(self.clients) + sum(math.log2((lost - j) / (self.clients - j)) for j in range(run))

    def highest_threshold(self, degree: int, bits: int) -> int:
        """The highest threshold that every client's answering neighbours reach, but for 2^-bits (0: none)."""
        others, stay = self.clients - 1, self.clients - 1 - self.gone
        rare = (-bits - math.log2(self.clients)) * math.log(2)
        too_high = range(1, degree + 2)
        return bisect_left(too_high, True, key=lambda t: hypergeom.logcdf(t - 1, others, stay, degree) > rare)

    def complete(self) -> Topology:
        """The complete graph: certain, if it is possible at all."""
        least = (self.clients + self.corrupt) // 2 + 1 if self.lying_server else self.corrupt + 1
        if not 1 <= least <= self.clients - self.gone:
            raise RecipeError(
                f"no threshold serves {self.clients} clients of whom {self.gone} may vanish and {self.corrupt} may be "
                f"corrupt: {least} must answer; ask more clients, or tolerate less"
            )
        return Topology(least, self.clients - self.gone)
