"""What a paper's own formula says of a run so far, where a printed mechanism is held to it."""

from __future__ import annotations

import numpy as np

from sordino.account.certificate.certificate import ClaimedEpsilon
from sordino.account.ledger.ledger import Ledger
from sordino.events import Guarantee
from sordino.mechanism import Claim
from sordino.types import BoolArray, IntArray


def claimed(claim: Claim | None, ledger: Ledger, delta: float) -> dict[Guarantee, ClaimedEpsilon]:
    """Returns what the paper claims, for each promise; nothing where nobody took part yet."""
    times = _times(claim, ledger)
    if claim is None or not times.max():
        return {}
    told = ClaimedEpsilon(claim.epsilon(int(times.max()), delta), claim.formula)
    return dict.fromkeys(ledger.guarantees, told)


def claim_allows(claim: Claim | None, ledger: Ledger, epsilon: float | None, delta: float) -> BoolArray:
    """Returns whose claimed ε would still be in budget after one more participation."""
    times = _times(claim, ledger)
    if claim is None or epsilon is None:
        return np.ones(len(times), bool)
    counts, where = np.unique(times, return_inverse=True)
    claims = [claim.epsilon(int(n) + 1, delta) for n in counts]
    return (np.array(claims) <= epsilon * (1 + 1e-9))[where]


def _times(claim: Claim | None, ledger: Ledger) -> IntArray:
    """Returns how often each client is counted by the paper's formula so far."""
    participations = ledger.participations[ledger.members]
    if claim is None or not claim.per_round:
        return participations
    return np.full_like(participations, ledger.rounds)
