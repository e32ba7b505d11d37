"""The client's side of a round: accept the terms, train, bound, shield, and later reveal.

It needs what a client has, and nothing else: the mechanism and the model, the server's terms, its own records, what it
remembers, and randomness of its own. The simulator gives it many clients at once, one row each; a client on a network
gives it one. Private values (`Update`, `Bounded`, `Kept`, the state) never leave: `Shielded` and `Revealed` do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from sordino.client_state import ClientState
from sordino.data.client_data import ClientData
from sordino.errors import CompositionError, ProtocolError
from sordino.mechanism import Mechanism
from sordino.opening.feature_map import mapped_data
from sordino.random.streams import Randomness
from sordino.stages import Bounded, Kept, Revealed, Shielded, Update
from sordino.stopwatch import Stopwatch
from sordino.terms import Survivors, Terms, Turn
from sordino.train.trainer import Trainer
from sordino.types import IntArray

_ROUNDING = 1e-5
"""Relative room for single precision when a row is held to its stated bound."""


@dataclass(frozen=True, eq=False)
class Contribution:
    """What a client's part in a round leaves: a message to send, and what stays with the client."""

    message: Shielded
    kept: Kept | None
    state: ClientState
    clipped: int | None
    """How many rows the bound changed; None where they were clipped in training, and nobody counted."""
    notes: Mapping[str, Tensor] = field(default_factory=dict)
    """Private numbers, for a simulation that records them."""


@dataclass(frozen=True, eq=False)
class ClientSide:
    """One or many clients that take part in a round.

    **Formal guarantees**: what leaves in `Contribution.message` went through the mechanism's bounder and perturber, in
    that order; where the bound is on each row, rows are measured once more before noise is added, so a bounder that
    exceeds what it states is found and nothing is sent. All state is passed in and returned.
    """

    mechanism: Mechanism
    trainer: Trainer
    randomness: Randomness
    width: int | None = None
    """Numbers in a broadcast vector, where it is no model (a preparation)."""
    mapped: bool = False
    """Whether records come as the opening's map shows them; else they are mapped here."""

    def accept(self, terms: Terms, data: ClientData) -> Turn:
        """Returns the clients' view of a round whose terms they take part in.

        Raises:
            ProtocolError: the model is not the one that is trained here, or a client was not asked.
        """
        width = self.trainer.width if self.width is None else self.width
        if terms.weights.shape != (width,):
            raise ProtocolError(f"the broadcast model has {terms.weights.numel()} weights and {width} are trained here")
        everybody = np.array_equal(data.clients, terms.cohort)  # in a simulation, mostly: seen at a tenth of the cost
        if not (everybody or np.isin(data.clients, terms.cohort).all()):
            raise ProtocolError("the terms do not name this client: take part in the rounds that ask for it")
        return Turn(terms, self.randomness)

    def contribute(
        self, turn: Turn, data: ClientData, state: ClientState, watch: Stopwatch, mute: IntArray | None = None
    ) -> Contribution:
        """Trains, bounds and shields; clients that are `mute` have nothing left to spend, and say zero with noise.

        **Formal guarantees**: what a mute client says depends on nothing of its own, neither its records nor what it
        remembers of them: it is free, whoever asks for it.
        """
        state = state if mute is None or not len(mute) else _forgotten(state, data.clients, mute)
        with watch("train"):
            data = data if self.mapped else mapped_data(turn.knobs, data)
            update = replace(self.mechanism.local.train(self.trainer, turn, data), state=state)
            update = update if mute is None or not len(mute) else _muted(update, mute)
        with watch("bound"):
            bounded = replace(self.mechanism.bounder.bound(update, turn), state=state)
            _measure(bounded)
        with watch("shield"):
            sent = self.mechanism.perturber.shield(bounded, turn)
        unknown = bounded.clipped_within or self.mechanism.after_step is not None
        clipped = None if unknown else int(bounded.clipped.sum())
        return Contribution(sent.message, sent.kept, sent.state or state, clipped, bounded.notes)

    def reveal(self, turn: Turn, kept: Kept | None, survivors: Survivors) -> Revealed | None:
        """Returns the part of the noise that is to be subtracted, now that the survivors are known; None for none."""
        return None if kept is None else self.mechanism.perturber.reveal(kept, survivors, turn)


def _muted(update: Update, mute: IntArray) -> Update:
    """Returns the update with nothing in it of clients that may not contribute, side columns included.

    Raises:
        CompositionError: only a sum over clients is there, and nobody can be taken out of it.
    """
    quiet = torch.from_numpy(np.isin(update.clients, mute))
    if not quiet.any():
        return update
    if update.client_clip is not None:
        raise CompositionError("clients of a sum cannot be muted one by one: leave them out before they are summed")
    side = {name: column.masked_fill(quiet[:, None], 0.0) for name, column in update.side.items()}
    return replace(update, rows=update.rows.masked_fill(quiet[:, None], 0.0), side=side)


def _forgotten(state: ClientState, clients: IntArray, mute: IntArray) -> ClientState:
    """Returns the state without what mute clients remember: a last update is as private as the records it came from."""
    quiet = np.isin(clients, mute)
    return ClientState(state.rows.masked_fill(torch.from_numpy(quiet)[:, None], 0.0), state.known & ~quiet)


def _measure(bounded: Bounded) -> None:
    """Refuses rows that are longer than their stated bound.

    Raises:
        CompositionError: the bounder does not keep what it states.
    """
    stated = bounded.sensitivity
    if stated is None or not stated.rowwise or not len(bounded.rows):
        return
    limit = stated.norm * (1 + _ROUNDING)
    norms = torch.linalg.vector_norm(bounded.rows, stated.order, dim=1)
    suspects = bounded.rows[~(norms <= limit)].double()  # single precision overstates some norms: once more, exactly
    longest = float(torch.linalg.vector_norm(suspects, stated.order, dim=1).max()) if len(suspects) else 0.0
    if not longest <= limit:
        raise CompositionError(
            f"a bounder states an L{stated.order} norm of at most {stated.norm:g} and returned a row of {longest:g}: "
            "nothing was sent; mend the bounder"
        )
