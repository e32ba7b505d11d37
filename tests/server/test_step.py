"""The server's step: paths, momentum and averages are functions of what was released."""

from __future__ import annotations

import pytest
import torch

from sordino.errors import RecipeError
from sordino.recipe import Recipe
from sordino.runs.setup import assemble
from sordino.server.step import ServerStep, step_of_path, usual_path

MEANS = [torch.tensor([1.0, 2.0]), torch.tensor([0.5, -1.0]), torch.tensor([-1.0, 0.25]), torch.tensor([3.0, 0.0])]


def played(step: ServerStep) -> tuple[list[torch.Tensor], torch.Tensor]:
    weights, state, seen = torch.zeros(2), {}, []
    for round_, mean in enumerate(MEANS, 1):
        weights, state = step.apply(weights, mean, state, round_)
        seen.append(weights)
    return seen, step.published(weights, state)


def test_without_an_average_the_last_model_is_published() -> None:
    seen, model = played(ServerStep(0.5))
    assert torch.equal(model, seen[-1]) and torch.allclose(model, 0.5 * sum(MEANS))


def test_the_average_is_that_of_the_last_models() -> None:
    seen, model = played(ServerStep(0.5, average_from=3))
    assert torch.allclose(model, (seen[2] + seen[3]) / 2)
    assert torch.equal(seen[-1], played(ServerStep(0.5))[0][-1]), "training itself is as it was"


def test_momentum_and_average_go_together() -> None:
    seen, model = played(ServerStep(1.0, momentum=0.9, average_from=1))
    velocity, weights, by_hand = torch.zeros(2), torch.zeros(2), []
    for mean in MEANS:
        velocity = 0.9 * velocity + mean
        weights = weights + velocity
        by_hand.append(weights)
    assert all(torch.allclose(one, other) for one, other in zip(seen, by_hand, strict=True))
    assert torch.allclose(model, torch.stack(by_hand).mean(0))


def test_a_path_is_walked_in_so_many_steps_of_the_clip_norm() -> None:
    assert step_of_path(600, 30, 0.2) * 0.2 * 30 == pytest.approx(600)
    told = ["mechanism.name=dp_sgd", "mechanism.clip_norm=0.2", "run.rounds=30", "server.path=600"]
    recipe = Recipe.from_dict({"server": {"path": 600}, "mechanism": {"name": "dp_sgd", "clip_norm": 0.2}})
    assert assemble(recipe.but(run={"rounds": 30})).step.learning_rate == pytest.approx(100)
    with pytest.raises(RecipeError, match="exclude each other"):
        Recipe.load(None, [*told, "server.learning_rate=1"])


def test_the_usual_path_needs_no_data_and_grows_with_budget_and_records() -> None:
    assert usual_path(0.2, 1000) < usual_path(0.4, 1000) < usual_path(0.4, 2000)
    assert usual_path(16_000 / 60_000, 60_000) == pytest.approx(14_000)
    recipe = Recipe.from_dict({"server": {"path": "auto"}, "mechanism": {"name": "dp_sgd"}})
    assert assemble(recipe).step.learning_rate > assemble(recipe.but(budget={"epsilon": 0.1})).step.learning_rate


def test_the_published_model_is_the_average_in_a_run(tmp_path) -> None:
    import sordino

    recipe = Recipe.load(None, ["server.average=0.5", "run.rounds=4", "partition.clients=10"])
    outcome = sordino.run(recipe, out=tmp_path / "a")
    last = sordino.run(recipe.but(server={"average": 0.0}), out=tmp_path / "b")
    assert not torch.equal(outcome.weights, last.weights)
    federation = outcome.context.federation
    right = float((outcome.predict(federation.test_x) == federation.test_y).float().mean())
    assert right == pytest.approx(outcome.accuracy)
