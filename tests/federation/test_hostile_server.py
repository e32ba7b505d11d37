"""A server that tells members different things, or another thing later: nothing that it was not promised is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from flwr.app import Context, Message

from federation.test_refusals import ASKED, operator
from federation.village import Village, generous, simulated, village
from sordino.federation.messages import Parcel
from sordino.federation.plan import RunPlan
from sordino.federation.policy import Policy, SecurePolicy, WhoPolicy
from sordino.messages import from_bytes, to_bytes
from sordino.runs.folder import RunFolder
from sordino.terms import Terms

SMALL = ("partition.clients=6", "run.rounds=1", "budget.epsilon=50", "aggregate.tolerance=0.4")
VICTIM = 2


def play(here: Village, lie: Callable[[Parcel], dict[str, bytes]]) -> list[Parcel]:
    """Plays a run whose operator lies to one member, and signs it; returns what that member answered to lies."""
    grid, honest, answers = here.grid(), here.grid().apps[100 + VICTIM], []

    def app(message: Message, context: Context) -> Message:
        asked = Parcel.parse(message.content, request=True)
        if not (other := lie(asked)):
            return honest(message, context)
        message.content = replace(asked, parts={**asked.parts, **other}).sealed(here.folder.operator).pack()
        answers.append(Parcel.parse(honest(message, context).content, request=False))
        # signed for the request that came; the operator, who made both, takes it for the other one's answer
        whole = replace(answers[-1], answers=asked.digest).sealed(here.nodes[VICTIM].identity)
        return Message(whole.pack(), reply_to=message)

    grid.apps[100 + VICTIM] = app  # type: ignore[assignment]
    here.deployment(grid).play()
    return answers


def test_a_member_that_is_shown_another_model_is_in_nobodys_sum(tmp_path: Path) -> None:
    """The lie is consistent: the victim is told another digest at the start, and the model that fits it later."""
    recipe, data = simulated(*SMALL, "mechanism.name=dropout_robust")
    here = village(tmp_path, recipe, data)

    def other(asked: Parcel) -> dict[str, bytes]:
        if asked.stage == "advertise":
            return {"alike": bytes(32)}
        if asked.stage != "mask":
            return {}
        terms = from_bytes(Terms, asked.part("terms"))
        return {"terms": to_bytes(replace(terms, weights=terms.weights + 1))}

    play(here, other)
    (line,) = RunFolder(here.folder.run_dir).metrics()
    assert "aborted" not in line and line["survivors"] == 5
    with here.nodes[VICTIM].ledger(write=False) as ledger:
        assert not ledger.entries, "nothing of it left"


def test_noise_is_taken_back_under_the_plan_that_it_was_drawn_for(tmp_path: Path) -> None:
    """A plan that tolerates more dropouts calls more of the noise superfluous than is: half of it could be removed."""
    recipe, data = simulated(*SMALL, "mechanism.name=dropout_robust", "aggregate.tolerance=0.2")
    here = village(tmp_path, recipe, data)

    def other(asked: Parcel) -> dict[str, bytes]:
        if asked.stage != "unmask":
            return {}
        plan = RunPlan.parse(asked.part("plan"))
        lie = replace(plan, recipe=plan.recipe.replace("tolerance = 0.2", "tolerance = 0.4"))
        assert lie != plan
        return {"plan": lie.pack()}

    (answer,) = play(here, other)
    assert "another plan" in answer.refused and not answer.parts


def test_a_plan_that_changes_in_mid_run_is_priced_as_it_came(tmp_path: Path) -> None:
    asked = operator(tmp_path, "fed_ldp mechanism.noise_multiplier=4")
    assert not asked.ask("contribute").refused
    other = asked.but(mechanism={"noise_multiplier": 2.0}).knobs(noise_multiplier=2.0)
    assert not replace(other, terms=replace(other.terms, round_=2)).ask("contribute").refused
    with asked.village.nodes[ASKED].ledger(write=False) as ledger:
        first, second = (entry.charges[0].event for entry in ledger.entries)
    assert (first.noise_multiplier, second.noise_multiplier) == (4.0, 2.0)  # type: ignore[union-attr]


def test_a_sum_that_counts_on_more_members_than_the_policy_does_is_refused(tmp_path: Path) -> None:
    """A node that expects a fifth of the members to work with the server wants their noise made up for."""

    def wary(who: WhoPolicy) -> Policy:
        return generous(who).model_copy(update={"secure": SecurePolicy(smallest_threshold=2, corrupt=0.2)})

    asked = operator(tmp_path, "dropout_robust", wary)
    assert "corrupt" in asked.ask("advertise").refused
