"""Who holds whose shares: everybody everybody's, or a few that each client draws for itself; and how many it takes."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaln
from scipy.stats import hypergeom

from sordino.aggregate.secure.terms import part
from sordino.errors import RecipeError
from sordino.types import IntArray

SPARSE_FROM = 400
"""Cohorts of fewer clients get the complete graph."""

_MARGIN = 8  # at most an eighth of the tolerated dropouts is given up for the margin


@dataclass(frozen=True)
class Topology:
    """How a cohort is connected, and how many answers each step wants (see `SumTerms` for the fields)."""

    threshold: int
    smallest_cohort: int
    degree: int = 0
    margin: int = 0
    corrupt: int = 0

    @property
    def consents(self) -> int:
        """How many clients must consent, and so survive."""
        return self.smallest_cohort + self.margin


def draw_holders(key: bytes, size: int, place: int, degree: int) -> IntArray:
    """Returns the places of those who hold a client's shares, in increasing order, itself included.

    On a sparse graph a client draws `degree` others from a key that nobody else knows, once it has been shown the
    roster: the server can neither choose them nor try again.

    **Formal guarantees**: every set of `degree` others is equally likely, up to the pseudo-randomness of SHAKE-256 and
    a chance of a tie below size²·2^-65.
    """
    if degree == 0 or degree >= size - 1:
        return np.arange(size)
    lots = np.frombuffer(hashlib.shake_256(b"holders" + key).digest(8 * size), np.dtype("<u8")).copy()
    lots[place] = 0  # itself, always
    return np.sort(np.argsort(lots, kind="stable")[: degree + 1])


@lru_cache(maxsize=256)
def choose(
    clients: int,
    *,
    dropout: float,
    corrupt: float,
    security_bits: int = 40,
    correctness_bits: int = 20,
    sparse_from: int = SPARSE_FROM,
) -> Topology:
    """Returns the sparsest graph, with its threshold and margin, that is safe for a cohort of this size.

    Args:
        clients: how many are invited.
        dropout: share of them that may vanish, at any stage.
        corrupt: share of them that may work with the server.
        security_bits: σ; what the server and its friends must not learn, they learn with probability ≤ 2^-σ.
        correctness_bits: η; with tolerable dropouts a round is aborted with probability ≤ 2^-η.
        sparse_from: below so many clients the graph is complete.

    **Formal guarantees**: for any corrupt clients that were so before holders are drawn, and a server that lies as it
    likes (`docs/secure-aggregation.md` has the proof): (1) any two groups of `threshold` holders of a client's shares
    have an honest one in common; (2) no set of clients can be cut off and opened that lacks more than `margin` of
    those who consented; each with failure probability in sum ≤ 2^-σ; (3) every client keeps `threshold` holders that
    answer, but for 2^-η.
    **Edge cases**: below `sparse_from` clients, and where no sparse graph is safe, the complete graph is returned, for
    which (1) to (3) hold with certainty; where even that is impossible, a `RecipeError` says so. On a sparse graph
    `smallest_cohort + margin` clients must consent, so `margin` fewer may vanish than on a complete one.
    **Reference**: Bell, Bonawitz, Gascón, Lepoint, Raykova (2020), "Secure Single-Server Aggregation with
    (Poly)Logarithmic Overhead", section 4 (malicious server: clients draw their own neighbours) and the tails there.
    """
    bad, gone = part(corrupt, clients), part(dropout, clients)
    complete = _complete(clients, bad, gone)  # refuses what is impossible at any degree
    least = 2 * math.ceil(math.log2(clients)) if clients >= sparse_from else clients
    for degree in range(least, clients // 2):
        threshold = _highest_threshold(clients, gone, degree, correctness_bits)
        margin = _least_margin(clients, bad, degree, threshold, clients - gone, security_bits)
        if 1 <= threshold <= clients - gone and margin is not None:
            return Topology(threshold, clients - gone, degree, margin, bad)
    return complete


@lru_cache(maxsize=1024)
def sparse_is_safe(
    clients: int, corrupt: int, degree: int, threshold: int, smallest_cohort: int, margin: int, security_bits: int
) -> bool:
    """Whether clients that draw so many holders are safe but for 2^-security_bits: what a client checks for itself."""
    consents = smallest_cohort + margin
    if not 0 < degree < consents <= clients:
        return False
    failures = exposed(clients, corrupt, degree, threshold, consents), cut_off(clients, corrupt, degree, threshold,
                                                                              consents, margin)  # fmt: skip
    return bool(np.logaddexp2(*failures) <= -security_bits)


def exposed(clients: int, corrupt: int, degree: int, threshold: int, consents: int) -> float:
    """log₂ of the chance that some client draws 2t − k − 1 corrupt holders or more, whereby two groups can collude.

    All who consent are in the roster, so it has `consents` clients at least; the fewer, the larger the corrupt share.
    """
    if not corrupt:
        return -math.inf if 2 * threshold > degree + 1 else 0.0
    tail = hypergeom.logsf(2 * threshold - degree - 2, consents - 1, min(corrupt, consents - 1), degree)
    return float(tail / math.log(2) + math.log2(clients))


def cut_off(clients: int, corrupt: int, degree: int, threshold: int, consents: int, margin: int) -> float:
    """log₂ of the chance that a server can open a sum that lacks more than `margin` of those who consented.

    It would need honest clients A, B (|B| > margin, A and B together all honest ones that consent) such that nobody in
    A drew anybody in B; it may choose both after it has seen what was drawn. |A| ≥ k + 2 − t, the honest holders that
    it takes to open one of them. A union bound over all A and B, each with its exact chance; they are counted among all
    clients, so that it holds for every number of corrupt ones up to `corrupt`, and whoever they are.
    """
    a = np.arange(degree + 2 - threshold, clients - margin)
    if len(a) == 0 or a[0] < 1:
        return 0.0 if len(a) else -math.inf
    b = np.maximum(margin + 1, consents - corrupt - a)
    fits = a + b <= clients
    a, b = a[fits], b[fits]
    if len(a) == 0:
        return -math.inf
    sets = _log_choose(clients, a) + _log_choose(clients - a, b)
    others = clients - 1
    avoid = np.where(others - b >= degree, _log_choose(np.maximum(others - b, degree), degree), -np.inf)
    return float(np.logaddexp.reduce(sets + a * (avoid - _log_choose(others, degree))) / math.log(2))


def _log_choose(n: IntArray | int, k: IntArray | int) -> np.ndarray:
    n, k = np.asarray(n, np.float64), np.asarray(k, np.float64)
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def _least_margin(
    clients: int, corrupt: int, degree: int, threshold: int, smallest_cohort: int, security_bits: int
) -> int | None:
    """The smallest margin with which this degree is safe, or None if it took too much of what may vanish."""
    most = (clients - smallest_cohort) // _MARGIN
    if threshold < 1 or exposed(clients, corrupt, degree, threshold, smallest_cohort + most) > -security_bits:
        return None
    for margin in range(most + 1):
        if sparse_is_safe(clients, corrupt, degree, threshold, smallest_cohort, margin, security_bits):
            return margin
    return None


def _highest_threshold(clients: int, gone: int, degree: int, bits: int) -> int:
    """The highest threshold that every client's answering holders reach, but for 2^-bits (0: none)."""
    others, stay = clients - 1, clients - 1 - gone
    rare = (-bits - math.log2(clients)) * math.log(2)
    too_high = range(1, degree + 2)
    return bisect_left(too_high, True, key=lambda t: hypergeom.logcdf(t - 1, others, stay, degree) > rare)


def _complete(clients: int, corrupt: int, gone: int) -> Topology:
    """The complete graph: certain, if it is possible at all."""
    least = (clients + corrupt) // 2 + 1
    if not 1 <= least <= clients - gone:
        raise RecipeError(
            f"no threshold serves {clients} clients of whom {gone} may vanish and {corrupt} may be "
            f"corrupt: {least} must answer; ask more clients, or tolerate less"
        )
    return Topology(least, clients - gone, corrupt=corrupt)
