"""From a recipe to everything that a run is made of."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from sordino import data, models
from sordino.account.accountants.exact import separation_for
from sordino.account.accountants.target import PrivacyTarget
from sordino.advise.by_features import Settled, settled
from sordino.aggregate.secure_sum import SecureSum
from sordino.aggregate.sharded_sum import ShardedSum
from sordino.data.features import FeatureSettings, cache_folder
from sordino.data.federation import Federation
from sordino.data.settings import PartitionSettings
from sordino.errors import DataError, RecipeError
from sordino.layout import Layout
from sordino.mechanism import Mechanism, Selector
from sordino.mechanisms import MECHANISMS
from sordino.mechanisms.facts import PublicFacts, likely_participations
from sordino.mechanisms.preparation import OpeningShares, prepare
from sordino.random.streams import Streams
from sordino.recipe import Recipe
from sordino.runs.context import RunContext
from sordino.select.dropout import Dropout
from sordino.select.fixed import Everyone, FixedSize
from sordino.select.poisson import Poisson
from sordino.server.step import ServerStep, step_of_path, usual_path
from sordino.stages import Prices
from sordino.train.local import ExampleGradients
from sordino.train.settings import LocalTraining
from sordino.train.trainer import Trainer
from sordino.types import Trust

PLAIN_RECORDS: dict[str, Any] = {"features": "none", "feature_colours": "plain", "normalise": "none", "cache": None}


def assemble(
    recipe: Recipe,
    model: nn.Module | None = None,
    federation: Federation | None = None,
    mechanism: Mechanism | None = None,
) -> RunContext:
    """Returns the context of a run; a model, data or mechanism of the user's own take the recipe's place."""
    found = Settled(recipe) if model is not None or mechanism is not None else settle(recipe, federation)
    recipe = found.recipe
    federation = featured(recipe, declared(recipe, federation or load(recipe)))
    module = built(recipe, federation) if model is None else models.in_memory(model)
    federation = federation.mapped(partial(models.suited, module))
    shape, kind = federation.input_shape, federation.train_x.dtype
    models.check(module, shape, kind)
    models.check_outputs(module, shape, federation.classes, federation.train_y.shape[1:], kind)
    layout, training = Layout.of(module), _training(recipe)
    facts = _facts(recipe, federation, layout, training)
    mechanism = mechanism or _composed(recipe, facts, shape)
    _require_sum(recipe, mechanism)
    trainer = Trainer(
        module,
        models.loss(recipe.model.loss, module, federation.classes),
        training.stretched(mechanism.stretch),
        recipe.train.engine,
        recipe.train.chunk,
        mechanism.after_step,
        models.made_up(module, shape, kind, 1)[0],
        recipe.run.device,
    )
    return RunContext(
        recipe,
        federation,
        mechanism,
        module,
        trainer,
        layout,
        layout.flatten({name: p.detach() for name, p in module.named_parameters()}).clone(),
        Dropout(**recipe.dropout.model_dump()),
        _step(recipe, mechanism, facts, shape),
        facts.target,
        Streams(recipe.run.seed),
        found,
    )


def settle(recipe: Recipe, federation: Federation | None = None) -> Settled:
    """Returns the recipe with values for what follows from its features: the one place where it gets them.

    Without a federation the recipe's own is loaded for the shape of a record, and no features are made. Where records
    are elsewhere, the recipe declares their shape, or features were made, that is the shape of features.
    """
    if not recipe.follows_features:
        return Settled(recipe)
    if federation is None:
        federation = load(recipe.but(data=PLAIN_RECORDS))
    told = declared(recipe.but(public={"shape": None}), federation).declared
    shape = recipe.public.shape
    return settled(recipe, told, shape or federation.input_shape, featured=shape is not None or federation.featured)


def composed(recipe: Recipe, federation: Federation) -> Mechanism:
    """Returns the mechanism that a recipe names over a federation; nothing is made ready to train."""
    federation = declared(recipe, federation)
    layout = Layout.of(built(recipe, federation))
    return _composed(recipe, _facts(recipe, federation, layout, _training(recipe)), federation.input_shape)


def _composed(recipe: Recipe, facts: PublicFacts, record: tuple[int, ...]) -> Mechanism:
    """Returns the mechanism that the recipe names, with the sums that it asks for before the first round.

    Raises:
        RecipeError: the settings do not go together, or lead beyond what floating point holds.
    """
    spec, shares = MECHANISMS[recipe.mechanism.name], OpeningShares(**recipe.opening.model_dump())
    try:
        facts, before = prepare(shares, spec, recipe.mechanism, facts, record)
        return replace(spec.compose(recipe.mechanism, facts), preparation=before)
    except (OverflowError, ZeroDivisionError, FloatingPointError):
        raise RecipeError(
            f"the settings of mechanism {recipe.mechanism.name} lead beyond what floating point holds: take less "
            "extreme ones (noise, rates, budget.epsilon, run.rounds)"
        ) from None


def _require_sum(recipe: Recipe, mechanism: Mechanism) -> None:
    """Refuses a secure sum, or shards of one, where the mechanism makes none."""
    whose = f"{recipe.mechanism.name} ({mechanism.mode}, {mechanism.trust} trust)"
    if recipe.aggregate.kind == "secure" and not isinstance(mechanism.aggregator, SecureSum):
        raise RecipeError(
            f"aggregate.kind is 'secure', but {whose} has no noise shares to sum: use dp_sgd or dropout_robust, or "
            "leave aggregate.kind out"
        )
    if recipe.aggregate.shards > 1 and not isinstance(mechanism.aggregator, ShardedSum):
        raise RecipeError(
            f"aggregate.shards is {recipe.aggregate.shards}, but {whose} makes no secure sums that could be dealt out: "
            "set it to 1, or take mechanism.trust = 'distributed' with aggregate.kind = 'secure'"
        )


def built(recipe: Recipe, federation: Federation) -> nn.Module:
    """Returns the model that the recipe names, with the weights that it begins with."""
    chosen = recipe.model
    return models.build(
        chosen.name,
        federation.input_shape,
        federation.classes,
        seed=recipe.run.seed,
        hidden=chosen.hidden,
        activation=chosen.activation,
        bias=chosen.bias,
        precondition=chosen.precondition,
    )


def noise_beside(context: RunContext, spent: Prices) -> float:
    """Returns the noise multiplier that keeps the budget where so much was released before the run began."""
    recipe, federation = context.recipe, context.federation
    facts = replace(_facts(recipe, federation, context.layout, _training(recipe)), before=spent)
    return _composed(recipe, facts, federation.input_shape).adapter.start().noise_multiplier


def _step(recipe: Recipe, mechanism: Mechanism, facts: PublicFacts, record: tuple[int, ...]) -> ServerStep:
    """Returns the server's step: as long as is set, or as a path asks for, or the mechanism's own.

    Where numbers are predicted from gradients, the mechanism's own is divided by the number of features: a squared
    error curves as much as its features are long, and a step that suits classes runs away.
    """
    chosen, rounds = recipe.server, recipe.run.rounds
    usual = mechanism.server_learning_rate
    if not facts.classes and isinstance(mechanism.local, ExampleGradients):
        usual /= max(1, math.prod(record))
    rate = chosen.learning_rate or usual
    if chosen.path is not None:
        path = chosen.path if chosen.path != "auto" else _usual_path(mechanism, facts)
        rate = step_of_path(path, rounds, mechanism.adapter.start().clip_norm)
    first = math.floor(rounds * (1 - chosen.average)) + 1 if chosen.average else None
    return ServerStep(rate, chosen.momentum, chosen.weight_decay, first)


def _usual_path(mechanism: Mechanism, facts: PublicFacts) -> float:
    units = facts.records if mechanism.unit == "record" else float(facts.population)
    epsilon = facts.target.limit("server.path")
    return usual_path(separation_for(epsilon, facts.target.delta), units)


def load(recipe: Recipe) -> Federation:
    """Loads the recipe's data, deals it out, and declares what the recipe says is public."""
    chosen = recipe.data.model_dump(exclude={"target_unit"})
    if recipe.data.client is not None and recipe.partition.kind != "by_key":
        raise RecipeError(
            f"data.client names the owners' column, but partition.kind is {recipe.partition.kind!r} and deals records "
            "out otherwise: leave one of them out"
        )
    if chosen["classes"] is None and chosen["name"] in data.DATASETS and _takes_classes(chosen):
        chosen["classes"] = recipe.public.classes
    spread = PartitionSettings(**recipe.partition.model_dump())
    federation = data.federate(partition=spread, seed=recipe.run.seed, ranges=recipe.public.ranges, **chosen)
    return federation.declare(recipe.public.counts)


