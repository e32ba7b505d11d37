"""What comes before the first round across machines: a release of each node's own, and charged sums over all of them.

A charged sum (`Preparation`) is a round 0 with a mechanism, books and random streams of its own; the same stages carry
it, secure sum included. Requests name it in a part, `preparation`; server and nodes each compose it from the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch
from safetensors.torch import load
from torch import Tensor

from sordino.errors import FederationError, ProtocolError
from sordino.federation.collect import NothingLeft, collect, unlike
from sordino.federation.journal import Journal
from sordino.federation.messages import Parcel
from sordino.federation.network import NodeNetwork
from sordino.federation.plan import PREPARATION, preparing
from sordino.federation.reading import answer_of
from sordino.federation.telling import Telling
from sordino.mechanism import Opening, Preparation
from sordino.messages import to_bytes
from sordino.opening.feature_map import MEAN, TURN
from sordino.runs.context import RunContext
from sordino.server.side import Position, ServerSide
from sordino.server.step import ServerStep
from sordino.terms import Knobs, Terms

_ATTEMPTS = 3
"""How often a sum is announced again when too few were there before anybody's message left."""
_NOISE = 1e6
"""How far noise may move a count that a member tells: counts beyond it would drown those of all others."""


@dataclass(frozen=True, eq=False)
class Openings:
    """Plays what a mechanism releases before its first round.

    **Formal guarantees**: each release is reserved durably before it is announced, and settled at what it cost. What a
    sum came to is written down before anything is announced that follows from it: a server that is killed never asks
    for one again whose messages may have left their nodes.
    **Edge cases**: a sum that was given up stays paid for, and training goes on without that part of the map, as in a
    simulation.
    """

    network: NodeNetwork
    context: RunContext
    server: ServerSide
    journal: Journal
    least: int
    """How many members must be there."""

    def played(self) -> Position:
        """Returns where the run begins: the first knobs, and what the openings concluded."""
        mechanism = self.server.mechanism
        knobs = mechanism.adapter.start()
        if mechanism.opening is not None:
            knobs = knobs.plus(self._told(mechanism.opening, knobs))
        for one in mechanism.preparation:
            name = one.mechanism.name
            concluded = self.journal.concluded(name)
            if concluded is None:
                concluded = dict(self._summed(one, knobs))
                self.journal.conclude(name, concluded)
            knobs = knobs.plus(concluded)
        return Position(0, self.context.weights, knobs, {}, {})

    def _told(self, opening: Opening, knobs: Knobs) -> Mapping[str, Tensor]:
        """Asks every member for a release of its own, and returns what follows from all of them."""
        network, charging = self.network, self.server.charging
        present, attempt = network.presence.gathered(self.least), self.journal.announced("opening")
        self.journal.announce("opening", attempt + 1)
        charges, everyone = self.server.mechanism.opening_charges, np.flatnonzero(present)
        eligible = charging.eligible(0, charges, present)
        reservation = charging.reserve(0, everyone, charges, eligible)
        announced = {"terms": to_bytes(Terms(0, self.context.weights, knobs, everyone))}
        answers = network.ask("tell", 0, attempt, dict.fromkeys(everyone.tolist(), announced))
        told = _rows(answers.replies, network.telling, 2 * self.context.federation.declared.total + _NOISE)
        if not told:
            raise FederationError("no node made the opening release: see why above, then resume the run")
        width = next(iter(told.values())).shape[1]
        # members that told nothing count as nothing: the mechanism takes them for average
        rows = [told.get(n, torch.zeros(1, width, dtype=torch.float64)) for n in range(len(present))]
        senders = np.setdiff1d(everyone, np.array(list(answers.refused), np.int64))
        charging.settle(reservation, senders, charges, None)
        return opening.conclude(torch.cat(rows))

    def _summed(self, one: Preparation, knobs: Knobs) -> Mapping[str, Tensor]:
        """Plays a charged sum, and returns what follows from it: nothing, where it was given up."""
        name, telling = one.mechanism.name, self.network.telling
        if self.journal.announced(name):
            telling.event(f"the server stopped in the middle of {name}: it stays paid for, and is left out")
            return {}
        for attempt in range(_ATTEMPTS):
            try:
                return one.statistic.conclude(self._released(one, knobs, attempt))
            except NothingLeft as early:
                telling.event(f"attempt {attempt + 1} of {_ATTEMPTS} at {name} was given up: {early}")
            except ProtocolError as abort:
                telling.event(f"{name} was aborted, stays paid for, and is left out: {abort}")
                return {}
        return {}

    def _released(self, one: Preparation, knobs: Knobs, attempt: int) -> Tensor:
        """Returns the noisy mean of one sum, over records as the knobs so far show them."""
        mechanism, charging = one.mechanism, self.server.charging
        context = preparing(self.context, mechanism.name)
        books = replace(charging, mechanism=mechanism, fingerprint=f"{charging.fingerprint}/{mechanism.name}")
        server = ServerSide(mechanism, ServerStep(), books, context.randomness)
        shown = {name: knob for name, knob in knobs.more.items() if name in (MEAN, TURN)}
        here = Position(-1, context.weights, mechanism.adapter.start().plus(shown), {}, {})
        asked = server.ask(here, self.network.presence.gathered(self.least))
        self.journal.announce(mechanism.name, attempt + 1)
        reservation = server.reserve(asked)
        try:
            collected = collect(self.network, context, asked, attempt, {PREPARATION: mechanism.name.encode()})
        except NothingLeft:
            books.settle(reservation, np.empty(0, np.int64), (), None)
            raise
        released = server.release(asked, collected.summed)
        server.settle(asked, reservation, collected.senders, released)
        return server.adapt(asked, here, released).weights


def _rows(replies: Mapping[int, Parcel], telling: Telling, most: float) -> dict[int, Tensor]:
    """Returns what members told before the first round, without what is no row of numbers, up to `most`, as others'."""
    told = dict[int, Tensor]()
    for member, answer in replies.items():
        with suppress(ProtocolError), answer_of(member):
            row = load(answer.part("told"))["told"].to(torch.float64)
            if row.dim() == 2 and len(row) == 1 and (row.abs() <= most).all():
                told[member] = row
    for member in unlike({member: (tuple(row.shape), str(row.dtype)) for member, row in told.items()}):
        del told[member]
    for member in replies.keys() - told.keys():
        telling.member("error", member, "what it told is no row of numbers as the others': it is left out")
    return told
