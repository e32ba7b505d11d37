"""One round, top to bottom: the simulator plays the server's side and, a chunk of clients at a time, the clients'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sordino.client.side import ClientSide
from sordino.data.federation import Federation
from sordino.errors import LedgerMoved
from sordino.mechanism import Opening
from sordino.runs.client_store import ClientStore
from sordino.select.dropout import Dropout
from sordino.server.side import Asked, Position, ServerSide
from sordino.stages import Revealed
from sordino.stopwatch import Stopwatch
from sordino.terms import Survivors, Turn, without
from sordino.types import IntArray

_ENTRIES = 2**25
"""Matrix entries that are alive at once: larger cohorts are trained in chunks."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """Both sides of a federation in one process, the clients' records and memories, and who vanishes."""

    server: ServerSide
    clients: ClientSide
    federation: Federation
    dropout: Dropout
    store: ClientStore
    clerk: Executor = field(default_factory=lambda: ThreadPoolExecutor(1))
    """Waits for the disk, one thing after the other, while clients train."""

    def rest(self) -> None:
        """Returns when the clerk has nothing left to do: only then may another write to the ledger, or close it."""
        self.clerk.submit(int).result()

    def tell(self, opening: Opening, turn: Turn, clients: IntArray, chunk: int) -> Tensor:
        """Returns what every client tells the server before the first round, one row a client."""
        groups = (clients[start : start + chunk] for start in range(0, len(clients), chunk))
        return torch.cat([opening.tell(self.federation.gather(group), turn) for group in groups])


class Reserving:
    """The clerk's work on a round's reservation: begun once, and waited for before anything is added up."""

    def __init__(self, simulation: Simulation, asked: Asked) -> None:
        self._simulation, self._asked = simulation, asked
        self._begun: Future[int] | None = None

    def begin(self) -> Future[int]:
        """Has the clerk begin, unless it has."""
        if self._begun is None:
            self._begun = self._simulation.clerk.submit(self._simulation.server.reserve, self._asked)
        return self._begun

    def result(self) -> int:
        """Returns the reservation's number once it is durable."""
        return self.begin().result()


@dataclass(frozen=True, eq=False)
class Played:
    """What a round leaves behind: where the server stands now, and what there is to tell about it."""

    here: Position
    cohort: int
    survivors: int
    stddev: float
    clip_fraction: float | None
    """None where contributions were clipped in training already, and nobody counted."""
    notes: Mapping[str, Tensor] = field(default_factory=dict)
    """Private numbers of the first clients, for a simulation that records them."""
    seconds: Mapping[str, float] = field(default_factory=dict)

    def about(self) -> dict[str, Any]:
        """Returns what `metrics.jsonl` says of the round."""
        return {
            "cohort": self.cohort,
            "survivors": self.survivors,
            "noise_stddev": self.stddev,
            "clip_fraction": self.clip_fraction,
            "knobs": self.here.knobs.scalars(),
            "seconds": {name: round(seconds, 6) for name, seconds in self.seconds.items()},
        }


def play(simulation: Simulation, here: Position) -> Played:
    """Plays one round: select → reserve → train → bound → shield → sum → release → settle → adapt.

    While other runs charge the same ledger, it is asked anew who can pay, and the round begins again.

    Raises:
        BudgetExceeded: too few clients can pay for the release; nothing was broadcast.
        ProtocolError: too few clients survived; nothing was released, the reservation stays spent.
    """
    again = True
    while True:
        try:
            return _played(simulation, here, again)
        except LedgerMoved:
            again = False
        except BaseException:
            simulation.rest()
            raise


def _played(simulation: Simulation, here: Position, again: bool) -> Played:
    """Plays a round once. The clerk reserves it while the first clients train; nothing is kept or added up before."""
    server, clients, watch = simulation.server, simulation.clients, Stopwatch()
    mechanism = server.mechanism

    with watch("select"):
        present = simulation.dropout.joined(clients.randomness, here.round_ + 1, simulation.federation.population)
        asked = server.ask(here, present, again)
    reserving = Reserving(simulation, asked)

    vanished = simulation.dropout.draw(clients.randomness, asked.terms)
    senders = without(asked.terms.cohort, vanished.silent)
    survivors = Survivors(asked.terms.round_, mechanism.aggregator.counted(asked.terms, senders))

    # whoever has nothing to say sends noise, if its message carries any, and otherwise nothing
    speakers = senders if mechanism.trust != "central" else without(senders, asked.mute)
    partial = mechanism.aggregator.start(asked.terms, mechanism.bounder.sensitivity(asked.terms.knobs))
    clipped: int | None = 0
    notes: Mapping[str, Tensor] = {}
    for chunk in _chunks(speakers, len(asked.terms.weights)):
        data, state = simulation.federation.gather(chunk), simulation.store.state(chunk)
        turn = clients.accept(asked.terms, data)
        with clients.trainer.meanwhile(reserving.begin):
            contribution = clients.contribute(turn, data, state, watch, asked.mute)
        with watch("reserve"):
            reserving.result()
        with watch("sum"):
            partial = mechanism.aggregator.add(partial, contribution.message)
        with watch("reveal"):
            revealed = _answering(clients.reveal(turn, contribution.kept, survivors), vanished.unmask)
        with watch("sum"):
            partial = partial if revealed is None else mechanism.aggregator.subtract(partial, revealed)
        simulation.store.remember(chunk, contribution.state)
        # numbers alone: a chunk's rows are let go before the next chunk but one is trained
        clipped = None if clipped is None or contribution.clipped is None else clipped + contribution.clipped
        notes = notes or contribution.notes
    with watch("reserve"):
        reservation = reserving.result()
    with watch("sum"):
        summed = mechanism.aggregator.finish(partial, vanished)

    with watch("release"):
        released = server.release(asked, summed)
    with watch("settle"):
        # written with the next reservation, checkpoint or end: what dies before leaves what was reserved
        server.settle(asked, reservation, senders, released, durable=False)
    with watch("adapt"):
        after = server.adapt(asked, here, released)
    if after.knobs is not here.knobs:  # which are told, and follow from the release
        with watch("settle"):
            server.charging.ledger.write()

    return Played(
        after,
        len(asked.terms.cohort),
        len(summed.survivors),
        released.stddev,
        clip_fraction=None if clipped is None else clipped / max(1, len(senders)),
        notes=notes,
        seconds=watch.seconds,
    )


def _answering(revealed: Revealed | None, lost: IntArray) -> Revealed | None:
    """Returns what reaches the server of what was revealed: clients that vanished before the end say nothing."""
    if revealed is None or not len(lost):
        return revealed
    there = ~np.isin(revealed.clients, lost)
    return Revealed(revealed.clients[there], revealed.rows[there], revealed.squared_multipliers[there])


def _chunks(clients: IntArray, width: int) -> Iterator[IntArray]:
    size = max(1, _ENTRIES // max(1, width))
    return (clients[start : start + size] for start in range(0, len(clients), size))
