"""What a node refuses, whatever the operator signs: each case costs nothing, and its sentence reaches the operator."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from federation.village import Village, generous, simulated, village
from sordino.aggregate.secure.keys import Identity
from sordino.aggregate.secure.server import SumServer
from sordino.federation.memory import bare
from sordino.federation.messages import Parcel, Stage
from sordino.federation.plan import RunPlan, alike, composed, plan_of, sum_terms_of
from sordino.federation.policy import BudgetPolicy, Policy, WhoPolicy
from sordino.federation.status import FederationStatus
from sordino.messages import to_bytes
from sordino.recipe import Recipe
from sordino.terms import Terms

SMALL = ("partition.clients=6", "run.rounds=3", "budget.epsilon=50", "aggregate.tolerance=0.2")
ASKED = 2
"""The node that is asked."""


@dataclass
class Operator:
    """An operator who signs whatever they like, and whose messages reach the nodes."""

    village: Village
    plan: RunPlan
    terms: Terms
    identity: Identity

    def but(self, **settings: dict[str, object]) -> Operator:
        """Returns the operator with another plan."""
        recipe = self.village.recipe.but(**settings)
        context = replace(self.village.deployment().context, recipe=recipe)
        plan = plan_of(context, self.plan.run, self.plan.population, self.plan.registry)
        return replace(self, plan=plan)

    @property
    def alike(self) -> bytes:
        """What all members of a secure sum are told alike."""
        return alike(self.plan.pack(), to_bytes(self.terms))

    def knobs(self, **changes: float) -> Operator:
        return replace(self, terms=replace(self.terms, knobs=self.terms.knobs.but(**changes)))

    def ask(self, stage: Stage, attempt: int = 0, member: int = ASKED, **parts: bytes) -> Parcel:
        """Sends a request to a node and returns its answer."""
        bytes_ = {"plan": self.plan.pack(), "terms": to_bytes(self.terms)}
        if stage == "advertise":
            bytes_ |= {"alike": self.alike, "terms": to_bytes(bare(self.terms))}
        bytes_ |= parts
        request = Parcel(stage, self.plan.run, self.terms.round_, attempt, member, bytes_).sealed(self.identity)
        grid = self.village.grid()
        sent = grid.push_messages([grid.create_message(request.pack(), f"query.{stage}", 100 + ASKED, "")])
        return Parcel.parse(next(iter(grid.pull_messages(sent))).content, request=False)


def stingy(who: WhoPolicy) -> Policy:
    return generous(who).model_copy(update={"budget": BudgetPolicy(epsilon=0.5)})


def operator(path: Path, mechanism: str = "fed_ldp", policy: Callable[[WhoPolicy], Policy] = generous) -> Operator:
    name, *settings = mechanism.split()
    recipe, data = simulated(*SMALL, f"mechanism.name={name}", *settings)
    made = village(path, recipe, data, policy)
    deployment = made.deployment()
    context = deployment.context
    plan = plan_of(context, "run", 6, made.folder.registry.version)
    terms = Terms(1, context.weights, context.mechanism.adapter.start(), np.arange(6))
    return Operator(made, plan, terms, made.folder.operator)


def spent(asked: Operator) -> int:
    with asked.village.nodes[ASKED].ledger(write=False) as ledger:
        return len(ledger.entries)


@pytest.fixture
def honest(tmp_path: Path) -> Operator:
    return operator(tmp_path)


CASES: dict[str, tuple[Callable[[Operator], Operator], str]] = {
    "clip norm of 10^6": (lambda o: o.knobs(clip_norm=1e6), "largest_clip_norm"),
    "clip norm of 10^6 in the plan": (lambda o: o.but(mechanism={"clip_norm": 1e6}), "largest_clip_norm"),
    "clip norm that is no number": (lambda o: o.knobs(clip_norm=float("nan")), "largest_clip_norm"),
    "noise of 0": (lambda o: o.knobs(noise_multiplier=0.0), "least_noise_multiplier"),
    "noise that is no number": (lambda o: o.knobs(noise_multiplier=float("nan")), "least_noise_multiplier"),
    "less noise than planned": (
        lambda o: o.knobs(noise_multiplier=o.terms.knobs.noise_multiplier * 0.9),
        "the plan fixes",
    ),
    "a round more than planned": (lambda o: replace(o, terms=replace(o.terms, round_=4)), "the plan has 3 rounds"),
    "a cohort of 1": (lambda o: replace(o, terms=replace(o.terms, cohort=np.array([ASKED]))), "smallest_cohort"),
    "a cohort of 1 that is named six times": (
        lambda o: replace(o, terms=replace(o.terms, cohort=np.full(6, ASKED))),
        "smallest_cohort",
    ),
    "another mechanism": (lambda o: o.but(mechanism={"name": "dp_fedavg"}), "mechanism.allowed"),
    "a mechanism as printed": (lambda o: o.but(mechanism={"name": "fed_cad", "mode": "faithful"}), "certified"),
    "no privacy at all": (lambda o: o.but(mechanism={"name": "fedavg"}), "mechanism.allowed"),
    "a cohort with strangers": (
        lambda o: replace(o, terms=replace(o.terms, cohort=np.arange(9))),
        "not in this node's registry",
    ),
    "a cohort without this node": (
        lambda o: replace(o, terms=replace(o.terms, cohort=np.array([0, 1, 3, 4, 5]))),
        "do not name this client",
    ),
    "another operator": (lambda o: replace(o, identity=Identity()), "not signed by the policy's who.operator"),
    "another federation": (lambda o: replace(o, plan=replace(o.plan, federation="other")), "who.federation"),
    "a model that is not finite": (
        lambda o: replace(o, terms=replace(o.terms, weights=torch.full_like(o.terms.weights, torch.nan))),
        "not finite",
    ),
    "another model": (lambda o: o.but(model={"name": "mlp"}), "weights"),
    "records of another shape": (lambda o: o.but(public={"shape": (3,)}), "shape|weights"),
    "more classes than it has": (lambda o: o.but(public={"classes": 2}), "labels|weights"),
    "more records than it holds": (lambda o: o.but(public={"least_records": 10**6}), "least_records"),
}


def only(*mechanisms: str) -> Callable[[WhoPolicy], Policy]:
    def policy(who: WhoPolicy) -> Policy:
        told = generous(who)
        own = told.mechanism.model_copy(update={"allowed": mechanisms})
        return told.model_copy(update={"mechanism": own})

    return policy


@pytest.mark.parametrize("case", CASES)
def test_a_node_refuses(case: str, tmp_path: Path) -> None:
    change, why = CASES[case]
    asked = operator(tmp_path, policy=only("fed_ldp", "fed_cad"))
    answer = change(asked).ask("contribute")
    assert not answer.parts
    assert re.search(why, answer.refused), answer.refused
    assert spent(asked) == 0
    assert not asked.ask("contribute").refused  # what was refused did not use up the round
    assert spent(asked) == 1


def test_an_answer_is_given_once(honest: Operator) -> None:
    assert not honest.ask("contribute").refused
    assert "answered already" in honest.ask("contribute").refused
    assert spent(honest) == 1
    assert "secure.releases" in honest.ask("contribute", attempt=1).refused
    assert spent(honest) == 1
    node = honest.village.nodes[ASKED]
    twice = node.policy.model_copy(update={"secure": node.policy.secure.model_copy(update={"releases": 2})})
    node.policy_file.write_text(twice.to_toml())
    assert not honest.ask("contribute", attempt=1).refused  # another attempt is another release, and is paid for
    assert spent(honest) == 2


def test_a_node_stops_at_its_own_budget(tmp_path: Path) -> None:
    asked = operator(tmp_path, policy=stingy)
    answer = asked.ask("contribute")
    assert "budget.epsilon of 0.5" in answer.refused
    assert spent(asked) == 0


def test_an_opening_release_is_repeated_to_the_bit_and_paid_for_once(tmp_path: Path) -> None:
    asked = operator(tmp_path, "a_dpfl")
    asked = replace(asked, terms=replace(asked.terms, round_=0))
    first, again = asked.ask("tell"), asked.ask("tell", attempt=1)
    assert first.part("told") == again.part("told")
    assert spent(asked) == 1


def test_a_node_waits_for_its_turn_where_noise_is_correlated_over_rounds(tmp_path: Path) -> None:
    asked = operator(tmp_path, "banded mechanism.groups=2")
    assert not replace(asked, terms=replace(asked.terms, round_=2)).ask("contribute").refused
    for soon in (1, 3):
        again = replace(asked, terms=replace(asked.terms, round_=soon))
        assert "waits for its turn" in again.ask("contribute").refused
    assert spent(asked) == 1


def test_a_request_for_another_member_is_ignored(honest: Operator) -> None:
    assert "member 3 reached node-2" in honest.ask("contribute", member=3).refused


def test_a_request_that_was_changed_on_the_way_is_ignored(honest: Operator) -> None:
    signed = Parcel("contribute", "run", 1, 0, ASKED, {"plan": b"", "terms": b""}).sealed(honest.identity)
    grid = honest.village.grid()
    for changed in (replace(signed, round_=2), replace(signed, parts={"plan": b"x", "terms": b""})):
        sent = grid.push_messages([grid.create_message(changed.pack(), "query.contribute", 100 + ASKED, "")])
        answer = Parcel.parse(next(iter(grid.pull_messages(sent))).content, request=False)
        assert "not signed" in answer.refused


def test_records_that_the_policy_does_not_allow_are_not_used(tmp_path: Path) -> None:
    def small(who: WhoPolicy) -> Policy:
        told = generous(who)
        return told.model_copy(update={"data": told.data.model_copy(update={"most_records": 3})})

    asked = operator(tmp_path, policy=small)
    assert "data.most_records" in asked.ask("contribute").refused
    assert spent(asked) == 0


def test_an_expired_registry_stops_the_node(honest: Operator) -> None:
    folder, node = honest.village.folder, honest.village.nodes[ASKED]
    old = folder.registry
    expired = old.model_copy(update={"valid_until": old.issued, "version": old.version + 1}).sign(folder.operator)
    node.registry_file.write_text(expired.to_json())
    assert "expired" in honest.ask("contribute").refused


class TestSecureSum:
    @pytest.fixture
    def asked(self, tmp_path: Path) -> Operator:
        return operator(tmp_path, "dropout_robust")

    def test_a_message_outside_of_the_sum_is_refused(self, asked: Operator) -> None:
        assert "outside of a secure sum" in asked.ask("contribute").refused
        assert spent(asked) == 0

    def test_a_roster_with_unknown_keys_is_refused(self, asked: Operator) -> None:
        """The server invents keys for the other members, so that it alone could unmask: the registry says otherwise."""
        context = composed(asked.plan)
        terms = sum_terms_of(context, asked.plan, asked.terms, 0, ASKED, asked.alike)
        first = asked.ask("advertise")
        inventions = {member: Identity() for member in range(6) if member != ASKED}
        own = asked.village.nodes[ASKED].identity.public
        server = SumServer(terms, {ASKED: own} | {member: one.public for member, one in inventions.items()})
        server.receive(first.part("sum"))
        for member, identity in inventions.items():
            server.receive(_advertised(terms, member, identity))
        answer = asked.ask("share", sum=server.close()[ASKED])
        assert "did not sign" in answer.refused
        assert spent(asked) == 0

    def test_a_cohort_below_the_policy_is_refused(self, asked: Operator) -> None:
        few = replace(asked, terms=replace(asked.terms, cohort=np.array([1, ASKED])))
        assert "smallest_cohort" in few.ask("advertise").refused

    def test_a_cohort_that_dropouts_may_bring_below_the_policy_is_refused(self, asked: Operator) -> None:
        """Of five, a fifth may vanish: the sum of four is one that the policy does not allow."""
        node = asked.village.nodes[ASKED]
        own = node.policy.mechanism.model_copy(update={"smallest_cohort": 5})
        node.policy_file.write_text(node.policy.model_copy(update={"mechanism": own}).to_toml())
        few = replace(asked, terms=replace(asked.terms, cohort=np.arange(5)))
        assert "5 members are asked and 4 of them could open the sum" in few.ask("advertise").refused
        assert not asked.ask("advertise", attempt=1).refused, "of six, five are left"

    def test_a_stage_out_of_turn_is_refused(self, asked: Operator) -> None:
        assert "not begun" in asked.ask("mask", sum=b"").refused
        assert not asked.ask("advertise").refused
        assert "answered already" in asked.ask("advertise").refused
        assert spent(asked) == 0

    def test_other_terms_than_those_that_were_agreed_are_refused(self, asked: Operator) -> None:
        assert not asked.ask("advertise").refused
        more = asked.knobs(noise_multiplier=asked.terms.knobs.noise_multiplier * 1.1)
        assert "another plan, model or terms" in more.ask("mask", sum=b"").refused
        assert spent(asked) == 0

    def test_another_model_or_plan_than_the_others_have_is_refused(self, asked: Operator) -> None:
        """A server that trains one member on a model of its own, and the others on a dead one, would see it alone."""
        assert not asked.ask("advertise").refused
        other = replace(asked, terms=replace(asked.terms, weights=asked.terms.weights + 1))
        assert "another plan, model or terms" in other.ask("mask", sum=b"").refused
        assert "another plan, model or terms" in asked.but(train={"learning_rate": 9.0}).ask("mask", sum=b"").refused
        assert spent(asked) == 0


def _advertised(terms: object, member: int, identity: Identity) -> bytes:
    from sordino.aggregate.secure.client import SumClient
    from sordino.aggregate.secure.policy import SumPolicy

    policy = SumPolicy(1, 1)
    return SumClient(terms, member, identity, {member: identity.public}, policy).advertise()  # type: ignore[arg-type]


def test_a_refusal_reaches_the_operator_and_the_others_go_on(tmp_path: Path) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp", "run.rounds=2")
    made = village(tmp_path, recipe, data)
    strict = made.nodes[3].policy.model_copy(update={"budget": BudgetPolicy(epsilon=0.1)})
    made.nodes[3].policy_file.write_text(strict.to_toml())
    made.nodes[3].__dict__.pop("policy", None)
    last = made.deployment().play()
    assert last.here.round_ == 2
    from sordino.federation.status import FederationStatus

    status = FederationStatus.read(made.folder.status_file)
    assert status is not None
    assert "budget.epsilon of 0.1" in status.node(3).note
    assert any("node-3" in line for line in status.events)
    assert spent(Operator(made, None, None, None)) == 2  # type: ignore[arg-type]
    assert isinstance(made.recipe, Recipe)


def test_a_clip_norm_that_moves_needs_room_before_the_first_round(tmp_path: Path) -> None:
    """Not in the middle of a run, when it has grown past the policy."""

    def narrow(who: WhoPolicy) -> Policy:
        told = generous(who)
        return told.model_copy(update={"mechanism": told.mechanism.model_copy(update={"largest_clip_norm": 1.0})})

    asked = operator(tmp_path, "dp_fedavg_adaptive", policy=narrow)
    refused = asked.ask("hello").refused
    assert "mechanism.largest_clip_norm 1 " in refused and "mechanism.clip_norm begin lower" in refused
    assert not asked.but(mechanism={"clip_norm": 0.2}).ask("hello").refused
    usual = Policy(who=asked.village.nodes[ASKED].policy.who).mechanism.largest_clip_norm
    assert usual >= 5 and usual < 1e6


def test_who_refuses_at_the_greeting_is_known_by_name(tmp_path: Path) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp", "run.rounds=1")
    here = village(tmp_path, recipe, data)
    node = here.nodes[ASKED]
    other = node.policy.mechanism.model_copy(update={"allowed": ("dp_fedavg",)})
    node.policy_file.write_text(node.policy.model_copy(update={"mechanism": other}).to_toml())
    here.deployment().play()
    status = FederationStatus.read(here.folder.status_file)
    assert status is not None and status.node(ASKED).state == "refused"
    assert "mechanism.allowed" in status.node(ASKED).note
    assert any(event.startswith(f"node-{ASKED}: ") for event in status.events)
