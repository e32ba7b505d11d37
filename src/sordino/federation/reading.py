"""How a server reads a member's answer: signed for the very request, and whatever is wrong with it is its sender's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sordino.errors import ProtocolError
from sordino.federation.messages import Parcel
from sordino.federation.plan import RunPlan
from sordino.federation.registry import MemberRegistry
from sordino.federation.sizes import check_answer


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


@dataclass(frozen=True)
class AnswerReader:
    """Tells answers of members from others, by the registry's keys.

    **Formal guarantees**: an answer counts when the member that was asked has signed it for this very request: its
    stage, run, round, attempt, plan and terms.
    """

    plan: RunPlan
    registry: MemberRegistry

    def signed(self, answer: Parcel, request: str, member: int) -> Parcel:
        """Returns an answer that the member signed for the request of this digest; for refusals see `vouched`.

        Raises:
            ProtocolError: it did not.
        """
        check_answer(self.plan, answer.parts)
        if answer.answers != request:
            raise ProtocolError("an answer belongs to another request, stage, round or attempt: it is ignored")
        if not answer.refused:
            key = self.registry.public_keys.get(member)
            if answer.node != member or key is None:
                raise ProtocolError(f"an answer names member {answer.node}, who was not asked: it is ignored")
            answer.check(key, f"member {member}")
        return answer

    def vouched(self, answer: Parcel, member: int) -> bool:
        """Returns whether a member signed its own refusal."""
        key = self.registry.public_keys.get(member)
        if key is None or answer.node != member:
            return False
        try:
            answer.check(key, f"member {member}")
        except ProtocolError:
            return False
        return True
