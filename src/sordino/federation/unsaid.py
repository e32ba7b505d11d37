"""What goes wrong while a node has its records in hand is for its owner to read: such sentences may quote them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sordino.errors import NodeRefused

_LOG = logging.getLogger("sordino.federation")


@contextmanager
def unsaid() -> Iterator[None]:
    """Turns every error into one refusal that says nothing of what happened; the node's own log has the whole of it.

    **Formal guarantees**: of an error that was raised here the operator learns that there was one. Refusals that were
    written for the operator, and errors of the disk, pass.
    """
    try:
        yield
    except (NodeRefused, OSError):
        raise
    except Exception as error:  # whatever arithmetic on records raises
        _LOG.exception("an answer was not made")
        raise NodeRefused(SENTENCE) from error


SENTENCE = "this node could not use its records: its own log says why, and `sordino node check` may"
