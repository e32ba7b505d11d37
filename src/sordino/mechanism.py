"""A mechanism: a record of orthogonal parts, each frozen, public and pure, and who plays which of them.

    server   select → quote + reserve → terms ·········→ start, add …, finish → release → settle → adapt
    client                      accept → train → bound → shield → send → (reveal)

A part is a frozen dataclass: its fields are public settings, its arguments may be private. It gets a `Turn` (what is
public this round, and its side's own randomness) and returns values; it mutates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from sordino.data.client_data import ClientData
from sordino.errors import CompositionError
from sordino.events import Charge, DpEvent, Guarantee, Unbounded
from sordino.stages import Bounded, Kept, Prices, Released, Revealed, Sensitivity, Sent, Shielded, Summed, Update
from sordino.terms import Knobs, Survivors, Terms, Turn, Vanished
from sordino.train.trainer import Trainer
from sordino.types import BoolArray, IntArray, Mode, Trust, Unit

FLOATS = (
    "messages and noise are float32: the proof is one of real numbers and does not cover the lowest bits of a sum "
    "(Mironov 2012)"
)
ON_GRID = "values and noise are integers times a power of two, noise by exact samplers; rounding is in the sensitivity"
INTEGERS = "messages and noise are integers modulo a power of two, noise by exact samplers; rounding is charged"


class Selector(Protocol):
    """Server: who is asked this round, and what that hides from an outsider."""

    def select(self, turn: Turn, eligible: BoolArray) -> IntArray:
        """Returns the ids of the cohort, in increasing order."""

    def expected(self, population: int) -> float:
        """Returns the public expected size of a cohort."""

    def charge(self, guarantee: Guarantee, event: DpEvent) -> Charge:
        """Wraps a release's event with the amplification that this selection earns against that observer."""


class Local(Protocol):
    """Client: what it computes from its data."""

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        """Returns one raw update a client."""


class Bounder(Protocol):
    """Client: limits what one unit can contribute, and states the limit."""

    def sensitivity(self, knobs: Knobs) -> Sensitivity | None:
        """Returns what one unit can contribute under these knobs; None where nothing is bounded."""

    def bound(self, update: Update, turn: Turn) -> Bounded:
        """Returns contributions within that bound, whatever comes in (NaN and ∞ included)."""


SideBounds = Mapping[str, tuple[tuple[float, float], ...]]
"""For each side column, by name, the least and the largest number in each of its entries."""


class Perturber(Protocol):
    """Adds noise, on the client's side, on the server's, or both; and says what that costs."""

    @property
    def arithmetic(self) -> str:
        """In which numbers noise is added, in words for a certificate."""
        return FLOATS

    def refuses(self, bound: Sensitivity | None) -> str | None:
        """Returns why this noise cannot hide contributions of that bound, as a sentence; None where it can."""

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        """Returns what one release with these knobs costs one participant, for each guarantee.

        The one place where a price is written: calibration, quote, settlement and audit all ask here.
        """

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        """Client: returns the messages as they leave, what is kept back, and what will be remembered."""

    def beside(self, knobs: Knobs, width: int, records: int) -> SideBounds:
        """Returns between which numbers the side columns of an honest client of so many records lie, entry by entry."""
        return {}

    def reveal(self, kept: Kept, survivors: Survivors, turn: Turn) -> Revealed | None:
        """Client, once it is known who is left: returns the part of its noise that is to be subtracted, if any."""
        return None

    def release(self, summed: Summed, turn: Turn) -> Released:
        """Server: completes the noise and divides by the public denominator."""


class Aggregator(Protocol):
    """Server: sums messages as they come, plainly or securely."""

    def start(self, terms: Terms, sensitivity: Sensitivity | None) -> Any:
        """Returns an empty sum; `sensitivity` is what the mechanism's bounder promises under these terms."""

    def counted(self, terms: Terms, survivors: IntArray) -> IntArray:
        """Returns those of the survivors that noise may be thinned for: the others could be the server's invention."""

    def add(self, partial: Any, message: Shielded) -> Any:
        """Returns the sum with some clients' messages added."""

    def subtract(self, partial: Any, revealed: Revealed) -> Any:
        """Returns the sum with what some clients revealed taken away."""

    def finish(self, partial: Any, vanished: Vanished) -> Summed:
        """Returns the sum over the survivors.

        Raises:
            ProtocolError: too few are left; nothing is learned and nothing may be released.
        """


class Adapter(Protocol):
    """Server: chooses the next round's knobs from what was released."""

    def start(self) -> Knobs:
        """Returns the knobs of the first round."""

    def adapt(self, turn: Turn, released: Released, public: Mapping[str, float]) -> Knobs:
        """Returns the next knobs; `public` holds scores on public data (or charged ones)."""

    def planned(self, round_: int) -> Knobs:
        """Returns knobs with the noise that this round is planned to have: the first round's, unless told otherwise."""
        return self.start()


class Opening(Protocol):
    """A release that is made once, before the first round."""

    def price(self) -> Prices:
        """Returns what it costs each client."""

    def tell(self, data: ClientData, turn: Turn) -> Tensor:
        """Client: returns what leaves each client, one row a client."""

    def conclude(self, told: Tensor) -> Mapping[str, Tensor]:
        """Server: returns further knobs, post-processed from what everybody told."""


class OpeningStatistic(Local, Protocol):
    """Client and server: what each client adds to a sum before the first round, and what follows from the sum."""

    @property
    def width(self) -> int:
        """Length of the vectors that are summed."""

    def conclude(self, mean: Tensor) -> Mapping[str, Tensor]:
        """Server: returns further knobs, post-processed from the released mean."""


