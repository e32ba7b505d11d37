"""The rivals of Xue et al.'s Fig. 4(d): each rule against its own definition, and what is certified of each."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from papers.experiment_runner import recipe_of
from papers.rivals import admit
from papers.rivals.adap_dp_fl import THRESHOLDS, ThriceFallen
from papers.rivals.cl_fl import MedianGaussian, MedianSum
from papers.rivals.dp_dyns import LongestOfBatch
from papers.rivals.fed_alpha_cdp import Linear, LongestOfLayer
from papers.rivals.private_dl import ThreeDeviations

import sordino
from sordino.random.streams import Streams
from sordino.stages import Released, Shielded
from sordino.terms import Knobs, Terms, Turn, Vanished, scalar

GRADIENTS = torch.tensor([[3.0, 4.0, 0.0], [0.3, 0.0, 0.4], [0.0, 0.0, 0.0]])
NOISE = torch.tensor([1.0, -1.0, 2.0])
SMALL = [
    "data.name=digits", "partition.clients=4", "train.steps=2", "train.batch_size=60", "run.rounds=2",
    "mechanism.mode=faithful", "budget.epsilon=2", "public.records=1437",
]  # fmt: skip


def test_dp_dyns_scales_noise_by_the_longest_clipped_gradient() -> None:
    knobs = Knobs(2.0, 10.0)
    expected = GRADIENTS[0] * 2 / 5 + GRADIENTS[1] + NOISE * 10 * 2
    assert torch.allclose(LongestOfBatch().noisy(GRADIENTS, knobs, NOISE), expected)
    short = LongestOfBatch().noisy(GRADIENTS[1:], knobs, NOISE)  # shorter than C: less noise, which is the flaw
    assert torch.allclose(short, GRADIENTS[1] + NOISE * 10 * 0.5)
    assert torch.equal(LongestOfBatch().noisy(GRADIENTS[:0], knobs, NOISE), torch.zeros(3))


def test_private_dl_clips_nothing_and_takes_three_deviations() -> None:
    norms = np.array([5.0, 0.5, 0.0])
    expected = GRADIENTS.sum(0) + NOISE * 10 * float(norms.mean() + 3 * norms.std())
    assert torch.allclose(ThreeDeviations().noisy(GRADIENTS, Knobs(2.0, 10.0), NOISE), expected)


def test_fed_alpha_cdp_does_so_layer_by_layer_with_falling_noise() -> None:
    found = LongestOfLayer((2, 1)).noisy(GRADIENTS, Knobs(2.0, 10.0), NOISE)
    first = GRADIENTS[0, :2] * 2 / 5 + GRADIENTS[1, :2] + NOISE[:2] * 10 * 2
    assert torch.allclose(found, torch.cat([first, GRADIENTS[:, 2].sum()[None] + NOISE[2:] * 10 * 0.4]))
    levels = [Linear(1.0, 8.0, 0.5, 5).planned(m).noise_multiplier for m in range(1, 7)]
    assert levels == [8, 7, 6, 5, 4, 4]


def test_adap_dp_fl_takes_thresholds_from_what_was_told_and_lowers_noise_after_three_falls() -> None:
    adapter = ThriceFallen(1.0, 4.0, 3, alpha=2.0, beta=0.5)
    knobs, levels = adapter.start(), []
    told = Released(torch.zeros(2), 0.0, (), {THRESHOLDS: torch.tensor([0.7, 0.0, math.inf])})
    for loss in (1.0, 0.9, 0.8, 0.7, 0.9):
        turn = Turn(Terms(1, torch.zeros(2), knobs), Streams(0))
        knobs = adapter.adapt(turn, told, {"loss": loss})
        levels.append(knobs.noise_multiplier)
    assert knobs[THRESHOLDS].tolist() == pytest.approx([1.4, 1.0, 1.0])  # silent and endless ones keep theirs
    assert levels == [4, 4, 2, 2, 2]
    assert adapter.start()["falls"] == scalar(0)


def test_cl_fl_clips_to_the_median_norm_and_scales_noise_by_it() -> None:
    turn = Turn(Terms(1, torch.zeros(4000), Knobs(1.0, 3.0), np.arange(3)), Streams(0))
    rows = torch.zeros(3, 4000)
    rows[:, 0] = torch.tensor([8.0, -2.0, 1.0])
    sum_, weights = MedianSum(None), torch.ones(3)
    partial = sum_.start(turn.terms, None)
    for place in range(3):
        one = slice(place, place + 1)
        partial = sum_.add(partial, Shielded(np.arange(3)[one], rows[one], weights[one], torch.zeros(1)))
    summed = sum_.finish(partial, Vanished())
    assert float(summed.total[0]) == pytest.approx(2 - 2 + 1, abs=1e-4) and summed.norm == pytest.approx(2)
    released = MedianGaussian().release(summed, turn)
    assert released.stddev == pytest.approx(3 * 2 / 3)
    found = float(released.mean[1:].std())
    assert 2 * 0.9 < found < 2 * 1.1  # and neither 2/3 nor 3/2 of it


@pytest.mark.parametrize("name", ["adap_dp_fl", "private_dl", "dp_dyns", "fed_alpha_cdp", "cl_fl"])
def test_a_rival_runs_repeats_and_is_certified_for_what_it_proves(name: str, tmp_path: Path) -> None:
    admit()
    recipe = recipe_of([*SMALL, f"mechanism.name={name}"])
    first, second = (sordino.run(recipe, out=tmp_path / part) for part in ("a", "b"))
    weights = [list(outcome.model.state_dict().values()) for outcome in (first, second)]
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
    unit = "client" if name == "cl_fl" else "record"
    found = {(entry.unit, entry.observer, entry.epsilon is not None) for entry in first.certificate.entries}
    assert found == {(unit, observer, name == "adap_dp_fl") for observer in ("server", "outsider")}
