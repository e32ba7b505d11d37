"""What a task takes that was never done: processor seconds, by its network and by how many records pass through it.

Once a seed of it was played, what that took counts instead (`papers/planning.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from papers.noise import rounds_until_overflow
from sordino.recipe import Recipe
from sordino.sections.rounds import SelectSection


class Rate(NamedTuple):
    """Processor seconds on one core."""

    trained: float
    """For a record that is trained on once."""
    tested: float
    """For a record that is tested on."""
    begin: float
    """To set a run up, and to end it."""


RATES = {
    name: Rate(*numbers)
    for name, numbers in {
        # by the command (testing cnn_tfp, which it could not tell from noise, by two rounds of baek-fig4)
        "cnn_tfp": (4.9e-5, 1.7e-5, 2.0),
        "cnn_a_dpfl": (2.7e-4, 7.7e-5, 2.8),
        "cnn_xue": (9.3e-5, 2.1e-5, 1.8),
        "cnn_yuan": (4.8e-5, 2.6e-5, 1.8),
        "svm": (8.6e-7, 6e-7, 0.23),
        # by two to four rounds of baek-fig4, adpfl-fig4, cad-fig5 and xue-fig4c
        "cnn_tfp/mnist-writers": (7.1e-5, 1.7e-5, 2.0),
        "a_dpfl/cnn_a_dpfl": (4.8e-4, 6.0e-5, 2.9),
        "a_dpfl/cnn_a_dpfl/cifar10": (1.4e-3, 9.9e-5, 8.0),
        "cnn_fed_cad": (7.7e-5, 3.0e-5, 2.1),
        "cnn_xue_cifar": (9.9e-4, 2.9e-4, 17),
        # as far as they are not those of like networks above: of an older processor
        "cnn_yuan_inside": (4.8e-5, 2.6e-5, 1.8),
        "cnn_yuan/cifar10": (6.7e-5, 2.6e-5, 8.0),
        "cnn_yuan_small": (2.3e-5, 8e-6, 1.8),
        "cnn_a_dpfl/cifar10": (9.8e-4, 9.9e-5, 8.0),
        "cnn_tfp_dropout": (2e-4, 6.6e-5, 2.0),
        "mlp_yuan": (3.3e-6, 1.1e-6, 1.8),
        "mlp": (2e-5, 6.6e-6, 1.8),
        "linear": (1e-6, 3.3e-7, 0.3),
    }.items()
}
"""By network, with its data where it has other sizes there, and with a mechanism that adds noise to local steps.

`python -m papers.rates` measures them. These were on a machine that had other work: a core of its own takes a sixth
less.
"""
_USUAL = Rate(1e-4, 3e-5, 2.0)
RECORDS = {"mnist": 60_000, "fashion-mnist": 60_000, "cifar10": 50_000, "adult": 32_561, "digits": 1_437}
TESTED = {"adult": 16_281, "digits": 360}
_MOST_TESTED = 10_000
_THREE_HOURS_OF_TWO = 6 * 3600
"""Processor seconds."""


def kind(recipe: Recipe) -> str:
    """Returns under which name a recipe's rate is kept: the longest that is there."""
    network = recipe.model.name, recipe.data.name
    names = ("/".join([recipe.mechanism.name, *network]), f"{recipe.mechanism.name}/{network[0]}", "/".join(network))
    return next((name for name in names if name in RATES), network[0])


def seconds(what: str, recipe: Recipe) -> float:
    """Returns the expected processor seconds of a task."""
    name, *arguments = what.split("/")
    numbers = [int(one) for one in arguments]
    if name == "distances":  # of everybody
        return _played(recipe.model_copy(update={"select": SelectSection()}), numbers[0])
    if name == "membership":
        return sum(numbers) * _played(recipe, recipe.run.rounds) / 2
    return (4 if name == "moved" else 1) * _played(recipe, _rounds(recipe))


def passed(recipe: Recipe) -> float:
    """Returns how many records a round trains on, each as often as it is taken."""
    clients = recipe.partition.clients or 100
    mine = recipe.partition.size or RECORDS.get(recipe.data.name, 60_000) / clients
    steps, batch = recipe.train.steps, recipe.train.batch_size
    each = steps * (batch or mine) if steps else (recipe.train.epochs or 1) * mine
    return (recipe.select.size or clients * (recipe.select.rate or 1.0)) * each


def tested(recipe: Recipe) -> int:
    """Returns how many records a model is tested on."""
    return TESTED.get(recipe.data.name, _MOST_TESTED)


def _rounds(recipe: Recipe) -> int:
    """Returns how many rounds a run has: noise that multiplies weights ends it early."""
    options = recipe.mechanism
    printed = options.name == "component_adaptive" and options.mode == "faithful" and options.noise_multiplier
    return rounds_until_overflow(recipe) if printed else recipe.run.rounds


def _played(recipe: Recipe, rounds: int) -> float:
    rate = RATES.get(kind(recipe), _USUAL)
    looks = -(-rounds // recipe.run.evaluate_every)
    return rate.begin + rounds * rate.trained * passed(recipe) + looks * rate.tested * tested(recipe)


def beyond(cpu: float) -> bool:
    """Returns whether two cores cannot do so much in three hours."""
    return cpu > _THREE_HOURS_OF_TWO


def told(cpu: float) -> str:
    """Returns processor time in words."""
    if cpu < 90:
        return f"{max(cpu, 1):.0f} s"
    return f"{cpu / 60:.0f} minutes" if cpu < 5400 else f"{cpu / 3600:.1f} hours"
