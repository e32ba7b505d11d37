"""The server's side of a round: select, reserve, collect, release, settle, adapt.

It needs what a server sees, and nothing else: the mechanism, the ledger, who is there, and the clients' messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from sordino.errors import BudgetExceeded
from sordino.events import Charge
from sordino.mechanism import Mechanism
from sordino.random.streams import Randomness
from sordino.server.charging import Charging, Eligible
from sordino.server.step import ServerState, ServerStep
from sordino.stages import Released, Summed
from sordino.terms import Knobs, Terms, Turn, without
from sordino.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Position:
    """Where the server stands between two rounds."""

    round_: int
    weights: Tensor
    knobs: Knobs
    state: ServerState
    public: Mapping[str, float]
    """Scores on public records of the model as it stands."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A round as it was announced: the terms, what it will cost, and who could have been asked."""

    turn: Turn
    charges: Sequence[Charge]
    eligible: Eligible
    mute: IntArray
    """Clients of the cohort that cannot pay, or are not there: their message is zero with noise, and costs nothing."""

    @property
    def terms(self) -> Terms:
        """What is broadcast."""
        return self.turn.terms


@dataclass(frozen=True, eq=False)
class ServerSide:
    """The server of a federation.

    **Formal guarantees**: terms are broadcast only after their cost is durably reserved (`reserve` comes before the
    broadcast; in a simulation, where nobody hears of terms, before anything is added up); what was released is settled
    at what it really cost, and a release that is dearer than its quote fails there.
    """

    mechanism: Mechanism
    step: ServerStep
    charging: Charging
    randomness: Randomness

    def ask(self, here: Position, present: BoolArray, again: bool = True) -> Asked:
        """Quotes the next round and selects its cohort among those who are present and can pay.

        A round that was reserved before, in a run that repeats to the bit, is asked for as it was, unless not `again`.

        Raises:
            BudgetExceeded: too few clients can pay for the release; nothing was broadcast.
        """
        round_ = here.round_ + 1
        charges = self.mechanism.quote(here.knobs, round_)
        try:
            eligible = self.charging.eligible(round_, charges, present, again)
        except BudgetExceeded:
            self.charging.tell_end(round_)
            raise
        turn = Turn(Terms(round_, here.weights, here.knobs), self.randomness, here.state)
        cohort = self.mechanism.selector.select(turn, eligible.allowed)
        return Asked(turn.but(cohort=cohort), charges, eligible, cohort[~eligible.allowed[cohort]])

    def reserve(self, asked: Asked) -> int:
        """Writes the cost of the round down, durably, and returns the reservation's number."""
        payers = without(asked.turn.cohort, asked.mute)
        return self.charging.reserve(asked.turn.round_, payers, asked.charges, asked.eligible)

    def release(self, asked: Asked, summed: Summed) -> Released:
        """Completes the noise, and says what the release really costs."""
        return self.mechanism.perturber.release(summed, asked.turn)

    def settle(
        self, asked: Asked, reservation: int, senders: IntArray, released: Released, durable: bool = True
    ) -> None:
        """Settles what was really released, and by whom; not `durable`, it is written down with the next reservation.

        Raises:
            LedgerError: the release cost more than was reserved for it.
        """
        payers = without(senders, asked.mute)
        self.charging.settle(reservation, payers, self.mechanism.charges(released.prices), released, durable)

    def adapt(self, asked: Asked, here: Position, released: Released) -> Position:
        """Applies the release to the model and chooses the next round's knobs; scores are for the caller to renew."""
        weights, state = self.step.apply(here.weights, released.mean, here.state, asked.turn.round_)
        knobs = self.mechanism.adapter.adapt(asked.turn.but(weights=weights), released, here.public)
        return Position(asked.turn.round_, weights, knobs, {**state, **released.memory}, here.public)
