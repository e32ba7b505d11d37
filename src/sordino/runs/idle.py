"""Settings that have no effect beside the others: each is named with the one that has."""

from __future__ import annotations

from collections.abc import Iterator

from sordino.aggregate.secure_sum import SecureSum
from sordino.mechanism import Mechanism
from sordino.mechanisms import MECHANISMS
from sordino.mechanisms.spec import Options
from sordino.recipe import Recipe
from sordino.runs.context import RunContext
from sordino.sections.section import Section
from sordino.train.local import ExampleGradients
from sordino.train.noisy import PrivateSteps

_OPTIMIZERS = {"momentum": ("momentum",), "betas": ("adam",), "decay": ("rmsprop",), "damping": ("adam", "rmsprop")}
_PARTITIONS = {
    "alpha": ("dirichlet", "quantity_skew"),
    "classes_per_client": ("pathological",),
    "share": ("label_skew",),
    "share_min": ("label_skew",),
}


def idle(context: RunContext, own_model: bool, own_data: bool) -> list[str]:
    """Returns a sentence for every setting that was changed from its default and is used by nothing.

    **Edge cases**: a setting that is written down with its default's value is not told from one that was left out.
    """
    recipe = context.recipe
    told = [
        *_options(recipe.mechanism, context.mechanism),
        *_local(context),
        *_opening(recipe),
        *_dropout(recipe),
        *_secure(recipe, context.mechanism),
    ]
    told += [] if own_model else _model(recipe)
    told += [] if own_data else _partition(recipe)
    told += _data(recipe, context.federation.classes)
    if recipe.ledger.plan == "whole" and recipe.ledger.path is None:
        told.append("ledger.plan has no effect on a run's own ledger, which nothing was spent on: set ledger.path, too")
    if recipe.budget.epsilon is None and recipe.budget.clients:
        told.append("budget.clients has no effect where budget.epsilon is 'none': set budget.epsilon, too")
    return told


def steps_in_words(context: RunContext) -> str:
    """Returns how long a step is, and which settings say so."""
    server = f"server.learning_rate = {context.step.learning_rate:g}"
    if isinstance(context.mechanism.local, ExampleGradients):
        return f"step: {server}, on the mean of clipped gradients"
    return f"steps: train.learning_rate = {context.recipe.train.learning_rate:g} at the clients, {server} on their mean"


def _options(options: Options, mechanism: Mechanism) -> Iterator[str]:
    changed, spec = _changed(options), MECHANISMS.get(options.name)
    if options.mode == "faithful" and mechanism.claim is None and spec is not None and not spec.paper:
        yield f"mechanism.mode has no effect under {options.name}, of which there is no printed form: leave it out"
    yield from (f"mechanism.{name} has no effect {why}" for name, why in options.idle().items() if name in changed)


def _changed(section: Section | Options) -> list[str]:
    return [name for name, about in type(section).model_fields.items() if getattr(section, name) != about.default]


def _local(context: RunContext) -> Iterator[str]:
    train, name = context.recipe.train, context.mechanism.name
    changed = [field for field in _changed(train) if field not in ("engine", "chunk")]
    if isinstance(context.mechanism.local, ExampleGradients):
        if changed:
            fields = " and ".join(f"train.{field}" for field in changed)
            yield (
                f"{fields} {'have' if len(changed) > 1 else 'has'} no effect under {name}, whose clients send clipped "
                f"gradients: the step is the server's, server.learning_rate (now {context.step.learning_rate:g}), and "
                "batches are drawn by mechanism.sampling_rate"
            )
        return
    for field, optimizers in _OPTIMIZERS.items():
        if field in changed and train.optimizer not in optimizers:
            yield _elsewhere(f"train.{field}", "train.optimizer", train.optimizer, optimizers)
    if train.optimizer == "momentum" and _single_step(context):
        yield "train.optimizer = 'momentum' has no effect on a single step: set train.steps or train.batch_size, too"


def _single_step(context: RunContext) -> bool:
    """Whether every client takes one local step in a round, whatever it holds."""
    local, train = context.mechanism.local, context.trainer.settings  # as the mechanism stretched them
    if isinstance(local, PrivateSteps):
        return local.steps == 1
    return train.steps == 1 or (train.steps is None and train.batch_size is None and (train.epochs or 1) == 1)


def _partition(recipe: Recipe) -> Iterator[str]:
    for field in _changed(recipe.partition):
        kinds = _PARTITIONS.get(field, ())
        if kinds and recipe.partition.kind not in kinds:
            yield _elsewhere(f"partition.{field}", "partition.kind", recipe.partition.kind, kinds)


def _model(recipe: Recipe) -> Iterator[str]:
    for field in ("hidden", "activation"):
        if field in _changed(recipe.model) and recipe.model.name != "mlp":
            yield _elsewhere(f"model.{field}", "model.name", recipe.model.name, ("mlp",))


def _data(recipe: Recipe, classes: int) -> Iterator[str]:
    data, changed = recipe.data, _changed(recipe.data)
    makers: dict[str, tuple[str, ...]] = dict.fromkeys(("feature_scales", "feature_angles"), ("scattering",))
    makers |= dict.fromkeys(("feature_count", "feature_seed"), ("patches", "random"))
    for field in (name for name in changed if name.startswith("feature_")):
        wanted = makers.get(field, ("scattering", "patches", "random"))
        if data.features not in wanted:
            yield _elsewhere(f"data.{field}", "data.features", data.features, wanted)
    if data.outside != "refuse" and not recipe.public.ranges:
        yield "data.outside has no effect without declared ranges: set public.ranges"
    if data.target_unit and classes:
        yield (
            "data.target_unit has no effect where classes are predicted: set data.classes = 0 to predict a number "
            "(across machines: public.classes = 0)"
        )
    if data.cache and data.features == "none":
        yield "data.cache has no effect where there are no features to keep: set data.features, too"


def _secure(recipe: Recipe, mechanism: Mechanism) -> Iterator[str]:
    chosen, changed = recipe.aggregate, _changed(recipe.aggregate)
    if chosen.shards == 1:
        for field in ("combine", "trim"):
            if field in changed:
                yield f"aggregate.{field} has no effect on a single sum: set aggregate.shards, too"
    if not isinstance(mechanism.aggregator, SecureSum):
        for field in ("fidelity", "corrupt", "rounding"):
            if field in changed:
                yield (
                    f"aggregate.{field} has no effect where nothing is summed securely: take a mechanism with "
                    "distributed trust, and aggregate.kind = 'secure' or 'auto'"
                )


def _opening(recipe: Recipe) -> Iterator[str]:
    if "ridge" in _changed(recipe.opening) and not recipe.opening.channel_moment:
        yield "opening.ridge has no effect without opening.channel_moment: set that, too"


def _dropout(recipe: Recipe) -> Iterator[str]:
    chosen, changed = recipe.dropout, _changed(recipe.dropout)
    if "late_round" in changed and not chosen.late:
        yield "dropout.late_round has no effect where nobody joins late: set dropout.late, too"
    if chosen.late and chosen.late_round == 1:
        yield "dropout.late has no effect where they join in the first round: set dropout.late_round, too"
    if "stages" in changed and not chosen.rate and not any(chosen.schedule):
        yield "dropout.stages has no effect where nobody vanishes: set dropout.rate, too"


def _elsewhere(field: str, by: str, now: str, wanted: tuple[str, ...]) -> str:
    return f"{field} has no effect where {by} is '{now}': set {by} = {' or '.join(map(repr, wanted))}"
