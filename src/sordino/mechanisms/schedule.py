"""How much noise a schedule needs whose rounds differ: the whole of it is priced, not one round many times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sordino.account.accountants.filter import filter_for
from sordino.account.accountants.target import PrivacyTarget
from sordino.adapt.refine import FilterRefit, dearest
from sordino.mechanisms.facts import PaidRelease


@dataclass(frozen=True)
class SchedulePlan:
    """A schedule of relative noise (`shape`) to be scaled so that it fits the budget.

    **Formal guarantees**: `priced` is the least level with which the accountant prices the whole schedule within the
    budget, to 1e-6 in ε and never above; `filtered` the least with which privacy filters admit it, which is what a
    schedule needs that may be changed under way. Where a client can take part fewer times than there are rounds, the
    dearest rounds are counted.
    **Edge cases**: a noise multiplier that was `given` is taken as it is.
    """

    target: PrivacyTarget
    releases: tuple[PaidRelease, ...]
    shape: Sequence[float]
    given: float | None = None

    def priced(self, accountant: str | None = None) -> float:
        """Returns the noise multiplier of the first round, for a schedule that will not change."""
        if self.given is not None:
            return self.given

        def least(release: PaidRelease) -> float:
            return self.target.least_noise(
                lambda z: dearest(release, [z * part for part in self.shape]), accountant, release.adjacency
            )

        return max(map(least, self.releases))

    def filtered(self) -> float:
        """Returns the noise multiplier of the first round, for a schedule that may change."""
        return self._settled()[0]

    def refit(self) -> FilterRefit:
        """Returns the rule that finds the rest of the schedule again."""
        return self._settled()[1]

    @property
    def _epsilon(self) -> float:
        return self.target.limit("mechanism.noise_multiplier")

    def _settled(self) -> tuple[float, FilterRefit]:
        """Returns a level and filters that belong together: the books fix a filter's order by the first event."""
        level = self.priced("rdp")
        for _ in range(8):
            filters = [filter_for(self._epsilon, self.target.delta, x.event(level), x.adjacency) for x in self.releases]
            rule = FilterRefit(tuple(zip(self.releases, filters, strict=True)))
            found = self.given or rule.level((), self.shape) or level
            if math.isclose(found, level, rel_tol=1e-9):
                break
            level = found
        return found, rule
