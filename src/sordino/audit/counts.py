"""From counted guesses to a lower bound on ε that holds with a stated confidence.

A test that decides between two neighbouring inputs is right `hits` times in `positives` trials with the unit, and wrong
`alarms` times in `negatives` trials without it. Any (ε, δ)-private release must have, for *every* test,

    TPR ≤ e^ε·FPR + δ        so        ε ≥ ln((TPR − δ) / FPR).

Clopper–Pearson intervals turn the two counts into bounds on TPR and FPR. The threshold must not have seen the counted
trials: it is chosen on other ones (`threshold.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from sordino.account.accountants import exact as gaussian

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Counts:
    """How a fixed test did on fresh trials of both worlds."""

    hits: float = 0
    positives: float = 0
    alarms: float = 0
    negatives: float = 0

    @property
    def swapped(self) -> Counts:
        """The same test read the other way: it guesses the world without the unit."""
        return Counts(self.negatives - self.alarms, self.negatives, self.positives - self.hits, self.positives)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.hits + other.hits,
            self.positives + other.positives,
            self.alarms + other.alarms,
            self.negatives + other.negatives,
        )


def at_least(hits: float, trials: float, confidence: float) -> float:
    """Returns the one-sided Clopper–Pearson lower bound on a rate."""
    return 0.0 if hits <= 0 else float(special.betaincinv(hits, trials - hits + 1, 1 - confidence))


def at_most(hits: float, trials: float, confidence: float) -> float:
    """Returns the one-sided Clopper–Pearson upper bound on a rate."""
    return 1.0 if hits >= trials else float(special.betaincinv(hits + 1, trials - hits, confidence))


def rates(counts: Counts, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Returns (TPR at least, FPR at most), both at once with the confidence (each takes half of the risk)."""
    each = 1 - (1 - confidence) / 2
    return at_least(counts.hits, counts.positives, each), at_most(counts.alarms, counts.negatives, each)


def epsilon_at_least(counts: Counts, delta: float, confidence: float = CONFIDENCE) -> float:
    """Returns the ε below which the counts refute everything, whatever the mechanism is; 0 when they refute nothing.

    **Formal guarantees**: if the release is (ε, δ)-private, the returned number exceeds ε with probability at most
    1 − confidence.
    **Reference**: Jagielski, Ullman, Oprea (2020), "Auditing Differentially Private Machine Learning".
    """
    tpr, fpr = rates(counts, confidence)
    return max(0.0, math.log((tpr - delta) / fpr)) if tpr > delta else 0.0


def separation_at_least(counts: Counts, confidence: float = CONFIDENCE) -> float:
    """Returns the μ below which the counts refute every μ-GDP claim: Φ⁻¹(TPR) − Φ⁻¹(FPR).

    **Reference**: Nasr et al. (2023), "Tight Auditing of Differentially Private Machine Learning", section 4.
    """
    tpr, fpr = rates(counts, confidence)
    return max(0.0, float(special.ndtri(tpr) - special.ndtri(fpr))) if tpr > 0 and fpr < 1 else 0.0


def gaussian_epsilon_at_least(counts: Counts, delta: float, confidence: float = CONFIDENCE) -> float:
    """Returns the ε at δ of two Gaussians that far apart.

    **Formal guarantees**: those of `epsilon_at_least`, but only if the release is Gaussian (its trade-off curve is that
    of two Gaussians); then it is far tighter.
    """
    return gaussian.epsilon_of(separation_at_least(counts, confidence), delta)


def excess(counts: Counts, curve: Sequence[tuple[float, float]], confidence: float) -> float:
    """Returns by how much TPR surely exceeds what points (ε, δ) of a privacy curve allow (not positive: it does not).

    A certificate is a whole curve δ(ε), and every point of it is a promise: TPR ≤ e^ε·FPR + δ(ε) for all ε. One test
    that breaks any of them refutes the curve, with no assumption about the mechanism. This is far more sensitive than
    a look at a single δ.
    """
    return max(_excess(reading, curve, confidence) for reading in (counts, counts.swapped))


def _excess(counts: Counts, curve: Sequence[tuple[float, float]], confidence: float) -> float:
    tpr, fpr = rates(counts, confidence)
    allowed = [math.exp(min(700.0, epsilon)) * fpr + delta for epsilon, delta in curve]
    return tpr - min([1.0, *allowed])
