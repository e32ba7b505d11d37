"""Noise that is set too high to be drawn in integers of the usual grid gets a coarser one, at a price that holds."""

import math

import pytest
import torch

import sordino
from sordino.account.accountants.accountant import epsilon
from sordino.account.accountants.lattice import LARGEST_VARIANCE
from sordino.recipe import Recipe
from sordino.runs.folder import RunFolder
from sordino.runs.setup import assemble

SETTINGS = ("partition.clients=20", "run.rounds=2", "budget.epsilon=none", "aggregate.kind=secure")


def composed(name, noise):
    return assemble(Recipe.load(None, [f"mechanism.name={name}", f"mechanism.noise_multiplier={noise}", *SETTINGS]))


@pytest.mark.parametrize("name", ["dp_sgd", "dropout_robust"])
@pytest.mark.parametrize("noise", [5.0, 3e3, 1e7])
def test_the_grid_is_as_coarse_as_the_noise_needs_and_the_price_is_that_of_the_rounded_vectors(name, noise):
    context = composed(name, noise)
    rounding = context.mechanism.perturber.rounding
    knobs = context.mechanism.adapter.start()
    variance = (noise * rounding.clip_norm * rounding.scale) ** 2
    assert variance <= LARGEST_VARIANCE
    (_, event), *_ = context.mechanism.perturber.price(knobs)
    width = len(context.weights)
    # an independent bound on what one unit moves: its length in steps, and a step for every entry
    moved = rounding.clip_norm * rounding.scale + math.sqrt(width)
    assert event.l2_sensitivity <= moved * (1 + 1e-9)
    assert event.l2_sensitivity >= rounding.clip_norm * rounding.scale
    # never better than what a Gaussian of the set multiplier costs, and in the limit what √d steps cost
    paid = epsilon(event, 1e-5)
    assert paid >= epsilon(sordino.events.GaussianDpEvent(noise), 1e-5) * (1 - 1e-6)
    assert paid <= epsilon(sordino.events.GaussianDpEvent(math.sqrt(variance) / moved), 1e-5) * (1 + 1e-3)


def test_such_a_run_ends_and_its_noise_is_as_wide_as_it_says(tmp_path):
    recipe = Recipe.load(None, ["mechanism.name=dp_sgd", "mechanism.noise_multiplier=30000", *SETTINGS])
    outcome = sordino.run(recipe, out=tmp_path / "a")
    entry = outcome.certificate.entry("record", "server")
    assert entry.status == "certified" and 0 < entry.epsilon < 0.1
    context = assemble(recipe)
    moved = torch.cat([p.detach().flatten() for p in outcome.model.parameters()]) - context.weights
    told = [line["noise_stddev"] for line in RunFolder(outcome.folder).metrics()]
    stated = math.sqrt(sum(stddev**2 for stddev in told)) * context.step.learning_rate
    assert len(told) == 2 and 2 / 3 < float(moved.std()) / stated < 3 / 2
