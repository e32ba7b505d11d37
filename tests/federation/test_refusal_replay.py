"""A node's signed refusal says that nothing left it: it must not be passed off for another request, or later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from federation.test_refusals import ASKED, Operator, operator, spent
from federation.village import QUICK
from sordino.errors import ProtocolError
from sordino.federation.grid import InProcessGrid
from sordino.federation.journal import Journal
from sordino.federation.messages import Parcel
from sordino.federation.network import NodeNetwork
from sordino.federation.plan import PREPARATION, preparing
from sordino.federation.telling import Telling
from sordino.messages import to_bytes
from sordino.terms import Terms


@pytest.fixture
def honest(tmp_path: Path) -> Operator:
    return operator(tmp_path)


def delivered(asked: Operator, request: Parcel) -> Parcel:
    """Returns what the node says to a request, however often it was delivered before."""
    grid = asked.village.grid()
    sent = grid.push_messages([grid.create_message(request.pack(), f"query.{request.stage}", 100 + ASKED, "")])
    return Parcel.parse(next(iter(grid.pull_messages(sent))).content, request=False)


def requested(asked: Operator, **parts: bytes) -> Parcel:
    told = {"plan": asked.plan.pack(), "terms": to_bytes(asked.terms), **parts}
    return Parcel("contribute", asked.plan.run, asked.terms.round_, 0, ASKED, told).sealed(asked.identity)


def signed(asked: Operator, answer: Parcel) -> bool:
    try:
        answer.check(asked.village.nodes[ASKED].identity.public, "the node")
    except ProtocolError:
        return False
    return True


def test_a_request_that_was_refused_is_never_answered(honest: Operator) -> None:
    """A SuperLink delivers it twice, the records are back the second time, and it would pass on the refusal."""
    request, node = requested(honest), honest.village.nodes[ASKED]
    records = node.path / "data" / "records.npz"
    records.rename(records.with_suffix(".away"))
    refusal = delivered(honest, request)
    assert refusal.refused and signed(honest, refusal)
    records.with_suffix(".away").rename(records)
    again = delivered(honest, request)
    assert "refused before" in again.refused and spent(honest) == 0
    other = delivered(honest, requested(honest, another=b"request"))
    assert not other.refused and spent(honest) == 1


def test_after_its_message_left_a_node_signs_no_refusal(honest: Operator) -> None:
    request = requested(honest)
    assert not delivered(honest, request).refused
    again = delivered(honest, request)
    assert "answered already" in again.refused and not signed(honest, again)


def test_nor_after_a_sum_before_the_first_round(tmp_path: Path) -> None:
    asked = operator(tmp_path, "fed_ldp opening.feature_mean=0.3")
    context = preparing(asked.village.deployment().context, "FeatureMean")
    terms = Terms(0, context.weights, context.mechanism.adapter.start(), asked.terms.cohort)
    request = requested(replace(asked, terms=terms), **{PREPARATION: b"FeatureMean"})
    assert not delivered(asked, request).refused and spent(asked) == 1
    again = delivered(asked, request)
    assert again.refused and not signed(asked, again)


class Replaying(InProcessGrid):
    """A SuperLink that delivers requests, and passes old refusals on in place of answers."""

    old: Parcel | None = None

    def pull_messages(self, message_ids):  # type: ignore[no-untyped-def]
        for reply in super().pull_messages(message_ids):
            came = Parcel.parse(reply.content, request=False)
            if self.old is not None and came.node == ASKED and came.stage == self.old.stage:
                reply.content = self.old.pack()
            yield reply


def test_the_server_does_not_take_a_refusal_of_another_request(tmp_path: Path) -> None:
    asked = operator(tmp_path)
    refusal = asked.knobs(clip_norm=1e6).ask("contribute")  # the same run, round and attempt, with other terms
    assert "largest_clip_norm" in refusal.refused and signed(asked, refusal)
    folder, plain = asked.village.folder, asked.village.grid()
    grid = Replaying(plain.apps, plain.node_configs, plain.fates)
    telling = Telling(folder, folder.registry, asked.plan.run, 3, dict)
    network = NodeNetwork(grid, folder.registry, folder.operator, asked.plan, QUICK, telling, Journal(tmp_path))
    assert network.presence.gathered(6).all()
    grid.old = refusal
    told = {"terms": to_bytes(asked.terms)}
    answers = network.ask("contribute", 1, 0, dict.fromkeys(range(6), told))
    assert ASKED in answers.lost and ASKED not in answers.refused, "its message may have left it, and did"
    assert spent(asked) == 1