def _takes_classes(chosen: dict[str, Any]) -> bool:
    return "classes" in data.DATASETS[chosen["name"]].options and not chosen["class_names"]


def declared(recipe: Recipe, federation: Federation) -> Federation:
    """Returns the federation with what is declared public about it; tells what is missing or contradicted."""
    ranges = recipe.public.ranges
    if ranges and federation.declared.ranges != ranges:  # else they are scaled by them already
        federation = federation.scaled(ranges, outside=recipe.data.outside)
    federation = federation.declare(recipe.public.counts)
    shape = recipe.public.shape
    if shape is not None and len(federation.train_x) and tuple(shape) != federation.input_shape:
        raise DataError(
            f"public.shape is {list(shape)}, but a record has the shape {list(federation.input_shape)}: correct it, or "
            "leave it out."
        )
    if recipe.run.target is not None and not federation.test_public:
        raise RecipeError(
            "run.target ends the run by the accuracy on test records that are private, which nothing hides: leave it "
            "out, or set public.test = true if these records may be published"
        )
    return federation


def featured(recipe: Recipe, federation: Federation) -> Federation:
    """Returns the federation with the features that the recipe asks for, if they are not made yet."""
    wanted = FeatureSettings.told(recipe.data)
    if wanted.kind == "none" or federation.featured or not len(federation.train_x):
        return federation
    kept_in = None if recipe.data.cache == "none" else cache_folder(recipe.data.cache)
    return replace(federation.mapped(lambda x: wanted(x, kept_in)), columns=(), featured=True)


