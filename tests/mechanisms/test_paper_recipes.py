"""The recipes of the papers: each is valid as it is, and where the data is there it can be put on stage and played."""

from pathlib import Path

import pytest

from sordino.recipe import Recipe
from sordino.runs.run import run
from sordino.runs.setup import assemble

FOLDER = Path(__file__).resolve().parents[2] / "recipes" / "papers"
ALL = sorted(path.stem for path in FOLDER.glob("*.toml"))
LIGHT = [name for name in ALL if name.endswith("_adult")]


@pytest.mark.parametrize("name", ALL)
def test_every_recipe_is_valid_and_survives_being_written_out(name, tmp_path):
    recipe = Recipe.load(FOLDER / f"{name}.toml")
    assert name.startswith(recipe.mechanism.name)
    assert (recipe.mechanism.mode == "faithful") >= name.endswith("_faithful")
    again = tmp_path / "again.toml"
    again.write_text(recipe.to_toml())
    assert Recipe.load(again) == recipe


def test_every_paper_has_a_certified_recipe_and_a_faithful_one():
    papers = ("component_adaptive", "dropout_robust", "a_dpfl", "fed_cad", "geometric")
    assert {*papers, *(f"{paper}_faithful" for paper in papers)} <= set(ALL)


@pytest.mark.parametrize("name", LIGHT)
def test_the_light_ones_play_on_real_data(name, data_folder, tmp_path):
    recipe = Recipe.load(FOLDER / f"{name}.toml", [f"data.folder={str(data_folder)!r}", "run.rounds=2"])
    outcome = run(recipe, out=tmp_path / "run")
    assert outcome.rounds == 2 and outcome.accuracy > 0.2


@pytest.mark.parametrize(("name", "data"), [("dropout_robust", "mnist"), ("a_dpfl_faithful", "fashion-mnist")])
def test_the_heavy_ones_are_put_on_stage(name, data, data_folder):
    settings = [f"data.folder={str(data_folder)!r}", f"data.name={data}", "run.rounds=2"]
    cast = assemble(Recipe.load(FOLDER / f"{name}.toml", settings))
    assert cast.mechanism.name in name and cast.federation.population in (1000, 5000)
