"""From a recipe to the stage on which rounds are played."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from sordino import data, models
from sordino.aggregate.secure_sum import SecureSum
from sordino.data.federation import Federation
from sordino.data.settings import PartitionSettings
from sordino.errors import RecipeError
from sordino.layout import Layout
from sordino.mechanism import Mechanism, Selector
from sordino.mechanisms import MECHANISMS
from sordino.mechanisms.facts import Budget, Setting, likely_participations
from sordino.recipe import Recipe
from sordino.select.dropout import Dropout
from sordino.select.fixed import Everyone, FixedSize
from sordino.select.poisson import Poisson
from sordino.server.step import ServerStep
from sordino.train.settings import LocalTraining
from sordino.train.trainer import Trainer


@dataclass(frozen=True)
class Cast:
    """Everything that a run needs besides its books."""

    federation: Federation
    mechanism: Mechanism
    trainer: Trainer
    layout: Layout
    weights: Tensor
    dropout: Dropout
    server: ServerStep
    budget: Budget

    def evaluate(self, weights: Tensor) -> tuple[float | None, float | None]:
        """Returns loss and accuracy on the test set (None without one)."""
        if not len(self.federation.test_x):
            return None, None
        return self.trainer.evaluate(weights, self.federation.test_x, self.federation.test_y)

    def public_scores(self, weights: Tensor) -> dict[str, float]:
        """Returns scores on the records that were declared public, if any."""
        if self.federation.public_x is None or self.federation.public_y is None:
            return {}
        loss, accuracy = self.trainer.evaluate(weights, self.federation.public_x, self.federation.public_y)
        return {"loss": loss} | ({} if accuracy is None else {"accuracy": accuracy})


def assemble(recipe: Recipe, model: nn.Module | None = None, federation: Federation | None = None) -> Cast:
    """Returns the cast of a run; a model or a federation of the user's own takes the recipe's place."""
    federation = federation or load(recipe)
    module = model or models.build(
        recipe.model.name,
        federation.input_shape,
        federation.classes,
        seed=recipe.run.seed,
        hidden=recipe.model.hidden,
        activation=recipe.model.activation,
    )
    models.check(module, federation.input_shape)
    layout = Layout.of(module)
    training = _training(recipe)
    setting = _setting(recipe, federation, layout, training)
    entry = MECHANISMS[recipe.mechanism.name]
    mechanism = entry.compose(recipe.mechanism, setting)
    if setting.secure and not isinstance(mechanism.aggregator, SecureSum):
        raise RecipeError(
            f"aggregate.kind is 'secure', but {recipe.mechanism.name} ({mechanism.mode}, {mechanism.trust} trust) has "
            "no noise shares to sum: use dp_sgd or dropout_robust, or leave aggregate.kind out"
        )
    loss = models.loss(recipe.model.loss, module, federation.classes)
    trainer = Trainer(module, loss, training, recipe.train.engine, recipe.train.chunk, mechanism.after_step)
    return Cast(
        federation,
        mechanism,
        trainer,
        layout,
        layout.flatten({name: p.detach() for name, p in module.named_parameters()}).clone(),
        Dropout(**recipe.dropout.model_dump()),
        ServerStep(recipe.server.learning_rate or mechanism.server_learning_rate, recipe.server.momentum),
        setting.budget,
    )


def load(recipe: Recipe) -> Federation:
    """Loads the recipe's data and deals it out."""
    chosen = recipe.data.model_dump()
    spread = PartitionSettings(**recipe.partition.model_dump())
    return data.federate(partition=spread, seed=recipe.run.seed, **chosen)


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
                f"select.size is {chosen.size}, but the federation has {population} clients: ask for at most that many"
            )
        return FixedSize(chosen.size)
    return Everyone()


def _setting(recipe: Recipe, federation: Federation, layout: Layout, training: LocalTraining) -> Setting:
    population = federation.population
    selector = _selector(recipe, population)
    expected = selector.expected(population)
    tolerance = recipe.aggregate.tolerance
    return Setting(
        population=population,
        sizes=federation.sizes(),
        layout=layout,
        rounds=recipe.run.rounds,
        budget=Budget(recipe.budget.epsilon, recipe.budget.delta, recipe.budget.accountant),
        selector=selector,
        tolerance=_margin(recipe, expected) if tolerance is None else tolerance,
        participations=recipe.budget.participations or likely_participations(recipe.run.rounds, expected, population),
        secure=recipe.aggregate.kind == "secure",
        fidelity=recipe.aggregate.fidelity,
        corrupt=recipe.aggregate.corrupt,
        rounding=recipe.aggregate.rounding,
        classes=federation.classes,
        public=federation.public_x is not None and len(federation.public_x) > 0,
        train=training,
    )


def _margin(recipe: Recipe, expected: float) -> float:
    """Returns the share of a cohort that may vanish: the rate that is foreseen and four standard deviations."""
    rate = max((recipe.dropout.rate, *recipe.dropout.schedule))
    spread = 4 * math.sqrt(rate * (1 - rate) / max(1.0, expected))
    # a secure sum needs a majority that answers, or a server could tell two halves two stories
    most = 0.49 - recipe.aggregate.corrupt / 2 if recipe.aggregate.kind == "secure" else 0.99
    return min(most, rate + spread) if rate else 0.0
