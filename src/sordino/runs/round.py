"""One round, top to bottom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from sordino.data.federation import Federation
from sordino.mechanism import Knobs, Mechanism, Turn
from sordino.runs.stopwatch import Stopwatch
from sordino.select.dropout import Dropout
from sordino.server.charging import Books
from sordino.server.step import ServerStep
from sordino.stages import Bounded, Shielded
from sordino.train.trainer import Trainer
from sordino.types import IntArray

_ENTRIES = 2**25
"""Matrix entries that are alive at once: larger cohorts are trained in chunks."""


@dataclass(frozen=True)
class Stage:
    """Where rounds are played: the parts, the people, and the books."""

    mechanism: Mechanism
    trainer: Trainer
    federation: Federation
    dropout: Dropout
    server: ServerStep
    books: Books


@dataclass(frozen=True)
class Played:
    """What a round leaves behind: the next model and knobs, and what there is to tell about it."""

    weights: Tensor
    knobs: Knobs
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
            "knobs": scalars(self.knobs),
            "seconds": {name: round(seconds, 6) for name, seconds in self.seconds.items()},
        }


def scalars(knobs: Knobs) -> dict[str, float]:
    """Returns the knobs that are single numbers."""
    return {name: float(knob) for name, knob in sorted(knobs.items()) if knob.numel() == 1}


def play(stage: Stage, turn: Turn, public: Mapping[str, float]) -> Played:
    """Plays one round: select → quote + reserve → train → bound → shield → sum → release → settle → adapt.

    Raises:
        BudgetExceeded: too few clients can pay for the release; nothing was broadcast.
        ProtocolError: too few clients survived; nothing was released, the reservation stays spent.
    """
    mechanism, watch, told = stage.mechanism, Stopwatch(), list[tuple[int | None, Mapping[str, Tensor]]]()

    with watch("select"):
        charges = mechanism.quote(turn)
        present = stage.dropout.joined(turn, stage.federation.population)
        eligible = stage.books.eligible(turn.round_, charges, present)
        cohort = mechanism.selector.select(turn, eligible.allowed)
        turn = replace(turn, cohort=cohort)
        vanished = stage.dropout.draw(turn, cohort)
    with watch("reserve"):
        reservation = stage.books.reserve(turn.round_, cohort, charges, eligible)

    def messages(senders: IntArray) -> Iterator[Shielded]:
        for chunk in _chunks(senders, len(turn.weights)):
            with watch("train"):
                update = mechanism.local.train(stage.trainer, turn, stage.federation.gather(chunk))
            with watch("bound"):
                contribution = mechanism.bounder.bound(update, turn)
                told.append((_clipped(mechanism, contribution), contribution.notes))
            with watch("shield"):
                message = mechanism.perturber.shield(contribution, turn)
            yield message

    senders = np.setdiff1d(cohort, vanished.silent, assume_unique=True)
    summed = mechanism.aggregator.sum(messages(senders), turn, vanished, mechanism.perturber.reveal)
    with watch("release"):
        released = mechanism.perturber.release(summed, turn)
    with watch("settle"):
        stage.books.settle(reservation, senders, mechanism.quote(turn), released)
    with watch("adapt"):
        weights, knobs = stage.server.apply(turn.weights, released.mean, turn.knobs)
        knobs = mechanism.adapter.adapt(replace(turn, weights=weights, knobs=knobs), released, public)

    return Played(
        weights,
        knobs,
        len(cohort),
        len(summed.survivors),
        released.stddev,
        clip_fraction=_share([clipped for clipped, _ in told], len(senders)),
        notes=told[0][1] if told else {},
        seconds=watch.seconds,
    )


def _clipped(mechanism: Mechanism, contribution: Bounded) -> int | None:
    unknown = contribution.clipped_within or mechanism.after_step is not None
    return None if unknown else int(contribution.clipped.sum())


def _share(clipped: Sequence[int | None], senders: int) -> float | None:
    known = [count for count in clipped if count is not None]
    return sum(known) / max(1, senders) if len(known) == len(clipped) else None


def _chunks(clients: IntArray, width: int) -> Iterator[IntArray]:
    size = max(1, _ENTRIES // max(1, width))
    return (clients[start : start + size] for start in range(0, len(clients), size))
