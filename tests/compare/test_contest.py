from __future__ import annotations

from pathlib import Path

import pytest

from sordino.compare.contest import Class, contenders, trials
from sordino.errors import RecipeError
from sordino.mechanisms import MECHANISMS
from sordino.recipe import Recipe


def test_everybody_gets_the_same_people_model_and_seed(tmp_path: Path) -> None:
    own = tmp_path / "tuned.toml"
    own.write_text(
        '[mechanism]\nname = "fed_ldp"\nclip_norm = 0.25\n[partition]\nclients = 7\n[run]\nrounds = 3\nseed = 99\n'
    )
    common = Recipe.load(None, ["partition.clients=50", "model.name=mlp", "run.seed=4"])
    named, tuned = contenders(["dp_fedavg", str(own)], common, {})
    assert tuned.label == "tuned" and tuned.recipe.mechanism.clip_norm == 0.25 and tuned.recipe.run.rounds == 3
    for section in ("data", "partition", "model", "budget"):
        assert getattr(named.recipe, section) == getattr(tuned.recipe, section) == getattr(common, section)
    assert tuned.recipe.run.seed == 4
    assert named.recipe.mechanism.name == "dp_fedavg"


def test_only_equals_compete() -> None:
    kinds = {c.label: c.kind for c in contenders(list(MECHANISMS), Recipe(), {})}
    assert kinds["dp_fedavg"] == Class("client", "central") and kinds["dp_fedavg"].observer == "outsider"
    assert kinds["fed_ldp"] == kinds["fed_cad"] == kinds["laplace"] == Class("client", "local")
    assert kinds["dp_sgd"] == Class("record", "distributed") and kinds["dp_sgd"].observer == "server"
    assert kinds["dropout_robust"] == Class("client", "distributed")


def test_settings_for_one_contender_reach_no_other() -> None:
    field = contenders(["fed_ldp", "laplace"], Recipe(), {"laplace": ["mechanism.clip_norm=3"]})
    assert [c.recipe.mechanism.clip_norm for c in field] == [1.0, 3.0]


def test_what_has_no_privacy_takes_the_plain_mean_unless_told_otherwise() -> None:
    common = Recipe.load(None, ["server.learning_rate=4"])
    free, private = contenders(["fedavg", "dp_fedavg"], common, {})
    assert (free.recipe.server.learning_rate, private.recipe.server.learning_rate) == (None, 4.0)
    (told,) = contenders(["fedavg"], common, {"fedavg": ["server.learning_rate=2"]})
    assert told.recipe.server.learning_rate == 2.0


def test_as_printed_where_there_is_a_paper() -> None:
    modes = {c.label: c.recipe.mechanism.mode for c in contenders(["fed_cad", "fed_ldp"], Recipe(), {}, claimed=True)}
    assert modes == {"fed_cad": "faithful", "fed_ldp": "certified"}


@pytest.mark.parametrize(
    ("wanted", "own", "sentence"),
    [
        (["magic"], {}, "'magic' is neither a mechanism nor a recipe file"),
        (["fed_ldp", "fed_ldp"], {}, "fed_ldp competes twice"),
        (["fed_ldp"], {"laplace": ["mechanism.clip_norm=1"]}, "--for laplace names no contender"),
        (["fed_ldp"], {"fed_ldp": ["mechanism.wings=2"]}, "mechanism.wings is not a setting"),
        (["fed_ldp"], {"fed_ldp": ["partition.clients=9"]}, "unfair: --set partition.clients=9 is for everybody"),
        (["fed_ldp"], {"fed_ldp": ["budget.delta=0.1"]}, "unfair: --set budget.delta=0.1 is for everybody"),
        (["fed_ldp"], {"fed_ldp": [" run.seed = 9"]}, "unfair: --set run.seed"),
        (["fed_ldp"], {"fed_ldp": ["mechanism.name=laplace"]}, "unfair: name that mechanism as a contender"),
    ],
)
def test_what_cannot_be_meant_is_refused(wanted: list[str], own: dict[str, list[str]], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        contenders(wanted, Recipe(), own)


def test_trials_cover_the_grid_and_play_no_budget_without_privacy(tmp_path: Path) -> None:
    made = trials(contenders(["fed_ldp", "fedavg"], Recipe(), {}), [1.0, 2.0], range(4, 7), tmp_path)
    assert len(made) == 3 * (2 + 1)
    assert len({trial.folder for trial in made}) == len(made)
    assert {(t.recipe.budget.epsilon, t.recipe.run.seed) for t in made if t.contender.label == "fed_ldp"} == {
        (epsilon, seed) for epsilon in (1.0, 2.0) for seed in range(4, 7)
    }


def test_everybody_meets_its_rivals_in_its_own_class_and_no_others() -> None:
    field = contenders(["a_dpfl"], Recipe(), {}, rivals=True)
    labels = [one.label for one in field]
    assert labels == ["a_dpfl", "a_dpfl-uniform", "a_dpfl-constant", "a_dpfl-geometric", "local_dp_sgd"]
    assert {one.kind for one in field} == {Class("record", "local")}
    shared = {one.label for one in contenders(["dropout_robust"], Recipe(), {}, rivals=True)}
    assert shared >= {"dropout_robust-unthinned", "dropout_robust-discarded", "distributed_gaussian"}


def test_no_class_is_without_a_plain_rival() -> None:
    field = contenders(list(MECHANISMS), Recipe(), {}, rivals=True)
    for kind in {one.kind for one in field}:
        mine = [MECHANISMS[one.recipe.mechanism.name] for one in field if one.kind == kind]
        assert any(not spec.paper for spec in mine), kind
        assert len(mine) > 1, kind


def test_a_variant_can_be_named_and_has_its_settings_on_top_of_the_common_ones() -> None:
    common = Recipe.load(None, ["mechanism.name=a_dpfl", "mechanism.clip_norm=0.25"])
    (uniform,) = contenders(["a_dpfl-uniform"], common, {})
    assert (uniform.recipe.mechanism.clip_norm, uniform.recipe.mechanism.selection) == (0.25, "uniform")
    with pytest.raises(RecipeError, match="neither a mechanism nor a recipe"):
        contenders(["a_dpfl-wings"], common, {})


def test_as_printed_nobody_brings_rivals() -> None:
    assert [one.label for one in contenders(["a_dpfl"], Recipe(), {}, claimed=True, rivals=True)] == ["a_dpfl"]
