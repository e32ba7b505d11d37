"""What a recipe leaves open follows from its features and from public facts, and from nothing else."""

from __future__ import annotations

import json
import math

import pytest
import torch
import typer
from typer.testing import CliRunner

import sordino
from sordino.account.accountants.exact import separation_for
from sordino.advise.by_features import FOLLOWS, MOST_CHANNELS, scales_for, settled
from sordino.cli.recipe import recipe as command
from sordino.data.federation import Federation
from sordino.data.public import PublicCounts
from sordino.errors import DataError, RecipeError
from sordino.federation.remote import remote
from sordino.recipe import Recipe
from sordino.runs.folder import RunFolder
from sordino.runs.setup import assemble, settle
from sordino.tune.grid import SettingsGrid, usual_grid, with_settings

BARE = {"data": {"features": "scattering"}, "mechanism": {"name": "dp_sgd"}}
COUNTS = PublicCounts(30, 60_000, 10)
IMAGE = (1, 28, 28)
WHOLE = {
    "mechanism": {"name": "dp_sgd", "clip_norm": 0.3},
    "data": {"features": "scattering", "feature_scales": 2, "feature_count": 7},
    "model": {"bias": True},
    "opening": {"feature_mean": 0.0, "channel_moment": 0.0},
    "run": {"rounds": 3},
}
"""Everything that could follow, set to what does not."""


def at(tree: dict, told: PublicCounts = COUNTS, shape: tuple[int, ...] = IMAGE) -> Recipe:
    return settled(Recipe.from_dict(tree), told, shape).recipe


def test_the_path_is_the_curve_through_the_budget_and_the_declared_number() -> None:
    for epsilon in (0.3, 1, 3):
        recipe = at({**BARE, "budget": {"epsilon": epsilon}})
        reach = separation_for(epsilon, 1e-5) * 60_000
        assert recipe.server.path == pytest.approx(10 * reach**0.75, rel=0.005)
        assert recipe.server.momentum == 0 and not recipe.model.bias and recipe.mechanism.clip_norm == 0.1
    client = {**BARE, "mechanism": {"name": "dp_fedavg"}}
    assert at(client).server.path == at(BARE, PublicCounts(30, 30, 10)).server.path, "clients count, not their records"
    alone = {**BARE, "mechanism": {"name": "fed_ldp"}}
    assert at(alone, PublicCounts(900, 900, 10)).server.path == at(client, PublicCounts(30, 900, 10)).server.path


def test_rounds_grow_with_the_path_within_bounds() -> None:
    rounds = [at({**BARE, "budget": {"epsilon": epsilon}}).run.rounds for epsilon in (0.01, 0.5, 1, 8)]
    assert rounds == sorted(rounds) and rounds[0] == 40 and rounds[-1] == 100 and 40 < rounds[1] < rounds[2] < 100


@pytest.mark.parametrize(
    ("told", "shape", "features", "opening"),
    [
        (COUNTS, IMAGE, "scattering", (0.1, 0.2)),
        (PublicCounts(1437, 1437, 10), (1, 8, 8), "scattering", (0.0, 0.2)),  # a mean of few records is all noise
        (PublicCounts(100, 100, 10), (1, 8, 8), "scattering", (0.0, 0.0)),
        (COUNTS, (3, 32, 32), "patches", (0.1, 0.2)),
        (COUNTS, (104,), "random", (0.0, 0.0)),  # flat rows: each feature is a channel of its own
    ],
)
def test_the_opening_is_asked_for_where_its_noise_is_small(told, shape, features, opening) -> None:
    recipe = at({**BARE, "data": {"features": features}}, told, shape)
    assert (recipe.opening.feature_mean, recipe.opening.channel_moment) == opening
    if features == "patches":
        assert 2 * recipe.data.feature_count == MOST_CHANNELS


def test_images_decide_the_scales() -> None:
    assert [scales_for((1, side, side)) for side in (8, 12, 16, 18, 28, 32)] == [1, 1, 2, 1, 2, 2]
    assert at(BARE, shape=(1, 8, 8)).data.feature_scales == 1


def test_what_is_set_wins_each_by_itself() -> None:
    usual = at(BARE)
    for section, fields in WHOLE.items():
        for field, value in fields.items():
            if field in ("name", "features", "feature_count"):
                continue
            tree = {name: dict(part) for name, part in BARE.items()}
            tree.setdefault(section, {})[field] = value
            found = at(tree)
            assert getattr(getattr(found, section), field) == value
            assert found.server.path == usual.server.path, "the others follow all the same"