@dataclass(frozen=True)
class Preparation:
    """A charged sum of vectors before the first round: a round of its own, with the mechanism's trust and unit.

    Preparations are played in order, each on records as the knobs of those before it show them; their prices are inside
    the budget that the rounds' noise is calibrated for.
    """

    statistic: OpeningStatistic
    mechanism: Mechanism
    """How the sum is made; its `local` is the statistic."""


@dataclass(frozen=True)
class Claim:
    """The ε that a paper's own formula gives, for as many participations as the worst client had."""

    formula: str
    epsilon: Callable[[int, float], float]
    per_round: bool = False
    """Whether the formula counts rounds, taken part or not (claims that credit selection), and not participations."""


@dataclass(frozen=True)
class Mechanism:
    """Six parts and what ties them: unit, trust, mode, and the paper's claim if there is one.

    **Formal guarantees**: a perturber that cannot hide what the bounder promises (another norm, another unit, or no
    bound at all), that is priced for another trust (where it says for which: `trust`), or that counts on more messages
    in a sum than the aggregator does (`least`), is refused here, so that no such mechanism exists.
    """

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
    preparation: tuple[Preparation, ...] = ()
    """Charged sums before the first round, in the order in which they are made."""
    claim: Claim | None = None
    adaptive: bool = False
    """Whether noise or sampling of a round is chosen from earlier releases: then a privacy filter admits them."""
    planned: DpEvent | None = None
    """All that an adaptive mechanism expects to release of one client, for which its filter is chosen."""
    stretch: float = 1.0
    """How many times the recipe's local steps a round has, where fewer rounds are planned for the same work."""
    server_learning_rate: float = 1.0
    """Step size on the released mean, unless the recipe sets one."""
    after_step: Callable[[Tensor, Tensor], Tensor] | None = None
    """What happens to local weights after every local step, given them and w_0 (a projection), if anything."""
    why: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Sentences on why it was chosen, where the recipe left that open (`auto`)."""

    def __post_init__(self) -> None:
        for misfit in self._misfits():
            raise CompositionError(f"{self.name} {misfit}")

    def _misfits(self) -> Iterator[str]:
        """Yields why the parts do not fit, the most basic reason first."""
        knobs = self.adapter.start()
        bound = self.bounder.sensitivity(knobs)
        if bound is not None and bound.unit != self.unit:
            yield f"protects each {self.unit} and its bounder bounds each {bound.unit}: use parts of one unit"
        if (why := self.perturber.refuses(bound)) is not None:
            yield f"cannot be composed: {why}"
        yield from self._miscounted()
        bounded = [guarantee for guarantee, event in self.perturber.price(knobs) if not isinstance(event, Unbounded)]
        if others := {guarantee.unit for guarantee in bounded} - {self.unit}:
            yield f"protects each {self.unit} and its noise is priced for each {others.pop()}: use parts of one unit"

    def _miscounted(self) -> Iterator[str]:
        """Yields what noise counts on and selection, trust or sum do not give."""
        needed, kept = self.rounds_apart, getattr(self.selector, "rounds_apart", 1)
        if needed > kept:
            yield (
                f"cannot be composed: its noise needs participations that are {needed} rounds apart and its selection "
                f"keeps them {kept} apart: let clients take turns in {needed} groups"
            )
        noise = getattr(self.perturber, "inner", self.perturber)
        if (made_for := getattr(noise, "trust", self.trust)) != self.trust:
            yield (
                f"has {self.trust} trust and its noise is priced for {made_for} trust, where the server sees something "
                "else: use noise that is made for that trust"
            )
        counted = getattr(noise, "least", 0) if self.trust == "local" else 0
        if counted > max(1, getattr(self.aggregator, "least", 0)):
            yield (
                f"counts on the noise of {counted} messages in every sum, and its sum takes fewer: give both the same "
                "`least`"
            )

    @property
    def rounds_apart(self) -> int:
        """How many rounds apart a client's participations must be: more than 1 where noise remembers earlier rounds."""
        return int(getattr(self.perturber, "rounds_apart", 1))

    @property
    def coins_are_secret(self) -> bool:
        """Whether a promise rests on nobody outside learning who took part."""
        return any(charge.payers == "eligible" for charge in self.quote(self.adapter.start()))

    @property
    def opening_charges(self) -> tuple[Charge, ...]:
        """What the release before the first round costs each client, where there is one."""
        prices = () if self.opening is None else self.opening.price()
        return tuple(Charge(guarantee, event) for guarantee, event in prices)

    def quote(self, knobs: Knobs, round_: int = 1) -> tuple[Charge, ...]:
        """Returns what the coming release will cost. Pure: it feeds calibration, the budget check and the tests."""
        return self.charges(self.perturber.price(knobs, round_))

    def charges(self, prices: Prices) -> tuple[Charge, ...]:
        """Returns prices with the amplification that the selection earns against each observer."""
        return tuple(self.selector.charge(guarantee, event) for guarantee, event in prices)


def needs(order: int, bound: Sensitivity | None, noise: str, single: bool = False) -> str | None:
    """Returns why this noise does not fit the bound: it hides contributions of bounded L`order` norm and no others.

    `single` noise goes into each client's message, which has to be that client's own, in units of the bound.
    """
    if bound is None:
        return f"{noise} hides contributions of bounded L{order} norm, and nothing bounds them: add a bounder"
    if bound.order != order:
        return f"{noise} hides contributions of bounded L{order} norm, and the bounder bounds the L{bound.order} norm"
    if single and not bound.single:
        return f"{noise} in each message needs one row a client, in units of the bound: use a bounder of rows"
    return None
