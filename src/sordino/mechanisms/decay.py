"""Noise that is expected to fall a few times: what that plan releases, and where it must begin to fit the budget."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from sordino.account.accountants.exact import separation_for
from sordino.account.accountants.filter import filter_for
from sordino.account.accountants.target import PrivacyTarget
from sordino.adapt.geometric import relative
from sordino.errors import RecipeError
from sordino.events import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent
from sordino.perturb.steps import AnswerCount, step_event

_LEAST, _MOST = math.log(1e-2), math.log(1e6)


@dataclass(frozen=True)
class Decay:
    """A client that takes part in every round, while noise falls `decays` times, evenly spread."""

    rounds: int
    sampling_rate: float
    steps: int
    factor: float
    decays: int
    histogram: float | None
    count: AnswerCount | None

    def plan(self, noise_multiplier: float) -> DpEvent:
        """Returns all that is released of the client if noise begins at this multiplier."""
        events: list[DpEvent] = [] if self.histogram is None else [GaussianDpEvent(self.histogram)]
        if self.count is not None and self.count.noise_multiplier > 0:
            looks = GaussianDpEvent(self.count.noise_multiplier)
            events.append(SelfComposedDpEvent(looks, self.rounds // self.count.every))
        for level, part in enumerate(np.array_split(np.arange(self.rounds), self.decays + 1)):
            noise = noise_multiplier * self.factor**level
            events.append(step_event(noise, self.sampling_rate, self.steps * len(part)))
        return ComposedDpEvent(tuple(events))

    def least_noise(self, target: PrivacyTarget) -> float:
        """Returns the least multiplier to begin with: the run's filter admits its plan, and nothing is left over.

        Raises:
            RecipeError: histograms and counts alone are more than the budget.
        """
        if self._excess(_MOST, target) > 0:
            raise RecipeError(
                "mechanism.histogram_noise and mechanism.count_noise leave nothing of budget.epsilon: raise them, or "
                "leave them out"
            )
        if self._excess(_LEAST, target) <= 0:
            return math.exp(_LEAST)
        root = float(brentq(self._excess, _LEAST, _MOST, (target,), xtol=1e-9))
        while self._excess(root, target) > 0:
            root += 1e-9
        return math.exp(root)

    def least_scheduled(self, target: PrivacyTarget, theta: float, most: int) -> float:
        """Returns the least first multiplier of a schedule θ^((m−1)/2) that is fixed beforehand, histogram included.

        A client takes part in `most` rounds at most: the dearest of them are priced.
        """
        opening = {} if self.histogram is None else {GaussianDpEvent(self.histogram): 1}

        def history(first: float) -> dict[DpEvent, int]:
            levels = sorted(first * relative(theta, m) for m in range(1, self.rounds + 1))[:most]
            return {**opening, **Counter(step_event(z, self.sampling_rate, self.steps) for z in levels)}

        return target.least_noise(history)

    def _excess(self, log_noise: float, target: PrivacyTarget) -> float:
        planned = self.plan(math.exp(log_noise))
        chosen = filter_for(target.epsilon or 0.0, target.delta, planned, "add_remove")
        share = chosen.cost(planned, "add_remove") / max(chosen.capacity, 1e-300)
        return math.log(share) if math.isfinite(share) else 700.0


def side_noise(target: PrivacyTarget, share: float, releases: int = 1) -> float:
    """Returns the noise multiplier with which so many Gaussians take this share of the budget's μ²."""
    epsilon = target.limit("mechanism.histogram_noise and mechanism.count_noise")
    return math.sqrt(releases / share) / separation_for(epsilon, target.delta)
