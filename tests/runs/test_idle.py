"""Settings without effect are refused, with the one that has; settings that have one are not."""

import dataclasses

import pytest
import torch

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
        (("data.feature_count=9",), "data.feature_count", "data.features = 'patches' or 'random'"),
        (
            ("data.features=random", "data.feature_count=9", "data.feature_angles=3"),
            "data.feature_angles",
            "scattering",
        ),
        (("data.outside=clip",), "data.outside", "public.ranges"),
        (("aggregate.trim=2",), "aggregate.trim", "aggregate.shards"),
        (("mechanism.name=fed_ldp", "aggregate.rounding=0.5"), "aggregate.rounding", "distributed trust"),
        (("mechanism.form=plain",), "mechanism.form", "mechanism.mode = 'faithful'"),
        (("mechanism.mode=faithful", "mechanism.correction=keep"), "mechanism.correction", "mode = 'certified'"),
        (("mechanism.name=dp_sgd", "mechanism.quantile_rate=0.3"), "mechanism.quantile_rate", "mechanism.quantile"),
        (("mechanism.name=dp_sgd", "mechanism.mode=faithful"), "mechanism.mode", "leave it out"),
        (("mechanism.name=geometric", "mechanism.shrink=0.5"), "mechanism.shrink", "mechanism.refine"),
        (("mechanism.name=fedavg", "mechanism.clip_norm=2"), "mechanism.clip_norm", "dp_fedavg"),
        (("mechanism.name=auto", "mechanism.rounds_apart=3"), "mechanism.rounds_apart", "mechanism.trust = 'central'"),
        (("mechanism.name=fed_cad", "mechanism.headroom=2"), "mechanism.headroom", "mechanism.obsolete"),
        (("mechanism.name=component_adaptive", "mechanism.beta=2"), "mechanism.beta", "mechanism.mode = 'faithful'"),
        (
            ("mechanism.name=a_dpfl", "mechanism.schedule=constant", "mechanism.factor=0.5"),
            "mechanism.factor",
            "mechanism.schedule = 'plateau' or 'geometric'",
        ),
        (
            ("mechanism.name=a_dpfl", "mechanism.selection=uniform", "mechanism.metric=ordinal"),
            "mechanism.metric",
            "mechanism.selection = 'best'",
        ),
        (("opening.ridge=0.5",), "opening.ridge", "opening.channel_moment"),
        (("train.optimizer=momentum",), "train.optimizer = 'momentum'", "train.steps"),
        (("data.target_unit=kg",), "data.target_unit", "data.classes = 0"),
        (("data.cache=none",), "data.cache", "data.features"),
        (("dropout.late=0.3",), "dropout.late", "dropout.late_round"),
        (("dropout.late_round=3",), "dropout.late_round", "dropout.late"),
        (('dropout.stages=["train"]',), "dropout.stages", "dropout.rate"),
        (("mechanism.name=fedavg", "budget.epsilon=none", "budget.clients={0 = 0.5}"), "budget.clients", "budget.eps"),
        (("ledger.plan=whole",), "ledger.plan", "ledger.path"),
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
        ("train.optimizer=momentum", "train.steps=2"),
        ("train.optimizer=momentum", "train.batch_size=5"),
        ("train.optimizer=momentum", "mechanism.name=local_dp_sgd", "mechanism.sampling_rate=0.2"),
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


OTHER = {
    "adjacency": ("replace",),
    "bands": (1,),
    "unit": ("record",),
    "trust": ("central", "distributed"),
    "allocation": ("equal", "least_energy"),
    "form": ("plain",),
    "metric": ("ordinal",),
    "selection": ("uniform",),
    "validation": ("public",),
    "schedule": ("constant",),
    "shape": ("box",),
    "correction": ("keep",),
    "root_dimension": (False,),
    "record_limit": (3,),
    "convergence": (),
    "refine": (),
}
"""Another value than the default, where a number would not do; none where more than the option is needed for it."""
MODES = {
    name: ("certified", "faithful") if entry.flaw else ("certified",)
    for name, entry in MECHANISMS.items()
    if name != "fedavg"
}


@pytest.mark.parametrize(
    ("name", "mode", "field"),
    [
        (name, mode, field)
        for name, modes in MODES.items()
        for mode in modes
        for field in MECHANISMS[name].options.model_fields
        if field not in ("name", "mode")
    ],
)
def test_every_option_changes_what_is_composed_or_is_told(name, mode, field):
    told = (*FEW, "run.rounds=12", f"mechanism.name={name}", f"mechanism.mode={mode}")
    usual = inside(assemble(Recipe.load(None, told)).mechanism)
    default = MECHANISMS[name].options.model_fields[field].default
    values = OTHER.get(field, (default + 1 if isinstance(default, int) else 0.4,))
    assert any(effective([*told, f"mechanism.{field}={str(value).lower()}"], usual) for value in values) or not values


def effective(settings, usual):
    """Whether settings are refused, or change what is composed."""
    try:
        changed = assemble(Recipe.load(None, settings))
    except RecipeError:
        return True  # by the composition, with its reason
    return bool(idle(changed, own_model=False, own_data=False)) or inside(changed.mechanism) != usual


def inside(part):
    """Returns all numbers and words of a composition."""
    if dataclasses.is_dataclass(part):
        return type(part).__name__, [inside(getattr(part, field.name)) for field in dataclasses.fields(part)]
    if isinstance(part, (tuple, list)):
        return [inside(each) for each in part]
    if isinstance(part, torch.Tensor):
        return part.tolist()
    return type(part).__name__ if callable(part) else repr(part)
