"""What an audit found, beside what was promised."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sordino.account.accountants.accountant import Curve
from sordino.audit.counts import CONFIDENCE, Counts, epsilon_at_least, excess, gaussian_epsilon_at_least
from sordino.audit.promise import AuditedPromise
from sordino.mechanism import Mechanism

Verdict = Literal["consistent", "violated"]

ALARM = 0.999
"""Confidence with which a test must break the certified curve before the audit says so."""


@dataclass(frozen=True)
class Finding:
    """One guarantee under attack. ε is None where it is infinite, and where nobody states one."""

    mechanism: str
    mode: str
    unit: str
    observer: str
    adjacency: str
    rounds: int
    delta: float
    claimed: float | None
    certified: float | None
    lower_bound: float
    """ε that is refuted below this, at 95 % confidence, whatever the mechanism does (Clopper–Pearson)."""
    gaussian_fit: float | None
    """The same for releases that are certified to be Gaussian: tighter, and only valid if they are (f-DP fit)."""
    curve_broken: bool
    """Whether the certified curve δ(ε) is refuted anywhere, at 99.9 % confidence."""
    verdict: Verdict
    against: str
    """What was held against the attack: `certified`, or a faithful mechanism's `claimed`."""
    test: str
    attack: str
    trials: int
    seconds: float
    settings: tuple[str, ...] = ()
    explanation: str = ""
    """Why the attack succeeds, where a published mechanism is known not to hold."""
    game: str = ""
    """The game of `audit.games` that was played; empty for the white-box game of a mechanism's release."""

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON."""
        return asdict(self) | {"seconds": round(self.seconds, 2)}


@dataclass(frozen=True)
class Evidence:
    """How the chosen tests did on fresh trials, and what they were."""

    telling: tuple[Counts, ...]
    middle: Counts
    test: str
    attack: str
    trials: int


def judge(mechanism: Mechanism, promise: AuditedPromise, rounds: int, found: Evidence, seconds: float) -> Finding:
    """Holds the evidence against what was promised."""
    bound = bound_of(found.telling, promise.delta)
    broken = breaks(promise.curve, (*found.telling, found.middle))
    claimed = mechanism.mode == "faithful" and promise.claimed is not None
    held = promise.claimed if claimed and promise.claimed is not None else promise.certified
    guarantee = promise.guarantee
    return Finding(
        mechanism=mechanism.name,
        mode=mechanism.mode,
        unit=guarantee.unit,
        observer=guarantee.observer,
        adjacency=guarantee.adjacency,
        rounds=rounds,
        delta=promise.delta,
        claimed=promise.claimed,
        certified=promise.certified if math.isfinite(promise.certified) else None,
        lower_bound=bound,
        gaussian_fit=gaussian_epsilon_at_least(found.middle, promise.delta) if promise.gaussian else None,
        curve_broken=broken,
        verdict="violated" if bound > held or broken else "consistent",
        against="claimed" if claimed and (bound > held or not broken) else "certified",
        test=found.test,
        attack=found.attack,
        trials=found.trials,
        seconds=seconds,
    )


def bound_of(telling: Sequence[Counts], delta: float) -> float:
    """Returns the best lower bound on ε of several tests, which share the risk of error."""
    confidence = 1 - (1 - CONFIDENCE) / len(telling)
    return max(epsilon_at_least(counts, delta, confidence) for counts in telling)


def breaks(curve: Curve, tests: Iterable[Counts]) -> bool:
    """Returns whether a test refutes the privacy curve anywhere."""
    points = [(epsilon, curve.delta(epsilon)) for epsilon in _EPSILONS]
    return any(excess(counts, points, ALARM) > 0 for counts in tests)


_EPSILONS = [0.02 * 1.15**k - 0.02 for k in range(55)]
"""Where a certified curve is looked at: from 0 to about 38, finer near 0."""
