"""Reasons are computed from the recipe that was played, and nothing is called impossible for having been at chance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from papers.a_dpfl import CLIP, COMMON, DATA, PRIVATE
from papers.experiment_runner import ExperimentRun, ExperimentRunner, SeedRuns, recipe_of
from papers.fed_cad_verdicts import beats, by_thirds, gained, level, stated
from papers.noise import norm_told, piled_up, rounds_until_overflow, shrunk, shrunk_told, times
from papers.xue_scene import CIFAR, MNIST, READINGS, beyond, client, drowned, ours

from papers import fed_cad
from sordino.account.accountants.published import fed_cad_schedule


def ended(accuracy: float, settings: Sequence[str]) -> SeedRuns:
    """Returns a run that ended with some accuracy."""
    return SeedRuns((ExperimentRun(recipe_of(settings), ({"round": 1, "accuracy": accuracy},)),))


def test_the_norm_of_the_noise_follows_the_recipe() -> None:
    plan = fed_cad.three("mnist", 0.3, ExperimentRunner(Path(), quick=False))["Fed-LDP"]
    assert norm_told(recipe_of(plan)) == (
        "noise of σ·C = 0.3 on each of 21,840 weights has norm 44.3, the average of 10 messages still 14.0, and an "
        "update has norm 1 at most"
    )
    assert "the average of 30 messages still 13.5" in norm_told(
        recipe_of([*plan, "select.size=30", "mechanism.noise_multiplier=0.5"])
    )


def test_noise_before_clipping_shortens_steps_as_the_recipe_has_it() -> None:
    plan = [*COMMON, *DATA["MNIST"], *PRIVATE, CLIP["MNIST"]]
    assert shrunk(recipe_of(plan)) == pytest.approx(562_026**0.5 / 20)
    assert shrunk(recipe_of([*plan, "mechanism.noise_multiplier=0.5"])) == pytest.approx(562_026**0.5 / 40)
    assert "has norm 150. Clipping that to C = 4 divides a batch's gradient by 37 " in shrunk_told("", recipe_of(plan))


def test_at_chance_fed_cad_differs_for_a_computed_reason() -> None:
    plan = fed_cad.three("mnist", 0.3, ExperimentRunner(Path(), quick=False))["Fed-LDP"]
    low, high = ended(0.1, plan), ended(0.4, plan)
    for line in (
        level("a", 0.847, low),
        gained("b", 0.02, low, ended(0.09, plan)),
        stated("c", "d", "e", True, {"f": low}),
    ):
        assert (line.status, line.why) == ("differs", f"ends at chance: {norm_told(recipe_of(plan))}")
    assert stated("c", "d", "e", True, {"f": high}).status == "equal"
    assert gained("b", 0.02, high, ended(0.38, plan)).status == "equal"


@pytest.mark.parametrize(("difference", "messages"), [(0.3, 2), (0.5, 8), (0.7, 30), (1.0, 5), (0.5, 1)])
def test_noise_that_is_reused_piles_up_as_its_covariance_says(difference: float, messages: int) -> None:
    # another way: the noise is μ = M·ξ with M built row by row, and its sum has variance ‖1ᵀM‖²
    _, carried, fresh = fed_cad_schedule(difference, messages)
    mix = np.zeros((messages, messages))
    for t in range(messages):
        mix[t] = carried[t] * mix[t - 1] if t else 0.0
        mix[t, t] += fresh[t]
    assert piled_up(difference, messages) == pytest.approx(np.square(mix.sum(0)).sum() / messages)


def test_the_course_is_told_by_thirds_where_something_was_learnt() -> None:
    def course(*path: float) -> SeedRuns:
        rounds = tuple({"round": round_, "accuracy": value} for round_, value in enumerate(path, 1))
        return SeedRuns((ExperimentRun(recipe_of([]), rounds),))

    told = by_thirds("here", {"a": course(0.1, 0.3, 0.4, 0.6, 0.5, 0.7), "b": course(*[0.1] * 6)})
    assert told == [
        "here, mean accuracy (%) over the first, second and last third of the rounds: a 20.0, 50.0, 60.0; "
        "b 10.0, 10.0, 10.0."
    ]
    assert by_thirds("here", {"b": course(*[0.1] * 6)}) == []


def test_fed_cad_behind_fed_ldp_is_explained_by_noise_that_adds_up() -> None:
    plans = fed_cad.three("mnist", 0.3, ExperimentRunner(Path(), quick=False))
    ends = dict(zip(plans, (0.52, 0.45, 0.48), strict=True))
    line = beats("a", {name: ended(ends[name], [*plan, "select.size=50"]) for name, plan in plans.items()})
    assert line.status == "differs" and "15 messages" in line.why and "2.08 times" in line.why
    assert beats("a", {name: ended(1 - ends[name], plan) for name, plan in plans.items()}).why == ""


def scene(data: list[str], sigma0: float, batch: int, *changed: str, accuracy: float = 0.1) -> dict[str, SeedRuns]:
    """Returns both readings of Xue et al.'s noise, ended with some accuracy."""
    return {
        name: ended(accuracy, [*data, *client("rmsprop", 16), *ours(sigma0, name, batch), *changed])
        for name in READINGS
    }


