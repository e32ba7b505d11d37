"""How much noise a schedule needs whose rounds differ: the whole of it is priced, not one round many times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sordino.account.accountants.calibrate import noise_multiplier_for
from sordino.account.accountants.filter import filter_for
from sordino.adapt.refine import FilterRefit, Line
from sordino.errors import RecipeError
from sordino.events import DpEvent, Guarantee, Unbounded
from sordino.mechanism import Prices
from sordino.mechanisms.facts import Budget, Setting


def lines(setting: Setting, price: Callable[[float], Prices], rounds: int) -> tuple[Line, ...]:
    """Returns every bounded guarantee, with the number of rounds that one client pays for at most."""
    charge, often = setting.selector.charge, min(setting.participations, rounds)

    def line(place: int, guarantee: Guarantee, event: DpEvent) -> Line:
        count = rounds if charge(guarantee, event).payers == "eligible" else often
        return Line(guarantee.adjacency, lambda z: charge(*price(z)[place]).event, count)

    return tuple(
        line(place, guarantee, event)
        for place, (guarantee, event) in enumerate(price(1.0))
        if not isinstance(event, Unbounded)
    )


@dataclass(frozen=True)
class Plan:
    """A schedule of relative noise (`shape`) to be scaled so that it fits the budget.

    **Formal guarantees**: `priced` is the least level with which the accountant prices the whole schedule within the
    budget, to 1e-6 in ε and never above; `filtered` the least with which privacy filters admit it, which is what a
    schedule needs that may be changed under way. Where a client can take part fewer times than there are rounds, the
    dearest rounds are counted.
    **Edge cases**: a noise multiplier that was `given` is taken as it is.
    """

    budget: Budget
    lines: tuple[Line, ...]
    shape: Sequence[float]
    given: float | None = None

    def priced(self, accountant: str | None = None) -> float:
        """Returns the noise multiplier of the first round, for a schedule that will not change."""
        if self.given is not None:
            return self.given

        def least(line: Line) -> float:
            return noise_multiplier_for(
                self._epsilon,
                self.budget.delta,
                lambda z: line.history([z * part for part in self.shape]),
                accountant or self.budget.accountant,
                line.adjacency,
            )

        return max(map(least, self.lines))

    def filtered(self) -> float:
        """Returns the noise multiplier of the first round, for a schedule that may change."""
        return self._settled()[0]

    def refit(self) -> FilterRefit:
        """Returns the rule that finds the rest of the schedule again."""
        return self._settled()[1]

    @property
    def _epsilon(self) -> float:
        if self.budget.epsilon is None:
            raise RecipeError("budget.epsilon is missing: the noise of a schedule is computed from it")
        return self.budget.epsilon

    def _settled(self) -> tuple[float, FilterRefit]:
        """Returns a level and filters that belong together: the books fix a filter's order by the first event."""
        level = self.priced("rdp")
        for _ in range(8):
            filters = [filter_for(self._epsilon, self.budget.delta, x.event(level), x.adjacency) for x in self.lines]
            rule = FilterRefit(tuple(zip(self.lines, filters, strict=True)))
            found = self.given or rule.level((), self.shape) or level
            if math.isclose(found, level, rel_tol=1e-9):
                break
            level = found
        return found, rule
