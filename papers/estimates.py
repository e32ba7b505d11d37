"""What a task takes that was never done: processor seconds, by its network and by how many records pass through it.

Once a seed of it was played, what that took counts instead (`papers/planning.py`).
"""

from __future__ import annotations

from papers.noise import rounds_until_overflow
from sordino.recipe import Recipe
from sordino.sections.rounds import SelectSection

SECONDS = {
    "cnn_tfp": 3.9 / 60_000,
    "cnn_tfp_dropout": 2e-4,
    "cnn_xue": 5.6 / 60_000,
    "cnn_xue_cifar": 1.4e-3,
    "cnn_a_dpfl": 5.9 / 6_000,
    "cnn_fed_cad": 0.5 / 6_000,
    "cnn_yuan": 2.0 / 30_000,
    "cnn_yuan_inside": 2.0 / 30_000,
    "cnn_yuan_small": 0.7 / 30_000,
    "mlp_yuan": 0.1 / 30_000,
    "mlp": 2e-5,
    "svm": 0.03 / 16_000,
    "linear": 1e-6,
}
"""Processor seconds on one core for a record that is trained on."""
RECORDS = {"mnist": 60_000, "fashion-mnist": 60_000, "cifar10": 50_000, "adult": 32_561, "digits": 1_437}
_TESTED, _FORWARD = 10_000, 1 / 3
_BEGIN, _ROUND = 0.5, 0.01
"""Seconds to set a run up, and of each round whatever is trained."""


def seconds(what: str, recipe: Recipe) -> float:
    """Returns the expected processor seconds of a task."""
    name, *arguments = what.split("/")
    numbers = [int(one) for one in arguments]
    if name == "distances":  # of everybody
        return _played(recipe.model_copy(update={"select": SelectSection()}), numbers[0])
    if name == "membership":
        return sum(numbers) * _played(recipe, recipe.run.rounds) / 2
    return (4 if name == "moved" else 1) * _played(recipe, _rounds(recipe))


def _rounds(recipe: Recipe) -> int:
    """Returns how many rounds a run has: noise that multiplies weights ends it early."""
    options = recipe.mechanism
    printed = options.name == "component_adaptive" and options.mode == "faithful" and options.noise_multiplier
    return rounds_until_overflow(recipe) if printed else recipe.run.rounds


def _played(recipe: Recipe, rounds: int) -> float:
    records = RECORDS.get(recipe.data.name, 60_000)
    clients = recipe.partition.clients or 100
    mine = recipe.partition.size or records / clients
    steps, batch = recipe.train.steps, recipe.train.batch_size
    passed = steps * (batch or mine) if steps else (recipe.train.epochs or 1) * mine
    taking_part = recipe.select.size or clients * (recipe.select.rate or 1.0)
    tested = _TESTED * _FORWARD / recipe.run.evaluate_every
    each = SECONDS.get(recipe.model.name, 1e-4) * (taking_part * passed + tested) + _ROUND
    return _BEGIN + rounds * each


def told(cpu: float) -> str:
    """Returns processor time in words."""
    if cpu < 90:
        return f"{max(cpu, 1):.0f} s"
    return f"{cpu / 60:.0f} minutes" if cpu < 5400 else f"{cpu / 3600:.1f} hours"