@pytest.mark.parametrize(
    ("data", "sigma0", "batch", "changed", "told"),
    [
        (
            MNIST,
            26,
            75,
            [],
            ("4,227 times", "56 times over the batch of 75", "50 clients", "factor of 7.1", "8.0 times"),
        ),
        (MNIST, 10, 75, [], ("1,626 times", "22 times over the batch of 75", "3.1 times")),
        (MNIST, 26, 75, ["mechanism.beta=0.8"], ("3,074 times", "41 times", "5.8 times")),
        (CIFAR, 26, 62, [], ("9,335 times", "151 times over the batch of 62", "21.3 times")),
        (
            MNIST,
            26,
            5,
            ["partition.clients=700", "train.batch_size=5"],
            ("845 times over the batch of 5", "700 clients", "factor of 26.5", "32.0 times"),
        ),
        (MNIST, 26, 75, ["select.kind=fixed", "select.size=30"], ("30 clients", "factor of 5.5", "10.3 times")),
    ],
)
def test_xues_noise_is_told_for_the_recipe_that_was_played(
    data: list[str], sigma0: float, batch: int, changed: list[str], told: tuple[str, ...]
) -> None:
    why = drowned(scene(data, sigma0, batch, *changed))
    assert all(words in why for words in told), why


def test_only_noise_above_every_weight_makes_an_accuracy_impossible() -> None:
    loud, quiet, learnt = scene(MNIST, 26, 75), scene(MNIST, 3, 75), scene(MNIST, 26, 75, accuracy=0.5)
    assert beyond("a", "b", "c", loud).status == "not reproducible as printed"
    assert [beyond("a", "b", "c", one).status for one in (quiet, learnt)] == ["differs", "differs"]


@pytest.mark.parametrize(("reading", "rounds"), [("as printed", 5), ("over the batch", 12)])
def test_printed_noise_ends_a_run_long_before_its_rounds_are_over(reading: str, rounds: int) -> None:
    # played to the end (σ0 = 26, K = 16, RMSprop, MNIST): the test loss overflows in round 4 as printed
    recipe = recipe_of([*MNIST, *client("rmsprop", 16), *ours(26, reading), "run.rounds=108"])
    assert rounds_until_overflow(recipe) == rounds
    short = recipe_of([*MNIST, *client("rmsprop", 16), *ours(26, reading), "run.rounds=3"])
    assert rounds_until_overflow(short) == 3


def test_noise_without_the_root_of_the_dimension_is_as_much_less() -> None:
    plain = [*MNIST, *client("rmsprop", 16), *ours(26, "over the batch"), "run.rounds=108"]
    quiet = recipe_of([*plain, "mechanism.root_dimension=false"])
    assert times(recipe_of(plain)) == pytest.approx(times(quiet) * 21_840**0.5)
    assert rounds_until_overflow(quiet) == 108
