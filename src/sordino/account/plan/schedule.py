"""Noise over the rounds: constant, geometric, or read from a file; and the history that it makes."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sordino.account.accountants.history import History
from sordino.errors import AccountingError
from sordino.events import DpEvent, GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent

_NOISE = {"gaussian": GaussianDpEvent, "laplace": LaplaceDpEvent}


@dataclass(frozen=True)
class Schedule:
    """A noise multiplier for every round.

    Attributes:
        mechanism: `gaussian` or `laplace`.
        rate: the Poisson sampling rate.
        first: the multiplier of the first round.
        factor: the factor of the noise *variance* from one round to the next (1 for constant noise).
        listed: multipliers from a file, used instead of `first` and `factor`.
    """

    mechanism: str
    rate: float
    first: float
    factor: float = 1.0
    listed: tuple[float, ...] = ()

    @classmethod
    def parse(cls, text: str, mechanism: str, noise_multiplier: float | None, rate: float) -> Self:
        """Reads `constant`, `geometric:FACTOR`, or the name of a file with one multiplier a line.

        Raises:
            AccountingError: naming what is missing or out of range.
        """
        if mechanism not in _NOISE:
            raise AccountingError(f"mechanism {mechanism!r} is unknown: choose one of {', '.join(_NOISE)}")
        if not (math.isfinite(rate) and 0 < rate <= 1):
            raise AccountingError(f"sampling-rate {rate:g} must lie in (0, 1]")
        kind, _, argument = text.partition(":")
        if kind not in ("constant", "geometric"):
            return cls(mechanism, rate, 1.0, listed=_read(Path(text)))
        if noise_multiplier is None:
            raise AccountingError("noise-multiplier is missing: say how much noise there is")
        first = _positive("noise-multiplier", noise_multiplier)
        return cls(mechanism, rate, first, _factor(argument) if kind == "geometric" else 1.0)

    @property
    def rounds(self) -> int | None:
        """How many rounds the schedule itself has, if it is a list."""
        return len(self.listed) or None

    @property
    def limit(self) -> int:
        """The most rounds that can be asked for."""
        return len(self.listed) or (10_000_000 if self.factor == 1 else 100_000)

    def history(self, rounds: int) -> History:
        """Returns what the first `rounds` rounds release."""
        if rounds < 1:
            raise AccountingError(f"rounds {rounds} must be at least 1")
        if self.listed and rounds > len(self.listed):
            raise AccountingError(f"rounds {rounds} exceed the {len(self.listed)} multipliers of the schedule file")
        if self.factor == 1 and not self.listed:
            return {self._event(self.first): rounds}
        return Counter(self._event(self._multiplier(place)) for place in range(rounds))

    def _multiplier(self, place: int) -> float:
        return self.listed[place] if self.listed else self.first * self.factor ** (place / 2)

    def _event(self, noise_multiplier: float) -> DpEvent:
        noise = _NOISE[self.mechanism](noise_multiplier)
        return noise if self.rate == 1 else PoissonSampledDpEvent(self.rate, noise)


def _factor(text: str) -> float:
    try:
        return _positive("schedule geometric", float(text))
    except ValueError:
        raise AccountingError(f"schedule geometric:{text} needs a number: write geometric:0.95") from None


def _read(path: Path) -> tuple[float, ...]:
    try:
        words = path.read_text(encoding="utf-8").split()
        listed = tuple(_positive(f"noise multiplier in {path}", float(word)) for word in words)
    except OSError as error:
        told = "write constant, geometric:FACTOR or the name of a file"
        raise AccountingError(f"schedule {path} cannot be read ({error.strerror}): {told}") from None
    except ValueError as error:
        told = textwrap.shorten(str(error), 120, placeholder=" …")
        raise AccountingError(f"schedule {path} holds something that is not a number ({told}): one a line") from None
    if not listed:
        raise AccountingError(f"schedule {path} is empty: write one noise multiplier a line")
    return listed


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise AccountingError(f"{name} {value} must be finite and above 0")
    return value
