"""What a mechanism says about the rounds that are audited: the certified curve, and the paper's claim."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants.accountant import Curve, price
from sordino.account.accountants.history import flatten
from sordino.audit.attack import Path
from sordino.audit.scene import Scene
from sordino.events import DpEvent, Guarantee


@dataclass(frozen=True)
class AuditedPromise:
    """Both numbers that an attack is held against, for exactly the audited rounds."""

    guarantee: Guarantee
    delta: float
    events: tuple[DpEvent, ...]
    """What each round is charged for, and then what came before the first."""
    curve: Curve
    claimed: float | None

    @classmethod
    def of(cls, scene: Scene, guarantee: Guarantee, path: Path) -> AuditedPromise:
        """Prices the mechanism's own quotes."""
        opening = scene.mechanism.opening.price() if scene.mechanism.opening is not None else ()
        events = tuple(charge.event for charge in path.charges(guarantee))
        events += tuple(event for promised, event in opening if promised == guarantee)
        claim = scene.mechanism.claim
        claimed = None if claim is None else claim.epsilon(scene.rounds, scene.delta)
        return cls(guarantee, scene.delta, events, price(Counter(events), "pld", guarantee.adjacency), claimed)

    @property
    def certified(self) -> float:
        """The certified ε; ∞ when nothing is certified."""
        return self.curve.epsilon(self.delta)

    @property
    def gaussian(self) -> bool:
        """Whether the releases are certified to be plain Gaussians, so that a Gaussian fit is fair."""
        return gaussian.separation(flatten(Counter(self.events))) is not None

    @property
    def target(self) -> float:
        """The ε that an attack should be able to see."""
        return self.certified if math.isfinite(self.certified) else self.claimed or 1.0
