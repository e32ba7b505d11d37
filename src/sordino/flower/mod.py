"""The client's side: a mod that bounds what a ClientApp learned, and under local trust adds noise, before it leaves.

    app = ClientApp(mods=[private_mod])

Put it first in the list: the first mod is the outermost, and what it returns is what leaves the node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import torch
from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.common.constant import ErrorCode
from torch import Tensor

from sordino.bound.l2 import Clip
from sordino.errors import ModelError, ProtocolError, SordinoError
from sordino.flower.arrays import ArrayLayout
from sordino.flower.node_limits import NodeLimits
from sordino.flower.settings import FlowerSettings
from sordino.flower.wire import NAME, FlowerTerms, PrivateReply
from sordino.perturb.gaussian import LocalGaussian
from sordino.random.streams import Entropy, Randomness
from sordino.stages import Bounded, Update
from sordino.terms import Knobs, Terms, Turn

_LOG = logging.getLogger("flwr")
_REFUSED = int(ErrorCode.MOD_FAILED_PRECONDITION)
_ME = np.zeros(1, np.int64)
FAILED = "training failed"
"""How the reason begins with which a node tells a trusted server that its own training raised an error."""

NextApp = Callable[[Message, Context], Message]
"""The rest of a ClientApp: further mods, and the user's own function."""


def private_mod(message: Message, context: Context, call_next: NextApp) -> Message:
    """Lets a ClientApp train as it likes, and lets one bounded row leave: no metrics, no weights, no counts.

    **Formal guarantees**: the update as a whole, 0-d arrays included, has an L2 norm of at most the round's clip norm;
    one that holds NaN or ∞ is sent as zero; integer arrays are not sent. Under local trust the row carries Gaussian
    noise of the round's multiplier, drawn from the operating system, on the exact grid, so the reply is private by
    itself; training that crashes is answered with zero and noise (its message stays in the node's log), since a
    failure may tell something too. Settings are read at each call; terms that contradict the run configuration or the
    node's own limits (`NodeLimits`) are refused with a sentence that reaches the operator.
    **Edge cases**: other messages than `train` are refused, unless `sordino.evaluate = "unprotected"` and the node has
    no ε of its own.
    """
    return answer(message, context, call_next, Entropy())


def answer(message: Message, context: Context, call_next: NextApp, randomness: Randomness) -> Message:
    """Is `private_mod` with randomness of the caller's choice, for simulations that repeat to the bit."""
    try:
        settings = FlowerSettings.read(context.run_config)
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return _unprotected(message, context, call_next, settings)
        terms = FlowerTerms.unpack(message.content)
        _agree(terms, settings)
        limits = NodeLimits.read(context.node_config)
        limits.admit(terms)
        limits.charge(terms, str(context.run_id), settings.adjacency)
        update = _update(message, context, call_next, settings)
        turn = Turn(Terms(terms.round_, update[0], Knobs(terms.clip_norm, terms.noise_multiplier), _ME), randomness)
        bounded = Clip().bound(Update(_ME, update, np.ones(1, np.int64)), turn)
        return Message(_shielded(bounded, turn, terms).pack(), reply_to=message)
    except SordinoError as why:
        _LOG.error("sordino: %s", why)
        return Message(Error(_REFUSED, f"sordino: {why}"), reply_to=message)


def _unprotected(message: Message, context: Context, call_next: NextApp, settings: FlowerSettings) -> Message:
    kind = message.metadata.message_type
    if settings.evaluate != "unprotected":
        raise ProtocolError(
            f"a message of type {kind!r} would be answered without noise: evaluate on public records at the server, "
            "or set sordino.evaluate = 'unprotected'"
        )
    NodeLimits.read(context.node_config).admit_unprotected()
    return call_next(message, context)


def _agree(terms: FlowerTerms, settings: FlowerSettings) -> None:
    """Refuses terms that are not those of the run configuration."""
    if terms.trust != settings.trust:
        raise ProtocolError(f"the round asks for {terms.trust} trust and sordino.trust is {settings.trust!r}")
    if settings.clipping == "fixed" and terms.clip_norm != settings.clip_norm:
        raise ProtocolError(
            f"the round's clip norm is {terms.clip_norm:g} and sordino.clip-norm {settings.clip_norm:g}"
        )
    wanted = settings.noise_multiplier
    if wanted is not None and terms.noise_multiplier < wanted * (1 - 1e-9):
        raise ProtocolError(
            f"the round's noise multiplier is {terms.noise_multiplier:g} and sordino.noise-multiplier {wanted:g}"
        )


def _update(message: Message, context: Context, call_next: NextApp, settings: FlowerSettings) -> Tensor:
    """Returns what the ClientApp learned, as one row; zero under local trust where it failed."""
    content = message.content
    if len(content.array_records) != 1:
        raise ProtocolError("a train message carries one model: send one ArrayRecord")
    arrays = next(iter(content.array_records.values()))
    layout = ArrayLayout.of(arrays, settings.excludes)
    before = layout.row(arrays).double()
    # the ClientApp sees what it would see without us
    message.content = RecordDict({name: record for name, record in content.items() if name != NAME})
    try:
        after = _learned(call_next(message, context), layout)
    except Exception as failure:  # whatever a stranger's training raises
        if settings.trust != "local":
            raise ModelError(f"{FAILED} ({type(failure).__name__}: {failure})") from failure
        _LOG.exception("sordino: training failed, and is answered with zero and noise")
        after = before
    return (after - before).to(torch.float32).unsqueeze(0)


def _learned(reply: Message, layout: ArrayLayout) -> Tensor:
    if reply.has_error():
        raise ModelError(reply.error.reason)
    if len(reply.content.array_records) != 1:
        raise ModelError("the ClientApp's reply must hold one ArrayRecord, the trained model")
    return layout.row(next(iter(reply.content.array_records.values()))).double()


def _shielded(bounded: Bounded, turn: Turn, terms: FlowerTerms) -> PrivateReply:
    if terms.trust == "local":
        message = LocalGaussian().shield(bounded, turn).message
        return PrivateReply(terms.round_, message.rows[0], float(message.squared_multipliers[0]), False)
    unclipped = terms.counted and not bool(bounded.clipped[0])
    return PrivateReply(terms.round_, bounded.rows[0], 0.0, unclipped)
