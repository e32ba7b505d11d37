"""Everybody is tuned alike, on data that are nobody's."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.fft import dctn

from sordino.account.accountants.exact import separation_for
from sordino.compare.contest import contenders, trials
from sordino.compare.tuning import tuned
from sordino.data.public import PublicCounts
from sordino.errors import RecipeError
from sordino.recipe import Recipe
from sordino.runs.setup import load
from sordino.tune.grid import DEFAULT, SettingsGrid, with_settings
from sordino.tune.search import Candidate, Score, scored
from sordino.tune.stand_in import drawn, stand_in

SMALL = ("run.rounds=2", "partition.clients=30", "budget.epsilon=20", "aggregate.kind=plain")


def test_a_grid_is_every_combination_in_order() -> None:
    grid = SettingsGrid.parse(["server.learning_rate=1, 2", "mechanism.clip_norm=0.5"])
    assert grid.points() == [
        ("server.learning_rate=1", "mechanism.clip_norm=0.5"),
        ("server.learning_rate=2", "mechanism.clip_norm=0.5"),
    ]
    assert len(SettingsGrid.parse(DEFAULT).points()) == 9
    assert SettingsGrid.parse(DEFAULT).without({"mechanism.clip_norm"}).points()[0] == ("server.learning_rate=0.5",)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("mechanism.clip_norm", "is not of the form"),
        ("budget.epsilon=1,2", "part of the task or of the promise"),
        ("mechanism.noise_multiplier=1,2", "part of the task or of the promise"),
        ("partition.clients=3", "part of the task or of the promise"),
    ],
)
def test_what_is_not_to_be_searched_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        SettingsGrid.parse([text])
    with pytest.raises(RecipeError, match="twice"):
        SettingsGrid.parse(["server.momentum=0", "server.momentum=0.5"])


def test_drawn_records_can_be_learned_and_have_the_norm_that_was_asked_for() -> None:
    x, y = drawn((1, 6, 6), 3, 600, 6.0)
    assert x.shape == (600, 1, 6, 6) and set(y) == {0, 1, 2}
    flat = x.reshape(600, -1).astype(float)
    assert np.allclose(np.linalg.norm(flat, axis=1), 6.0, rtol=1e-5)
    means = np.stack([flat[:300][y[:300] == c].mean(0) for c in range(3)])
    right = (np.argmax(flat[300:] @ means.T, axis=1) == y[300:]).mean()
    assert 0.5 < right < 1.0, "neither noise nor trivial"
    again, _ = drawn((1, 6, 6), 3, 600, 6.0)
    assert np.array_equal(x, again), "the law is public, and so are the draws"


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (81, 7, 7), (104,)])
@pytest.mark.parametrize("classes", [2, 10])
def test_drawn_records_are_as_hard_to_tell_apart_whatever_their_shape(shape: tuple[int, ...], classes: int) -> None:
    """Ten classes of 28 × 28 pixels used to be told apart by everybody, so that all settings were the best one."""
    x, y = drawn(shape, classes, 4_000, 1.0)
    modes = dctn(x.astype(float), axes=tuple(range(1, x.ndim)), norm="ortho").reshape(len(x), -1)
    smooth = np.argsort(np.ravel(sum(place**2 for place in np.indices(shape))), kind="stable")[1:41]
    known, unseen, mine = modes[:2_000, smooth], modes[2_000:, smooth], y[:2_000]
    means = np.stack([known[mine == c].mean(0) for c in range(classes)])
    weights = np.linalg.solve(np.cov((known - means[mine]).T), means.T)
    right = float((np.argmax(unseen @ weights - 0.5 * (means.T * weights).sum(0), axis=1) == y[2_000:]).mean())
    assert 0.65 < right < 0.92, "a linear model of the forty smoothest modes"


@pytest.mark.parametrize(
    ("name", "by"), [("dp_sgd", 3.0), ("local_dp_sgd", math.sqrt(3.0)), ("dp_fedavg", 1.0), ("fed_ldp", 1.0)]
)
def test_fewer_records_than_are_declared_have_the_noise_of_all(name: str, by: float, tmp_path: Path) -> None:
    """A search on 20,000 records for 60,000 used to have three times their noise, and chose shorter paths."""
    recipe = Recipe.load(None, [f"mechanism.name={name}", "budget.epsilon=1", "partition.clients=30"])
    federation = load(recipe).declare(PublicCounts(records=60_000, part=True))
    made = stand_in(recipe, federation, "synthetic", tmp_path)
    assert made.public.records == 20_000 and made.public.population == 30
    found, asked = (separation_for(one.budget.epsilon or 0, 1e-5) for one in (made, recipe))
    assert found / asked == pytest.approx(by, rel=1e-6)


def test_stand_in_data_know_nothing_but_shape_and_declared_counts(tmp_path: Path) -> None:
    recipe = Recipe.load(None, SMALL)
    federation = load(recipe)
    made = stand_in(recipe, federation, "synthetic", tmp_path)
    other = load(made)
    assert other.input_shape == federation.input_shape and other.classes == federation.classes
    assert other.population == federation.population and len(other.train_x) == len(federation.train_x)
    assert other.digest != federation.digest and made.mechanism == recipe.mechanism and other.test_public
    louder = replace(federation, train_x=federation.train_x * 9)
    moved = stand_in(recipe, louder, "synthetic", tmp_path / "b")
    assert load(moved).digest == other.digest, "other records, the same stand-in"


def test_the_private_data_do_not_stand_in_for_themselves(tmp_path: Path) -> None:
    recipe = Recipe.load(None, SMALL)
    with pytest.raises(RecipeError, match="own data"):
        stand_in(recipe, load(recipe), "digits", tmp_path)
    with pytest.raises(RecipeError, match="no data set"):
        stand_in(recipe, load(recipe), "wings", tmp_path)


def test_the_best_is_first_and_what_diverged_the_last(tmp_path: Path) -> None:
    assert Score(("a",), (math.nan,)).mean == -math.inf == Score(("a",), (), "cannot").mean
    tried = [Candidate(("x=1",), Recipe(), tmp_path / "1"), Candidate(("x=2",), Recipe(), tmp_path / "2")]
    with pytest.raises(RecipeError, match="nothing of the grid could be played: no"):
        scored(tried, {tmp_path / "1": "no", tmp_path / "2": "no"})


def test_contenders_play_with_what_was_chosen_for_them(tmp_path: Path) -> None:
    common = Recipe.load(None, SMALL)
    field = contenders(["fed_ldp", "dropout_robust"], common, {"fed_ldp": ["mechanism.clip_norm=0.7"]})
    grid = SettingsGrid.parse(["mechanism.clip_norm=0.001,0.5", "server.learning_rate=2"])
    found = tuned(field, common, [20.0], grid, "synthetic", tmp_path / "t", 1, lambda done, total: None)
    assert {who: len(rows) for who, rows in found.scores.items()} == {("fed_ldp", 20.0): 1, ("dropout_robust", 20.0): 2}
    best = {one.label: one for one in found.contenders}
    assert best["dropout_robust"].tuned[20.0] == ("mechanism.clip_norm=0.5", "server.learning_rate=2")
    played = {t.contender.label: t.recipe for t in trials(found.contenders, [20.0], [3], tmp_path)}
    assert played["fed_ldp"].mechanism.clip_norm == 0.7 and played["fed_ldp"].server.learning_rate == 2
    assert played["dropout_robust"].mechanism.clip_norm == 0.5 and played["dropout_robust"].run.seed == 3
    assert played["dropout_robust"].data == common.data, "only settings are taken over from the stand-in"


def test_settings_are_validated_like_a_recipe() -> None:
    with pytest.raises(RecipeError, match="not a setting"):
        with_settings(Recipe(), ["server.wings=2"])
