"""A server that tells members of one secure sum different things: they share no key, and nothing is opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flwr.app import Context, Message

from federation.village import simulated, village
from sordino.federation.messages import Parcel
from sordino.federation.status import FederationStatus
from sordino.messages import from_bytes, to_bytes
from sordino.runs.folder import RunFolder
from sordino.terms import Terms

SMALL = ("partition.clients=6", "run.rounds=1", "budget.epsilon=50", "aggregate.tolerance=0.4")
VICTIM = 2


def test_a_member_that_is_shown_another_model_is_in_nobodys_sum(tmp_path: Path) -> None:
    """The lie is consistent: the victim is told another digest at the start, and the model that fits it later."""
    recipe, data = simulated(*SMALL, "mechanism.name=dropout_robust")
    here = village(tmp_path, recipe, data)
    grid, honest = here.grid(), here.grid().apps[100 + VICTIM]

    def lied(message: Message, context: Context) -> Message:
        asked = Parcel.parse(message.content, request=True)
        if asked.stage not in ("advertise", "mask"):
            return honest(message, context)
        parts = dict(asked.parts)
        if asked.stage == "advertise":
            parts["alike"] = bytes(32)
        else:
            terms = from_bytes(Terms, asked.part("terms"))
            parts["terms"] = to_bytes(replace(terms, weights=terms.weights + 1))
        message.content = replace(asked, parts=parts).sealed(here.folder.operator).pack()
        reply = Parcel.parse(honest(message, context).content, request=False)
        # signed for the request that it got; the operator, who signs both, takes it for the other one's answer
        whole = replace(reply, answers=asked.digest).sealed(here.nodes[VICTIM].identity)
        return Message(whole.pack(), reply_to=message)

    grid.apps[100 + VICTIM] = lied  # type: ignore[assignment]
    here.deployment(grid).play()
    (line,) = RunFolder(here.folder.run_dir).metrics()
    status = FederationStatus.read(here.folder.status_file)
    assert status is not None and "aborted" not in line and line["survivors"] == 5
    with here.nodes[VICTIM].ledger(write=False) as ledger:
        assert not ledger.entries, "nothing of it left"