@pytest.mark.parametrize("step", [{"learning_rate": 4.0}, {"path": 400.0}, {"path": "auto"}])
def test_whoever_chooses_the_step_chose_it_for_all(step) -> None:
    recipe = Recipe.from_dict({**BARE, "server": step})
    assert settled(recipe, COUNTS, IMAGE).recipe is recipe


def test_a_recipe_that_sets_everything_is_untouched_to_the_bit() -> None:
    recipe = Recipe.from_dict({**WHOLE, "server": {"learning_rate": 1.5}})
    assert settle(recipe).recipe is recipe and settle(recipe).values == {}
    left = Recipe.from_dict(WHOLE)
    found = settled(left, COUNTS, IMAGE)
    assert found.values.keys() == {"server.path"}
    assert found.recipe.but(server={"path": None}).to_toml() == left.to_toml()


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"data": {"normalise": "unit"}, "mechanism": {"name": "dp_sgd"}},
        {**BARE, "data": {"features": "scattering", "feature_norm": "none"}},
        {**BARE, "model": {"name": "mlp"}},
        {**BARE, "budget": {"epsilon": "none"}, "mechanism": {"name": "dp_sgd", "noise_multiplier": 1.0}},
        {**BARE, "mechanism": {"name": "geometric"}},
        {**BARE, "mechanism": {"name": "dropout_robust", "mode": "faithful"}},
    ],
)
def test_without_features_of_norm_1_and_a_step_that_suits_them_nothing_follows(tree) -> None:
    recipe = Recipe.from_dict(tree)
    assert settled(recipe, COUNTS, IMAGE).recipe is recipe


def test_numbers_to_predict_have_no_scores_to_hide() -> None:
    recipe = Recipe.from_dict(BARE)
    assert settled(recipe, PublicCounts(30, 60_000, 0), IMAGE).recipe is recipe


def test_the_embedded_recipe_gives_way_with_its_step_alone() -> None:
    begun = Recipe.begin({"data": {"features": "scattering"}})
    found = settle(begun).recipe
    assert (found.mechanism.name, found.mechanism.clip_norm, found.server.learning_rate) == (
        "dropout_robust",
        0.1,
        None,
    )
    assert found.server.path is not None and found.budget == Recipe().budget
    kept = Recipe.begin({"data": {"features": "scattering"}, "mechanism": {"clip_norm": 0.5}, "server": {}})
    assert settle(kept).recipe.mechanism.clip_norm == 0.5, "written down, it is set"
    as_before = Recipe.begin({"data": {"features": "scattering"}, "server": {"learning_rate": 4.0}})
    assert settle(as_before).recipe is as_before and as_before.mechanism.clip_norm == 0.5
    plain = Recipe()
    assert plain.server.learning_rate == 4.0 and settle(plain).recipe is plain


def test_no_record_is_looked_at() -> None:
    """Other records and other labels under one declaration: the same recipe, to the bit."""
    recipe, found = Recipe.from_dict(BARE), []
    for seed in range(2):
        draws = torch.Generator().manual_seed(seed)
        count = 600 - 20 * seed
        x, y = torch.rand(count, 1, 8, 8, generator=draws), torch.randint(10, (count,), generator=draws)
        owners = [str(place % (30 - seed)) for place in range(count)]
        made = Federation.of(x, y, owners, None, 10, 0, "own", PublicCounts(30, 600, 10))
        found.append(settle(recipe, made).recipe)
    assert found[0].to_toml() == found[1].to_toml() and found[0].server.path is not None


def test_what_must_be_declared_is_asked_for(tmp_path) -> None:
    import numpy as np

    np.savez(tmp_path / "own.npz", x=np.zeros((40, 1, 8, 8), np.float32), y=np.arange(40) % 2)
    own = {**BARE, "data": {"name": "npz", "file": tmp_path / "own.npz", "features": "scattering"}}
    with pytest.raises(DataError, match=r"records and classes must be declared|records.* must be declared"):
        settle(Recipe.from_dict(own))


