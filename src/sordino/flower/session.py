"""One private run on Flower, between messages: who is asked, what that costs, what is released, what comes next."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord
from torch import Tensor

from sordino.account.certificate.certificate import Certificate
from sordino.account.certificate.document import CertificateDocument
from sordino.account.ledger.ledger import Ledger
from sordino.bound.l2 import clip_rows
from sordino.data.public import FARTHEST
from sordino.errors import BudgetExceeded, LedgerError, ProtocolError, RecipeError
from sordino.events import Charge, Unbounded
from sordino.flower.arrays import ArrayLayout
from sordino.flower.checkpoint import RunCheckpoint
from sordino.flower.compose import composed
from sordino.flower.settings import FlowerSettings
from sordino.flower.slots import NodeSlots
from sordino.flower.statement import statement_for
from sordino.flower.wire import FlowerTerms, PrivateReply
from sordino.random.streams import Randomness, Streams
from sordino.server.charging import Charging
from sordino.server.filters import filters_for
from sordino.server.side import Asked, Position, ServerSide
from sordino.server.step import ServerStep
from sordino.stages import Released, Shielded, Update
from sordino.terms import Knobs, Vanished
from sordino.types import IntArray

_TAIL = 12.0
"""A noisy row of d coordinates is longer than (√d + 12) standard deviations once in more than 10³⁰ messages."""


@dataclass(frozen=True, eq=False)
class OpenRound:
    """A round that was announced and paid for: whom to ask, on which terms."""

    asked: Asked
    reservation: int
    places: Mapping[int, int]
    """Whom to ask, by Flower's id, and each one's place."""
    terms: FlowerTerms

    @property
    def nodes(self) -> tuple[int, ...]:
        """Whom to ask."""
        return tuple(self.places)

    @property
    def payers(self) -> IntArray:
        """Everybody who was asked: a reply that did not come may have left its node all the same."""
        return np.setdiff1d(self.asked.turn.cohort, self.asked.mute, assume_unique=True)


class PrivateSession:
    """The server's side of a private run (`server/side.py`), for nodes that come and go.

    **Formal guarantees**: a round's cost is durably in the ledger before anybody is asked; everyone who was asked pays,
    answered or not. Sums are divided by the expected cohort, a public constant. Rows are clipped once more here under
    central trust, so that the bound holds whatever clients send. A round that would exceed the budget is not asked for.
    **Edge cases**: no replies at all release noise alone (central), or nothing (local); either way the round is paid.
    """

    def __init__(self, settings: FlowerSettings, layout: ArrayLayout, rounds: int, randomness: Randomness) -> None:
        self.settings, self.layout = settings, layout
        self.stopped: str | None = None
        self._mechanism = composed(settings, layout.layout, settings.rounds or rounds)
        self._rounds = settings.rounds or rounds
        self._given = self._randomness = randomness
        self._slots = NodeSlots(settings.population, filled=settings.select == "fixed")
        self._run = f"flower-{secrets.token_hex(6)}"
        self._here = Position(0, torch.empty(0), self._mechanism.adapter.start(), {}, {})
        self._charging: Charging | None = None
        self._head: str | None = None

    def resume(self, last: RunCheckpoint, announced: int) -> None:
        """Goes on with a run after the last round in which anybody may have been asked.

        Raises:
            RecipeError: it was begun under other settings, or with another number of rounds.
        """
        if (last.settings, last.rounds) != (self.settings.model_dump_json(), self._rounds):
            raise RecipeError(
                f"sordino.checkpoint {self.settings.checkpoint} holds a run with other settings or num_rounds: set "
                "them as they were, or name another file to begin a new run"
            )
        self._run, self._head = last.run, last.head
        self._slots = self._slots.joined_in_order(last.nodes)
        self._here = Position(announced, torch.empty(0), Knobs.from_tensors(last.knobs), dict(last.memory), {})

    def checkpoint(self, arrays: ArrayRecord, own: Mapping[str, Any]) -> RunCheckpoint:
        """Returns where the run stands, with this model and what the wrapped strategy keeps."""
        here, settings = self._here, self.settings.model_dump_json()
        head, nodes = self.charging.ledger.head, self._slots.nodes
        knobs, rounds = here.knobs.tensors(), self._rounds
        return RunCheckpoint(self._run, rounds, settings, here.round_, head, nodes, arrays, knobs, here.state, own)

    @property
    def run(self) -> str:
        """The run's name in the ledger."""
        return self._run

    @property
    def round_(self) -> int:
        """The last round that was announced."""
        return self._here.round_

    @property
    def charging(self) -> Charging:
        """The run's side of the ledger, once nodes came."""
        if self._charging is None:
            raise LedgerError("no node has come yet, so there are no books: start the nodes first")
        return self._charging

    @property
    def began(self) -> bool:
        """Whether nodes came, so that there are books."""
        return self._charging is not None

    @property
    def releases(self) -> int:
        """How many releases the ledger holds, of all runs."""
        return sum(bool(entry.charges) for entry in self.charging.ledger.entries)

    def admit(self, nodes: Iterable[int]) -> None:
        """Opens the ledger for these nodes; newcomers join it."""
        slots = self._slots.joined(nodes)
        if slots is self._slots and self._charging is not None:
            self.charging.ledger.nobody_joins()  # whether somebody came must not show in how many heads are published
            return
        self.close()
        settings, mechanism = self.settings, self._mechanism
        ledger = Ledger.open(
            settings.ledger,
            settings.federation,
            slots.names,
            create=self._head is None,
            delta=settings.delta,
            head=self._head,
        )
        planned = range(1, self._rounds + 1)
        self._slots, self._randomness = slots, self._streams(ledger)
        self._charging = Charging(
            ledger,
            self._run,
            mechanism,
            delta=settings.delta,
            epsilon=settings.epsilon,
            minimum=settings.minimum_clients,
            least=math.ceil(settings.population / FARTHEST),
            repeatable=self._randomness.simulation,
            fingerprint=str(self._randomness.seed) if isinstance(self._randomness, Streams) else self._run,
            schedule=[mechanism.quote(mechanism.adapter.planned(round_), round_) for round_ in planned],
            filters=filters_for(mechanism, settings.epsilon, settings.delta),
        )

    def _streams(self, ledger: Ledger) -> Randomness:
        """Returns the run's randomness; seeded streams are named by how many releases came before the run.

        **Formal guarantees**: two runs with one seed on one ledger share no draw, else the difference of what they
        release would have no noise in it. The first run on a ledger has the streams that it was given.
        """
        if not isinstance(self._given, Streams):
            return self._given
        mine = [entry.seq for entry in ledger.entries if entry.run == self._run]
        before = sum(entry.seq < min(mine, default=math.inf) for entry in ledger.entries)
        return Streams(f"{self._given.seed}/after {before}") if before else self._given

    def ask(self, nodes: Sequence[int], weights: Tensor) -> OpenRound | None:
        """Selects a cohort among the connected nodes and writes its cost down; None when the budget is spent."""
        self.admit(nodes)
        side = self._side()
        self._here = replace(self._here, weights=weights)
        try:
            asked = side.ask(self._here, self._slots.present(nodes))
        except BudgetExceeded as stop:
            self.stopped = str(stop).replace("budget.epsilon", "sordino.epsilon").replace("run.rounds", "num_rounds")
            return None
        reservation = side.reserve(asked)
        knobs, trust = asked.turn.knobs, self._mechanism.trust
        counted = self.settings.clipping == "adaptive"
        terms = FlowerTerms(asked.turn.round_, trust, knobs.clip_norm, knobs.noise_multiplier, counted)
        called = np.setdiff1d(asked.turn.cohort, asked.mute, assume_unique=True)
        return OpenRound(asked, reservation, {self._slots.nodes[place]: int(place) for place in called}, terms)

    def release(self, opened: OpenRound, replies: Iterable[tuple[int, PrivateReply]]) -> Released | None:
        """Sums the replies, completes the noise and settles; None when too few came for anything to be released.

        Args:
            opened: the round.
            replies: each with the node that it came from; strangers, repeats and replies of other rounds are left out.
        """
        side, mechanism, asked = self._side(), self._mechanism, opened.asked
        partial = mechanism.aggregator.start(asked.terms, mechanism.bounder.sensitivity(asked.turn.knobs))
        counted: set[int] = set()
        for node, reply in replies:
            if node in opened.places and node not in counted and reply.round_ == opened.terms.round_:
                message = self._message(asked, opened.places[node], reply)
                if message is not None:
                    partial = mechanism.aggregator.add(partial, message)
                    counted.add(node)
        try:
            summed = mechanism.aggregator.finish(partial, Vanished())
        except ProtocolError:
            self._here = replace(self._here, round_=asked.turn.round_)
            return None
        released = side.release(asked, summed)
        side.settle(asked, opened.reservation, opened.payers, released)
        self._here = side.adapt(asked, self._here, released)
        return released

    @property
    def weights(self) -> Tensor:
        """The model after the last release, as a row."""
        return self._here.weights

    def expose(self, why: str) -> None:
        """Writes down that something of the clients left without noise, which makes every promise infinite."""
        charging = self.charging
        everyone = np.arange(len(charging.ledger.members))
        charges = [Charge(c.guarantee, Unbounded(why)) for c in self._mechanism.quote(self._here.knobs)]
        number = charging.ledger.reserve(self._run, self._here.round_, everyone, charges)
        charging.ledger.settle(number, charges, everyone, secrets.token_hex(16))

    def spent(self) -> float:
        """Returns the ε of the client that paid most, against the best observer that anything is promised against."""
        told = [epsilon for epsilon in self.charging.spent().values() if epsilon is not None]
        return max(told) if told else math.inf

    def certificate(self) -> tuple[Certificate, CertificateDocument]:
        """Returns what the ledger proves, and the public document of it."""
        whole = self._here.round_ >= self._rounds
        stopped = "budget" if self.stopped else None if whole else "interrupted"
        certificate = self.charging.certificate(stopped)
        statement = statement_for(self.settings, self._mechanism, self._randomness.simulation)
        return certificate, self.charging.document(certificate, statement, stopped)

    def close(self) -> None:
        """Closes the ledger."""
        if self._charging is not None:
            self._charging.ledger.close()
            self._charging = None

    def _side(self) -> ServerSide:
        return ServerSide(self._mechanism, ServerStep(), self.charging, self._randomness)

    def _message(self, asked: Asked, place: int, reply: PrivateReply) -> Shielded | None:
        """Returns a reply as a message of the round, None where it is not one."""
        mechanism, turn = self._mechanism, asked.turn
        me, row = np.array([place]), reply.update.unsqueeze(0)
        if mechanism.trust == "central":
            bounded = mechanism.bounder.bound(Update(me, row, np.ones(1, np.int64)), turn)
            # a client that clipped says so: here its row is within the bound already
            said = torch.tensor([not reply.unclipped])
            return mechanism.perturber.shield(replace(bounded, clipped=bounded.clipped | said), turn).message
        multiplier, stated = turn.knobs.noise_multiplier, mechanism.bounder.sensitivity(turn.knobs)
        if reply.squared_multiplier < multiplier**2 * (1 - 1e-9) or not torch.isfinite(row).all():
            return None
        # whatever an honest node sends is shorter: this only keeps strangers from moving the model far
        longest = turn.knobs.clip_norm * (1 + multiplier * (math.sqrt(row.shape[1]) + _TAIL))
        squares = torch.tensor([multiplier**2], dtype=torch.float64)
        return Shielded(me, clip_rows(row, longest)[0], torch.ones(1), squares, stated)
