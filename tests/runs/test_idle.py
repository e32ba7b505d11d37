"""Settings without effect are refused, with the one that has; settings that have one are not."""

import pytest

import sordino
from sordino.errors import RecipeError, SordinoWarning
from sordino.mechanisms import MECHANISMS
from sordino.recipe import Recipe
from sordino.runs.idle import idle, steps_in_words
from sordino.runs.setup import assemble

FEW = ("partition.clients=20", "run.rounds=2", "budget.epsilon=8")


def found(*settings):
    return idle(assemble(Recipe.load(None, [*FEW, *settings])), own_model=False, own_data=False)


@pytest.mark.parametrize(
    ("settings", "field", "instead"),
    [
        (("mechanism.name=dp_sgd", "train.learning_rate=0.1"), "train.learning_rate", "server.learning_rate"),
        (("mechanism.name=dp_sgd", "train.batch_size=7"), "train.batch_size", "mechanism.sampling_rate"),
        (("mechanism.name=geometric", "mechanism.unit=record", "train.steps=2"), "train.steps", "server.learning_rate"),
        (("train.momentum=0.5",), "train.momentum", "train.optimizer = 'momentum'"),
        (("train.betas=[0.5, 0.9]",), "train.betas", "train.optimizer = 'adam'"),
        (("train.decay=0.5",), "train.decay", "train.optimizer = 'rmsprop'"),
        (("train.damping=0.1",), "train.damping", "train.optimizer = 'adam' or 'rmsprop'"),
        (("partition.alpha=0.1",), "partition.alpha", "partition.kind = 'dirichlet' or 'quantity_skew'"),
        (("partition.share=0.5",), "partition.share", "partition.kind = 'label_skew'"),
        (("partition.classes_per_client=3",), "partition.classes_per_client", "partition.kind = 'pathological'"),
        (("model.hidden=[5]",), "model.hidden", "model.name = 'mlp'"),
        (("model.activation=tanh",), "model.activation", "model.name = 'mlp'"),
        (("data.feature_count=9",), "data.feature_count", "data.features = 'random'"),
        (
            ("data.features=random", "data.feature_count=9", "data.feature_angles=3"),
            "data.feature_angles",
            "scattering",
        ),
        (("data.outside=clip",), "data.outside", "public.ranges"),
        (("aggregate.trim=2",), "aggregate.trim", "aggregate.shards"),
        (("mechanism.name=fed_ldp", "aggregate.rounding=0.5"), "aggregate.rounding", "distributed trust"),
        (("opening.ridge=0.5",), "opening.ridge", "opening.channel_moment"),
        (("dropout.late_round=3",), "dropout.late_round", "dropout.late"),
        (('dropout.stages=["train"]',), "dropout.stages", "dropout.rate"),
        (("mechanism.name=fedavg", "budget.epsilon=none", "budget.clients={0 = 0.5}"), "budget.clients", "budget.eps"),
    ],
)
def test_a_setting_without_effect_is_told_with_the_one_that_has(settings, field, instead):
    (sentence,) = found(*settings)
    assert sentence.startswith(f"{field} has no effect ")
    assert instead in sentence


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("mechanism.name=dp_sgd", "train.chunk=2"),
        ("train.learning_rate=0.1", "train.steps=2", "train.optimizer=momentum", "train.momentum=0.5"),
        ("partition.kind=dirichlet", "partition.alpha=5"),
        ("model.name=mlp", "model.hidden=[5]", "model.activation=tanh"),
        ("dropout.rate=0.1", 'dropout.stages=["train"]', "dropout.late=0.2", "dropout.late_round=2"),
        ("aggregate.rounding=0.5", "aggregate.corrupt=0.1"),
    ],
)
def test_a_setting_with_an_effect_is_not(settings):
    assert found(*settings) == []


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_runs_with_its_defaults(name):
    assert found(f"mechanism.name={name}") == []


def test_a_run_refuses_before_anything_is_written_and_a_comparison_only_tells(tmp_path):
    recipe = Recipe.load(None, [*FEW, "mechanism.name=dp_sgd", "train.learning_rate=100"])
    with pytest.raises(RecipeError, match="no effect under dp_sgd"):
        sordino.run(recipe, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.warns(SordinoWarning, match="no effect under dp_sgd"):
        sordino.run(recipe, out=tmp_path / "run", idle_settings="warn")


def test_the_step_is_told():
    gradients = assemble(Recipe.load(None, [*FEW, "mechanism.name=dp_sgd"]))
    assert steps_in_words(gradients) == "step: server.learning_rate = 4, on the mean of clipped gradients"
    updates = assemble(Recipe.load(None, [*FEW, "train.learning_rate=0.25"]))
    assert steps_in_words(updates).startswith("steps: train.learning_rate = 0.25 at the clients, server.learning_rate")