def test_across_machines_the_declared_shape_is_that_of_features() -> None:
    public = {"shape": (9, 4, 4), "population": 30, "records": 1437, "classes": 10}
    recipe = Recipe.from_dict({**BARE, "public": public})
    context = assemble(recipe, federation=remote(recipe, "f", [str(number) for number in range(30)]))
    here = at(BARE, PublicCounts(30, 1437, 10), (1, 8, 8))
    assert context.recipe.server == here.server and context.recipe.opening == here.opening
    assert context.recipe.data.feature_scales == 2, "how members make features is what the recipe says"
    again = assemble(context.recipe, federation=remote(recipe, "f", [str(number) for number in range(30)]))
    assert again.recipe == context.recipe and again.step == context.step


@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
def test_a_run_says_it_writes_it_down_and_goes_on_with_it(tmp_path, monkeypatch) -> None:
    said = []
    monkeypatch.setattr("sordino.runs.progress.RoundProgress.say", lambda _, text: said.append(text))
    recipe = Recipe.from_dict({**BARE, "partition": {"clients": 20}, "run": {"rounds": 2}})
    outcome = sordino.run(recipe, out=tmp_path / "run")
    assert any(text.startswith("features: rows have norm 1") and "server.path = 869" in text for text in said)
    stored = RunFolder(tmp_path / "run").recipe()
    assert stored == settle(recipe).recipe and stored.server.path == 869 and not stored.model.bias
    assert assemble(stored).recipe is stored or settle(stored).recipe is stored
    assert outcome.context.step.learning_rate == pytest.approx(869 / (2 * 0.1))
    told = json.loads((tmp_path / "run" / "private" / "run.json").read_text())
    same = sordino.run(stored, out=tmp_path / "same")
    assert json.loads((tmp_path / "same" / "private" / "run.json").read_text())["stream"] == told["stream"]
    assert torch.equal(outcome.weights, same.weights), "a name and a run are those of the values written out"
    assert sordino.run(recipe, out=tmp_path / "run", resume=True).rounds == 2
    with pytest.raises(RecipeError, match="begun with another recipe"):
        sordino.run(recipe.but(budget={"epsilon": 2}), out=tmp_path / "run", resume=True)


@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
def test_an_older_folder_whose_recipe_was_written_out_is_what_it_was(tmp_path) -> None:
    older = Recipe.from_dict({**BARE, "server": {"learning_rate": 4.0}}).to_toml().replace("learning_rate = 4.0\n", "")
    path = tmp_path / "recipe.toml"
    path.write_text(older)
    assert not Recipe.load(path).follows_features
    assert assemble(Recipe.load(path)).step.learning_rate == 4.0, "the mechanism's own, as there was no other"


def test_the_command_writes_out_what_a_run_would_have() -> None:
    app = typer.Typer()
    app.command()(command)
    arguments = ["--set", "data.features=scattering"]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    assert shown.startswith("# features: rows have norm 1") and "path = 869.0" in shown and "bias = false" in shown
    explained = " ".join(CliRunner().invoke(app, ["--explain"], catch_exceptions=False).stdout.split())
    assert explained.count("left open") >= len(FOLLOWS)
    for name in FOLLOWS:
        section, field = name.split(".")
        assert field in type(getattr(Recipe.from_dict(BARE), section)).model_fields


def test_a_search_begins_around_the_path() -> None:
    recipe = settle(Recipe.from_dict(BARE)).recipe
    grid = SettingsGrid.parse(usual_grid(recipe))
    assert set(grid.values) == {"mechanism.clip_norm", "server.path"} and ("0.05", "0.1", "0.2") in grid.values.values()
    assert {with_settings(recipe, point).server.path for point in grid.points()} == {434.5, 869, 1738}
    assert "server.learning_rate=0.5,2,8" in usual_grid(Recipe())


@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
def test_digits_learn_with_nothing_set_but_the_features(tmp_path) -> None:
    """One trusted server and floats, for speed: 92 % in the table of docs/utility.md, 81 % with the steps of pixels."""
    recipe = Recipe.from_dict(
        {**BARE, "mechanism": {"name": "dp_sgd", "trust": "central"}, "partition": {"clients": 1}}
    )
    outcome = sordino.run(recipe, out=tmp_path / "run")
    assert outcome.accuracy > 0.86
    assert math.isclose(max(entry.epsilon for entry in outcome.certificate.entries if entry.epsilon), 1, rel_tol=1e-3)
