"""A mechanism: a record of orthogonal parts, each frozen, public and pure.

    select → quote+reserve → broadcast → train → bound → shield → sum → release → settle → adapt → evaluate

A part is a frozen dataclass: its fields are public settings, its arguments may be private. It gets a `Turn` (what is
public this round, and the randomness) and returns values; it mutates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sordino.data.federation import ClientData, Federation
from sordino.events import Charge, DpEvent, Guarantee
from sordino.random.streams import Randomness
from sordino.runs.client_store import ClientStore
from sordino.stages import Bounded, Released, Shielded, Summed, Update
from sordino.train.trainer import Trainer
from sordino.types import BoolArray, IntArray, Mode, Trust, Unit

Knobs = Mapping[str, Tensor]
"""Public numbers that steer a round (clip norm, noise multiplier, component scales, …), by name."""


@dataclass(frozen=True)
class Turn:
    """What is public in one round, and where its randomness comes from."""

    round_: int
    weights: Tensor
    knobs: Knobs
    randomness: Randomness
    store: ClientStore
    cohort: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    """Who was asked this round, in increasing order (the server knows; an outsider never sees it)."""

    def knob(self, name: str) -> float:
        """Returns a scalar knob."""
        return float(self.knobs[name])


def scalar(value: float) -> Tensor:
    """Returns a knob that holds one number, in double precision."""
    return torch.tensor(value, dtype=torch.float64)


@dataclass(frozen=True)
class Vanished:
    """The clients of one cohort that were lost, by the first thing that each did not do."""

    train: IntArray
    upload: IntArray
    unmask: IntArray

    @property
    def silent(self) -> IntArray:
        """Those whose message never left them: they are not counted, and pay nothing."""
        return np.union1d(self.train, self.upload)


Prices = tuple[tuple[Guarantee, DpEvent], ...]


class Selector(Protocol):
    """Who is asked this round, and what that hides from an outsider."""

    def select(self, turn: Turn, eligible: BoolArray) -> IntArray:
        """Returns the ids of the cohort, in increasing order."""

    def expected(self, population: int) -> float:
        """Returns the public expected size of a cohort."""

    def charge(self, guarantee: Guarantee, event: DpEvent) -> Charge:
        """Wraps a release's event with the amplification that this selection earns against that observer."""


class Local(Protocol):
    """What a client computes from its data."""

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        """Returns one raw update a client."""


class Bounder(Protocol):
    """Limits what one unit can change."""

    def bound(self, update: Update, turn: Turn) -> Bounded:
        """Returns contributions whose norm is bounded, whatever comes in (NaN and ∞ included)."""


class Perturber(Protocol):
    """Adds noise, on the clients' side, on the server's, or both; and says what that costs."""

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        """Client side: returns the messages as they leave the clients."""

    def release(self, summed: Summed, turn: Turn) -> Released:
        """Server side: completes the noise and divides by the public denominator."""

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        """Client side, once it is known who is left: what each client of the message reveals, to be subtracted."""

    def price(self, turn: Turn) -> Prices:
        """Returns what one release of this turn costs one participant, for each guarantee."""


Reveal = Callable[[Shielded, IntArray, "Turn"], Tensor | None]


class Aggregator(Protocol):
    """Sums messages, plainly or securely."""

    def sum(self, messages: Iterable[Shielded], turn: Turn, vanished: Vanished, reveal: Reveal) -> Summed:
        """Returns the sum over the survivors, less what they reveal."""


class Adapter(Protocol):
    """Chooses the next round's knobs from what was released."""

    def start(self) -> Knobs:
        """Returns the knobs of the first round."""

    def adapt(self, turn: Turn, released: Released, public: Mapping[str, float]) -> Knobs:
        """Returns the next knobs; `public` holds scores on public data (or charged ones)."""


class Opening(Protocol):
    """A release that is made once, before the first round."""

    def price(self) -> Prices:
        """Returns what it costs each client."""

    def open(self, federation: Federation, turn: Turn) -> Knobs:
        """Returns knobs that are post-processed from the release."""


@dataclass(frozen=True)
class Claim:
    """The ε that a paper's own formula gives, for as many participations as the worst client had."""

    formula: str
    epsilon: Callable[[int, float], float]
    per_round: bool = False
    """Whether the formula counts rounds, taken part or not (claims that credit selection), and not participations."""


@dataclass(frozen=True)
class Mechanism:
    """Five parts and what ties them: unit, trust, mode, and the paper's claim if there is one."""

    name: str
    mode: Mode
    unit: Unit
    trust: Trust
    selector: Selector
    local: Local
    bounder: Bounder
    perturber: Perturber
    aggregator: Aggregator
    adapter: Adapter
    opening: Opening | None = None
    claim: Claim | None = None
    adaptive: bool = False
    """Whether noise or sampling of a round is chosen from earlier releases: then a privacy filter does the sums."""
    planned: DpEvent | None = None
    """All that an adaptive mechanism expects to release of one client, for which its filter is chosen."""
    server_learning_rate: float = 1.0
    """Step size on the released mean, unless the recipe sets one."""
    after_step: Callable[[Tensor, Tensor], Tensor] | None = None
    """What happens to local weights after every local step, given them and w_0 (a projection), if anything."""

    def quote(self, turn: Turn) -> tuple[Charge, ...]:
        """Returns what the coming release will cost. Pure: it feeds calibration, the budget check and the tests."""
        return tuple(self.selector.charge(guarantee, event) for guarantee, event in self.perturber.price(turn))
