"""What newcomers bring: numbers to predict, arrays to predict from, models that end in a softmax."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import sordino
from sordino.advise.advice import Situation, advise
from sordino.errors import DataError, ModelError, RecipeError, SordinoWarning
from sordino.recipe import Recipe
from sordino.runs.setup import assemble

X = torch.rand(300, 10, generator=torch.Generator().manual_seed(0)) * 2 - 1
NUMBERS = (X[:, :3].sum(1) + X[:, 3]) / 4
CLASSES = (NUMBERS > 0).long()
DP_SGD = {"name": "dp_sgd", "trust": "central"}


def people(y, classes):
    return sordino.Federation.of(X, y, clients=60, public=sordino.PublicCounts(60, 240, classes))


def test_numbers_are_learned_with_the_default_step():
    """It was 4, which suits classes: R² was -7 where -3 was promised to be better at a smaller ε."""
    outcome = sordino.run(federation=people(NUMBERS, 0), mechanism=DP_SGD, budget={"epsilon": 4.0, "delta": 1e-4})
    assert outcome.context.step.learning_rate == pytest.approx(0.4) and outcome.scores.r2 > 0.5


@pytest.mark.parametrize(("y", "classes", "step"), [(NUMBERS, 0, 0.4), (CLASSES, 2, 4.0)])
def test_the_step_follows_features_only_where_numbers_are_predicted(y, classes, step):
    recipe = Recipe.begin({"mechanism": DP_SGD})
    assert assemble(recipe, federation=people(y, classes)).step.learning_rate == pytest.approx(step)
    asked = Recipe.begin({"mechanism": DP_SGD, "server": {"learning_rate": 2.0}})
    assert assemble(asked, federation=people(y, classes)).step.learning_rate == 2.0
    advised = advise(Situation(60, 240, 11, 4.0, 1e-4, "central", "record", regression=0 if classes else 10))
    assert advised.settings["server.learning_rate"] == pytest.approx(step)


def test_predict_takes_arrays_and_says_what_does_not_fit():
    outcome = sordino.run(
        federation=people(CLASSES, 2), mechanism=DP_SGD, budget={"epsilon": 8.0, "delta": 1e-4}, run={"rounds": 1}
    )
    want = outcome.predict(X[:5])
    assert torch.equal(outcome.predict(X[:5].numpy()), want) and torch.equal(outcome.predict(X[:5].tolist()), want)
    with pytest.raises(DataError, match=r"shape \(7,\), and the model was trained on \(10,\)"):
        outcome.predict(X[:5, :7])
    with pytest.raises(DataError, match="inputs must be numbers"):
        outcome.predict(np.array([["a"] * 10]))
    with pytest.raises(DataError, match="predict: record 1, feature 0 is nan"):
        outcome.predict(torch.stack([X[0], X[1] * float("nan")]))
    assert "Assurance(" not in repr(outcome) and len(repr(outcome)) < 800


def test_whoever_resumes_names_the_folder():
    with pytest.raises(RecipeError, match="resume needs out"):
        sordino.run(resume=True)


def test_a_softmax_too_many_is_warned_of():
    recipe = Recipe.begin({"mechanism": DP_SGD})
    with pytest.warns(SordinoWarning, match="add up to 1, as after a softmax"):
        assemble(recipe, nn.Sequential(nn.Linear(10, 2), nn.Softmax(1)), people(CLASSES, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SordinoWarning)
        assemble(recipe, nn.Sequential(nn.Linear(10, 2), nn.LogSoftmax(1)), people(CLASSES, 2))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(10, 2)

    def forward(self, x, more):
        return self.last(x + more)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (TwoInputs(), "join several inputs into one"),
        (TwoInputs, r"call it, model=TwoInputs\(\)"),
        (nn.Linear(10, 2).requires_grad_(False), "unfreeze some"),
    ],
)
def test_models_that_do_not_fit_are_told_the_remedy(model, said):
    with pytest.raises(ModelError, match=said):
        assemble(Recipe.begin({"mechanism": DP_SGD}), model, people(CLASSES, 2))
