"""What a node says of its records, once it has paid for it: it answers whatever they are."""

from __future__ import annotations

import logging

import numpy as np
from torch import Tensor

from sordino.client.side import ClientSide, Contribution
from sordino.client_state import ClientState
from sordino.data.client_data import ClientData
from sordino.federation.unsaid import unsaid
from sordino.mechanism import Opening
from sordino.stages import Kept
from sordino.stopwatch import Stopwatch
from sordino.terms import Survivors, Turn
from sordino.types import IntArray

_LOG = logging.getLogger("sordino.federation")
_WHY = "this node's records could not be used: it says what it would say without any"


def contribution(side: ClientSide, turn: Turn, data: ClientData, state: ClientState, mute: bool) -> Contribution:
    """Returns a node's part in a round: of no records where it is told to be mute, or where its own cannot be used.

    **Formal guarantees**: a mute node's records are not looked at, nor what it remembers of them: it is free, whoever
    asks. Otherwise a node answers whatever its records are, since a refusal would tell of them without noise; what it
    says of none is as long and as noisy as what it says of some. For a client as a whole that is a contribution like
    any other. A record whose mere presence makes training fail silences the records beside it, which noise for one
    record does not hide: certificates name that.
    """
    if mute:
        return side.contribute(turn, data.emptied(), ClientState.blank(1), Stopwatch())
    try:
        return side.contribute(turn, data, state, Stopwatch())
    except Exception:  # whatever arithmetic on records raises
        _LOG.exception(_WHY)
    with unsaid():
        return side.contribute(turn, data.emptied(), state, Stopwatch())


def tell(opening: Opening, data: ClientData, turn: Turn) -> Tensor:
    """Returns what a node tells before the first round; of no records where its own cannot be used."""
    try:
        return opening.tell(data, turn)
    except Exception:
        _LOG.exception(_WHY)
    with unsaid():
        return opening.tell(data.emptied(), turn)


def removable(side: ClientSide, turn: Turn, kept: Kept, certain: IntArray) -> tuple[IntArray, float]:
    """Returns the part of the noise that is taken back when so many survivors are certain, and how much that is."""
    revealed = side.reveal(turn, kept, Survivors(turn.round_, certain))
    if revealed is None:
        return np.zeros(kept.noise.shape[-1], np.int64), 0.0
    rows: IntArray = revealed.rows.numpy()[0]
    return rows, float(revealed.squared_multipliers[0])
