"""What goes wrong while a server reads a member's answer is that member's doing: it is left out, and nobody else is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sordino.errors import ProtocolError


@contextmanager
def answer_of(member: int) -> Iterator[None]:
    """Turns whatever is raised while an answer is read into one error that blames its sender.

    **Formal guarantees**: no answer that cannot be read ends another member's run: JSON that nests a million deep,
    numbers of a kind that nobody adds up, or what else a reader stumbles over, is left out.
    """
    try:
        yield
    except ProtocolError:
        raise
    except Exception as error:
        who = f"member {member}" if member >= 0 else "a node"
        raise ProtocolError(f"{who} sent what cannot be read ({type(error).__name__}): it is left out") from error
