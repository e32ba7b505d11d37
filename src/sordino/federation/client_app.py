"""The ClientApp: finds its node's folder by what the SuperNode was started with, and lets the node answer.

`flower-supernode --node-config 'folder="/srv/node"'` says where; the run's configuration is never read. Whatever the
node refuses travels back as one sentence, so that the operator reads it.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from sordino.errors import FederationError, SordinoError
from sordino.federation.messages import STAGES, Parcel
from sordino.federation.node import Node
from sordino.federation.node_folder import NodeFolder
from sordino.random.streams import Entropy, Randomness

_LOG = logging.getLogger("sordino.federation")


def client_app(randomness: Randomness | None = None) -> ClientApp:
    """Returns the ClientApp; `randomness` is for tests in one process, and never set on a machine of its own."""
    made = ClientApp()
    for stage in STAGES:
        made.query(stage)(partial(answer, randomness=randomness or Entropy()))
    return made


def answer(message: Message, context: Context, randomness: Randomness) -> Message:
    """Returns the node's answer, or its refusal as a sentence."""
    try:
        request = Parcel.parse(message.content, request=True)
    except SordinoError as error:
        return Message(Parcel("hello", "", 0, 0, 0, refused=str(error)).pack(), reply_to=message)
    try:
        node = Node(folder_of(context), randomness)
    except SordinoError as error:
        return Message(request.answer(refused=str(error)).pack(), reply_to=message)
    try:
        told = node.answer(request, message.metadata.dst_node_id)
    except SordinoError as error:
        told = node.refusal(request, str(error))
    except OSError as error:
        why = f"the node's disk failed ({error.strerror}): free some space, then start it again"
        told = node.refusal(request, why)
    except Exception:  # else Flower would send its text, and what it quotes, to the server
        _LOG.exception("a request was not answered")
        told = node.refusal(request, "this node failed: its own log says why")
    return Message(told.pack(), reply_to=message)


def folder_of(context: Context) -> NodeFolder:
    """Returns the node's folder, from what its SuperNode was started with.

    Raises:
        FederationError: it was started without one.
    """
    folder = context.node_config.get("folder")
    if not isinstance(folder, str) or not folder:
        raise FederationError(
            "the SuperNode was started without a folder: add --node-config 'folder=\"/path/of/node\"'"
        )
    return NodeFolder(Path(folder))


app = client_app()
