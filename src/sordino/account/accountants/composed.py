"""Loss distributions composed by Fourier transforms, right at any δ.

A convolution by transforms is right to some units of the whole mass, and not of each number in it: far out, where a δ
of 10⁻¹² is decided, what comes out is rounding, and may be negative. Where that is more than 3·10⁻⁵ of δ, masses are
weighted by e^{λ·loss} first: their middle is then near the ε that is asked for, and e^{−λ·loss} takes the weights
off again, and most of the rounding with them.

**Formal guarantees.** Let m be the masses of an event, M = Σ m·e^{λ·loss} and m′ = m·e^{λ·loss}/M. Then T events have
δ(ε) = P(∞) + M^T·Σ_{loss > ε} (1 − e^{ε−loss})·e^{−λ·loss}·m′₍T₎(loss). Write u = 2⁻⁵³, n for the length of the circle
of grid points on which m′₍T₎ is computed, and η = 8u·log₂n. Every number of a transform is off by at most η: it is a
sum of masses, together 1, that pass log₂n stages of a few roundings each (Higham 2002, §24.1). So a product of T
transforms X is off by at most η·Σ_t Π_{s≠t}|X_s| (which leaves room for the rounding of powers), by Parseval m′₍T₎ by
its root mean square in 2-norm, and by η·‖m′₍T₎‖₂ more for the way back. With factors of at most e^{−λε} each the sum is
off by at most M^T·e^{−λε}·√n times that (Cauchy and Schwarz), which is added. Losses below the circle come in again on
it, which only adds; those above are bounded by moments (Chernoff), and added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import fft

from sordino.account.accountants.profile import Losses
from sordino.types import FloatArray

_UNIT = 8 * 2.0**-53
_SHARE = 3e-5
"""Share of δ that rounding may be before masses are weighted."""
_ORDERS: FloatArray = np.concatenate([-(2.0 ** np.arange(9, -4, -0.5)), [0.0], 2.0 ** np.arange(-3, 9.25, 0.25)])
"""Orders λ at which moments are known: weights from 0 on, and what bounds the mass beyond an end of the circle."""
_UNWEIGHTED = int(np.argmin(np.abs(_ORDERS)))
_FEW = np.arange(_UNWEIGHTED % 3, len(_ORDERS), 3)
"""Places of orders that will do without weights."""
_LOST = math.log(1e-20)
_LONGEST = 1 << 20
_BISECTIONS, _CLOSE = 60, 1e-10
_FAR = 700.0
_FADED = 60.0
"""Where e^{−λ·(loss − ε)} is below 10⁻²⁶, and all masses together count as so much."""


@dataclass(frozen=True)
class _Circle:
    """All events together, weighted: masses on a circle of grid points, and what may be wrong with them."""

    lowest: int
    masses: FloatArray
    off: float
    """What sums of these masses, with factors in [0, 1], may be off by."""
    beyond: float
    """A bound on the mass above the circle, not weighted."""


@dataclass(frozen=True, eq=False)
class ComposedLosses:
    """The losses of several events in one direction.

    Attributes:
        parts: each event's losses, and how often it comes.
        interval: of the grid.
    """

    parts: Sequence[tuple[Losses, int]]
    interval: float

    def delta(self, epsilon: float) -> float:
        """Returns the δ of these losses at ε, from above."""
        if (plain := self._plain) is not None:
            wrong = plain.off + plain.beyond
            if (found := self._sum(plain, 0.0, epsilon)) * _SHARE >= wrong:
                return min(1.0, self._infinite + found + wrong)
        return min(1.0, self._infinite + self._far(epsilon))

    def epsilon(self, delta: float) -> float:
        """Returns an ε that is proved at δ, next to the smallest one; ∞ where there is none."""
        if self._infinite >= delta:
            return math.inf
        if (plain := self._plain) is not None and plain.off + plain.beyond <= _SHARE * delta:
            return self._solved(plain, delta - self._infinite - plain.off - plain.beyond)
        if self._infinite + self._far(0.0) <= delta:
            return 0.0
        left, positive = math.log(delta - self._infinite), _ORDERS > 0
        low, high = 0.0, max(0.0, float(np.min((self._moments[positive] - left) / _ORDERS[positive])))
        for _ in range(_BISECTIONS):
            if high - low <= _CLOSE * high:
                break
            middle = (low + high) / 2
            low, high = (low, middle) if self._infinite + self._far(middle) <= delta else (middle, high)
        return high

    def _far(self, epsilon: float) -> float:
        """Returns δ, but for infinite losses, by weights that suit it."""
        exponents = self._moments - _ORDERS * epsilon
        best = int(np.argmin(np.where(_ORDERS < 0, np.inf, exponents)))
        chernoff = math.exp(min(0.0, float(exponents[best])))
        # where the best weights reach too far, lighter ones do
        place = next((place for place in range(best, _UNWEIGHTED - 1, -1) if self._circle(place) is not None), -1)
        if place < 0 or (circle := self._circle(place)) is None:
            return chernoff
        total = self._sum(circle, float(_ORDERS[place]), epsilon) + circle.off
        return min(chernoff, math.exp(min(0.0, math.log(total) + float(exponents[place]))) + circle.beyond)

    def _sum(self, circle: _Circle, order: float, epsilon: float) -> float:
        """Returns Σ (1 − e^{ε−loss})·e^{λ·(ε−loss)} over a circle's masses above ε, or little more."""
        first = max(0, math.floor(epsilon / self.interval) + 1 - circle.lowest)
        last = first + math.ceil(_FADED / (order * self.interval)) if order else len(circle.masses)
        masses = circle.masses[first:last]
        losses = (circle.lowest + first + np.arange(len(masses))) * self.interval - epsilon
        found = float((-np.expm1(-losses) * np.exp(-order * losses)) @ masses)
        return max(0.0, found) + (math.exp(-_FADED) if order else 0.0)

    def _solved(self, plain: _Circle, left: float) -> float:
        """Returns the ε at which unweighted masses make so much of δ."""
        start = max(0, 1 - plain.lowest)
        losses = (plain.lowest + np.arange(start, len(plain.masses))) * self.interval
        masses = np.maximum(plain.masses[start:], 0.0)
        above = np.cumsum(masses[::-1])[::-1] * (1 + len(masses) * 2.0**-51)  # what adding up may lose
        scaled = np.cumsum((masses * np.exp(-losses))[::-1])[::-1]
        # δ just above the loss before each: all masses from there on count
        first = int(np.count_nonzero(above - np.exp(losses - self.interval) * scaled > left))
        if first == 0:
            return 0.0
        return max(0.0, math.log((float(above[first - 1]) - left) / float(scaled[first - 1])))

    @cached_property
    def _infinite(self) -> float:
        return -math.expm1(math.fsum(count * math.log1p(-part.infinite) for part, count in self.parts))

    @cached_property
    def _moments(self) -> FloatArray:
        return self._moments_at(_ORDERS)

    @cached_property
    def _circles(self) -> dict[int, _Circle | None]:
        return {}

    @cached_property
    def _plain(self) -> _Circle | None:
        """Masses without weights, where floating point holds what is made of them."""
        orders, (first, count) = _ORDERS[_FEW], self.parts[0]
        if len(self.parts) == count == 1:  # nothing to compose, and nothing to round
            found: _Circle | None = _Circle(first.lowest, first.mass, 0.0, 0.0)
        else:
            found = self._composed(0.0, orders, self._moments_at(orders))
        far = found is not None and (found.lowest + len(found.masses)) * self.interval > _FAR
        return None if far else found

    @cached_property
    def _highest(self) -> int:
        """The multiple of the interval above which there is no finite loss."""
        return sum(count * (part.lowest + len(part.mass) - 1) for part, count in self.parts)

    def _moments_at(self, orders: FloatArray) -> FloatArray:
        """Returns ln E[e^{λ·loss}] of finite losses at each order."""
        total = np.zeros(len(orders))
        for part, count in self.parts:
            total += [count * _log_sum(self._weighted(part, float(order))) for order in orders]
        return total

    def _weighted(self, part: Losses, order: float) -> FloatArray:
        """Returns the logarithms of an event's masses, times e^{λ·loss}."""
        with np.errstate(divide="ignore"):
            logs = np.log(part.mass)
        logs += order * self.interval * (part.lowest + np.arange(len(logs)))
        return np.asarray(logs)

    def _circle(self, place: int) -> _Circle | None:
        if place not in self._circles:
            self._circles[place] = self._composed(float(_ORDERS[place]), _ORDERS, self._moments)
        return self._circles[place]

    def _composed(self, order: float, orders: FloatArray, moments: FloatArray) -> _Circle | None:
        """Returns the circle of masses under one weight; None where it would be too large."""
        low, high = self._ends(order, orders, moments)
        length = fft.next_fast_len(high - low + 1, real=True)
        if length > _LONGEST:
            return None
        product, slips = np.ones(length // 2 + 1, np.complex128), np.zeros(length // 2 + 1)
        for part, count in self.parts:
            logs = self._weighted(part, order)
            points = (part.lowest + np.arange(len(logs))) % length
            one = fft.rfft(np.bincount(points, np.exp(logs - _log_sum(logs)), length))
            size, rest = np.abs(one), np.abs(one) ** (count - 1)
            slips = slips * rest * size + np.abs(product) * count * rest
            product *= one**count
        masses = np.roll(fft.irfft(product, length), -(low % length))
        # the mean over half of the places is at least half of that over all
        lengths = math.sqrt(2 * float(np.mean(slips**2))) + float(np.linalg.norm(masses))
        off = _UNIT * math.log2(max(2, length)) * lengths * math.sqrt(length)
        tail = moments[orders > 0] - orders[orders > 0] * (low + length - 1) * self.interval
        beyond = math.exp(min(0.0, float(tail.min()))) if low + length - 1 < self._highest else 0.0
        return _Circle(low, masses, off, beyond)

    def _ends(self, order: float, orders: FloatArray, moments: FloatArray) -> tuple[int, int]:
        """Returns between which multiples of the interval weighted losses are, but for a share of 10⁻²⁰."""
        apart, more = orders - order, moments - float(moments[orders == order][0])
        lowest = float(np.max((more[apart < 0] - _LOST) / apart[apart < 0]))
        highest = float(np.min((more[apart > 0] - _LOST) / apart[apart > 0], initial=self._highest * self.interval))
        return math.floor(lowest / self.interval) - 1, math.ceil(highest / self.interval) + 1


def _log_sum(logs: FloatArray) -> float:
    largest = float(logs.max())
    return largest + math.log(float(np.exp(logs - largest).sum()))
