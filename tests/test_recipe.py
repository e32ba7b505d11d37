"""Recipes: what is wrong is said in one sentence that names the field and the remedy."""

import re
import tomllib
from pathlib import Path

import pytest

from sordino.errors import DataError, RecipeError
from sordino.mechanisms import MECHANISMS
from sordino.recipe import Recipe
from sordino.runs.setup import assemble, load

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("**/*.toml"))


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(RecipeError, match=r"nowhere\.toml"):
        Recipe.load(tmp_path / "nowhere.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[run\nrounds = 3")
    with pytest.raises(RecipeError, match=r"broken\.toml is not valid TOML"):
        Recipe.load(broken)


def test_a_recipe_from_a_windows_editor_is_read_and_other_letters_are_named(tmp_path):
    text = "[run]\r\nrounds = 7\r\n"
    (tmp_path / "notepad.toml").write_bytes(text.encode("utf-8-sig"))
    assert Recipe.load(tmp_path / "notepad.toml").run.rounds == 7
    (tmp_path / "wide.toml").write_bytes(text.encode("utf-16"))
    with pytest.raises(RecipeError, match=r"wide\.toml is no text in UTF-8: save it as UTF-8$"):
        Recipe.load(tmp_path / "wide.toml")


def test_a_recipe_that_nests_without_end_is_told_so(tmp_path):
    (tmp_path / "deep.toml").write_text("a = " + "[" * 50_000)
    with pytest.raises(RecipeError, match="nests too deeply"):
        Recipe.load(tmp_path / "deep.toml")


@pytest.mark.parametrize("text", ["", "# nothing yet\n\n", "[run]\n[data]\n"])
def test_a_recipe_that_sets_nothing_is_not_taken_for_the_default(tmp_path, text):
    path = tmp_path / "empty.toml"
    path.write_text(text)
    for settings in ([], ["run.rounds=7"]):
        with pytest.raises(RecipeError, match=r"empty.toml sets nothing: write settings into it .*or leave it out"):
            Recipe.load(path, settings)


@pytest.mark.parametrize(
    "setting",
    [("geometric", "theta=1e308"), ("local_dp_sgd", "sampling_rate=1e-9"), ("a_dpfl", "sampling_rate=1e-9")],
)
def test_settings_beyond_all_bounds_are_refused_in_a_sentence(setting):
    name, value = setting
    chosen = Recipe.load(None, [f"mechanism.name={name}", f"mechanism.{value}", "partition.clients=10"])
    with pytest.raises(RecipeError, match=r"take less extreme ones|raise it, or set train.steps"):
        assemble(chosen)


@pytest.mark.parametrize("text", ["run = 3", "mechanism = 'dp_sgd'"])
def test_a_table_that_is_not_one_is_named(text, tmp_path):
    (tmp_path / "flat.toml").write_text(text)
    with pytest.raises(
        RecipeError, match=r"^(run|mechanism) is a table of settings.*: write \[(run|mechanism)\] and one"
    ):
        Recipe.load(tmp_path / "flat.toml")


def test_settings_win_over_the_file_and_values_are_toml(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text("[run]\nrounds = 3\n[model]\nname = 'mlp'\n")
    chosen = Recipe.load(path, ["run.rounds=7", "model.hidden=[8, 4]", "data.name=digits"])
    assert (chosen.run.rounds, chosen.model.hidden, chosen.model.name) == (7, (8, 4), "mlp")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_shipped_recipe_is_valid_and_survives_a_round_trip(path, tmp_path):
    chosen = Recipe.load(path)
    again = tmp_path / "again.toml"
    again.write_text(chosen.to_toml())
    assert Recipe.load(again) == chosen


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_documents_its_settings(name):
    for field, about in MECHANISMS[name].options.model_fields.items():
        assert field == "name" or about.description, field
    assert Recipe.load(None, [f"mechanism.name={name}", "mechanism.mode=faithful"]).mechanism.mode == "faithful"


def test_no_budget_survives_a_round_trip(tmp_path):
    chosen = Recipe.load(None, ["budget.epsilon=none", "mechanism.noise_multiplier=2"])
    assert chosen.budget.epsilon is None
    (tmp_path / "again.toml").write_text(chosen.to_toml())
    assert Recipe.load(tmp_path / "again.toml") == chosen


def test_the_dump_is_toml():
    assert tomllib.loads(Recipe().to_toml())["data"]["name"] == "digits"


def test_a_table_of_ones_own_is_described_by_a_recipe(tmp_path):
    lines = (f"{n},{n / 40},{'yes' if n % 3 else 'no'},p{n % 5},a word" for n in range(40))
    (tmp_path / "own.csv").write_text("id,size,bought,person,remark\n" + "\n".join(lines))
    settings = ["name=csv", f'file="{tmp_path / "own.csv"}"', "label=bought", "client=person", "test=0.25"]
    settings += ['class_names=["no", "yes"]', 'drop=["id", "remark"]']
    told = ["public.population=4", "public.records=32", "partition.kind=by_key"]
    people = load(Recipe.load(None, [*(f"data.{setting}" for setting in settings), *told]))
    assert (people.population, people.classes, people.input_shape, len(people.test_x)) == (4, 2, (1,), 8)
    ages = [*(f"data.{setting}" for setting in settings[:2]), "data.label=id", "data.classes=0"]
    ages += ["public.population=32", "public.records=32"]
    ages.append('data.drop=["bought", "person", "remark"]')
    assert load(Recipe.load(None, ages)).classes == 0
    with pytest.raises(DataError, match=r"data\.drop is set, but 'digits' has no such option"):
        load(Recipe.load(None, ['data.drop=["id"]']))


def test_the_defaults_are_the_same_on_every_way_in():
    embedded = Recipe.load()
    assert (
        Recipe()
        == embedded
        == Recipe.from_dict({})
        == Recipe.from_dict({"mechanism": embedded.mechanism}).but(server=embedded.server)
    )
    assert Recipe.from_dict({"budget": {"epsilon": 2}}) == Recipe.load(None, ["budget.epsilon=2"])
    assert Recipe.from_dict({"server": {"path": 3.0}}).server.learning_rate is None
    for tree in ({}, {"mechanism": {"name": "dropout_robust"}}, {"mechanism": {}}):
        assert Recipe.begin(tree) == embedded
    assert Recipe.begin(settings=["mechanism.clip_norm=2"]) == Recipe.load(None, ["mechanism.clip_norm=2"])
    own = Recipe.from_dict({"mechanism": {"name": "dp_sgd"}})
    assert Recipe.begin({"mechanism": {"name": "dp_sgd"}}) == Recipe.begin(settings=["mechanism.name=dp_sgd"]) == own
    assert Recipe.load(None, ["mechanism.name=dp_sgd"]) == own  # and not the demo's clip norm and step
    # whoever names a mechanism gets that one's own
    assert Recipe.from_dict({"mechanism": {"name": "dp_fedavg"}}).server.learning_rate is None


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ("data.ranges={ age = [0, 120] }", "public.ranges"),
        ("mechanism.epsilon=2", "budget.epsilon"),
        ("train.rounds=3", "run.rounds"),
        ("server.learnng_rate=3", "server.learning_rate"),
    ],
)
def test_a_setting_in_the_wrong_table_is_shown_the_right_one(setting: str, meant: str) -> None:
    """`data.ranges` was told of `data.feature_angles`, which is spelled alike and is something else."""
    with pytest.raises(RecipeError, match=re.escape(f"is not a setting (did you mean {meant}?)")):
        Recipe.load(None, [setting])
