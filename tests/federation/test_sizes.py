"""A plan or a message that is larger than a node can hold is refused in one sentence, before room is made for it."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from federation.test_refusals import Operator, operator, spent
from federation.village import generous
from sordino.errors import NodeRefused, ProtocolError
from sordino.federation.plan import LARGEST, RunPlan, recipe_of
from sordino.federation.policy import Policy, SizePolicy, WhoPolicy
from sordino.federation.sizes import check_message, parameters
from sordino.models.zoo import MODELS
from sordino.recipe import Recipe
from sordino.runs.setup import built


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Operator:
    return operator(tmp_path_factory.mktemp("sizes"))


def edited(asked: Operator, old: str, new: str) -> Operator:
    """Returns the operator with a plan that was written by hand: an honest server could not even compose it."""
    assert old in asked.plan.recipe
    return replace(asked, plan=replace(asked.plan, recipe=asked.plan.recipe.replace(old, new)))


HUGE: dict[str, tuple[Callable[[Operator], Operator], str]] = {
    "members": (lambda o: replace(o, plan=replace(o.plan, population=10**12)), "size.members"),
    "declared members": (lambda o: edited(o, "population = 6", f"population = {10**15}"), "size.members"),
    "rounds": (lambda o: edited(o, "rounds = 3", f"rounds = {10**6}"), "size.rounds"),
    "steps": (lambda o: edited(o, "steps = 1", f"steps = {10**6}"), "size.steps"),
    "records": (lambda o: edited(o, "shape = [", f"shape = [\n{10**9},"), "size.values"),
    "layers": (
        lambda o: edited(edited(o, 'name = "linear"', 'name = "mlp"'), "hidden = [", f"hidden = [\n{10**9},"),
        "at most 100,000,000",
    ),
    "outputs": (lambda o: edited(o, "classes = 10", f"classes = {10**7}"), "at most 100,000,000"),
    "more outputs than the policy has": (lambda o: edited(o, "classes = 10", f"classes = {10**6}"), "size.parameters"),
    "rounds beyond any recipe": (lambda o: edited(o, "rounds = 3", f"rounds = {10**18}"), "run.rounds"),
    "a negative population": (lambda o: replace(o, plan=replace(o.plan, population=-1)), "smallest_cohort"),
    "a population in words": (lambda o: replace(o, plan=replace(o.plan, population="many")), "cannot be read"),  # type: ignore[arg-type]
    "a long recipe": (lambda o: replace(o, plan=replace(o.plan, recipe="#" * LARGEST)), "shorten the recipe"),
}


@pytest.mark.parametrize("what", HUGE)
def test_a_plan_that_is_too_large_is_refused(what: str, honest: Operator) -> None:
    change, setting = HUGE[what]
    asked = change(honest)
    tracemalloc.start()
    answer = asked.ask("hello")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not answer.parts and setting in answer.refused, answer.refused
    assert most < 64 * LARGEST and spent(honest) == 0


def test_an_honest_plan_is_within_them(honest: Operator) -> None:
    assert not honest.ask("hello").refused


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_counted_as_they_are_made(name: str, honest: Operator) -> None:
    shape = (3, 32, 32)
    recipe = recipe_of(honest.plan).but(model={"name": name, "hidden": (7, 5)}, public={"shape": shape})
    assert parameters(recipe) == _made(recipe)


def _made(recipe: Recipe) -> int:
    class Shown:
        input_shape, classes = recipe.public.shape, recipe.public.classes

    return sum(one.numel() for one in built(recipe, Shown()).parameters())  # type: ignore[arg-type]


def test_a_message_that_is_too_large_is_not_looked_into(tmp_path: Path) -> None:
    small = SizePolicy(parameters=10)

    def policy(who: WhoPolicy) -> Policy:
        return generous(who).model_copy(update={"size": small})

    asked = operator(tmp_path, policy=policy)
    assert "size.parameters" in asked.ask("hello").refused  # 640 weights and 10 biases
    check_message(small, {"terms": bytes(1 << 26)})
    with pytest.raises(NodeRefused, match=r"size\.parameters"):
        check_message(small, {"terms": bytes(1 << 26), "plan": bytes(161)})


def test_a_plan_is_parsed_as_what_it_is(honest: Operator) -> None:
    assert RunPlan.parse(honest.plan.pack()) == honest.plan
    for wrong in ({"public": 1}, {"population": math.inf}, {"recipe": None}, {"unknown": 1}):
        with pytest.raises(ProtocolError):
            RunPlan.parse(json.dumps(json.loads(honest.plan.pack()) | wrong).encode())