def _training(recipe: Recipe) -> LocalTraining:
    chosen = recipe.train.model_dump(exclude={"engine", "chunk"})
    if chosen["steps"] is None and chosen["epochs"] is None:
        chosen["epochs"] = 1
    return LocalTraining(**chosen)


def _selector(recipe: Recipe, population: int) -> Selector:
    chosen = recipe.select
    if chosen.kind == "poisson" and chosen.rate is not None:
        return Poisson(chosen.rate)
    if chosen.kind == "fixed" and chosen.size is not None:
        if chosen.size > population:
            raise RecipeError(
                f"select.size is {chosen.size}, but public.population is {population}: ask for at most that many"
            )
        return FixedSize(chosen.size, population, blind=_trust(recipe) != "local")
    return Everyone()


def _facts(recipe: Recipe, federation: Federation, layout: Layout, training: LocalTraining) -> PublicFacts:
    told = federation.declared
    population = told.people
    selector = _selector(recipe, population)
    expected = selector.expected(population)
    tolerance = recipe.aggregate.tolerance
    return PublicFacts(
        population=population,
        records=told.total,
        least_records=told.fewest,
        most_in_all=told.most_in_all,
        private_sizes=federation.sizes(),
        sizes_public=bool(told.sizes),
        layout=layout,
        rounds=recipe.run.rounds,
        target=PrivacyTarget(recipe.budget.epsilon, recipe.budget.delta, recipe.budget.accountant),
        selector=selector,
        tolerance=_margin(recipe, expected) if tolerance is None else tolerance,
        participations=recipe.budget.participations or likely_participations(recipe.run.rounds, expected, population),
        secure=recipe.aggregate.kind != "plain",
        secure_by_name=recipe.aggregate.kind == "secure",
        fidelity=recipe.aggregate.fidelity,
        corrupt=recipe.aggregate.corrupt,
        shards=recipe.aggregate.shards,
        combine=recipe.aggregate.combine,
        trim=recipe.aggregate.trim,
        rounding=recipe.aggregate.rounding,
        late=recipe.dropout.late,
        vanishing=max((recipe.dropout.rate, *recipe.dropout.schedule)) > 0 or not len(federation.train_x),
        classes=federation.classes,
        public=federation.public_x is not None and len(federation.public_x) > 0,
        train=training,
        server_momentum=recipe.server.momentum,
        server_weight_decay=recipe.server.weight_decay,
    )


def _margin(recipe: Recipe, expected: float) -> float:
    """Returns the share of a cohort that may vanish: the rate that is foreseen and four standard deviations."""
    rate = max((recipe.dropout.rate, *recipe.dropout.schedule))
    spread = 4 * math.sqrt(rate * (1 - rate) / max(1.0, expected))
    # a secure sum needs a majority that answers, or a server could tell two halves two stories
    most = 0.49 - recipe.aggregate.corrupt / 2 if _shares_noise(recipe) else 0.99
    return min(most, rate + spread) if rate else 0.0


def _shares_noise(recipe: Recipe) -> bool:
    """Returns whether messages go through a secure sum, as far as the recipe tells: under distributed trust they do."""
    shared = _trust(recipe) == "distributed" and recipe.mechanism.mode == "certified"
    return recipe.aggregate.kind == "secure" or (recipe.aggregate.kind == "auto" and shared)


def _trust(recipe: Recipe) -> Trust:
    return MECHANISMS[recipe.mechanism.name].trust_of(recipe.mechanism)
