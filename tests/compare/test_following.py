"""Where a recipe names features and no step, everybody in a class gets the step that follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordino.account.accountants.exact import separation_for
from sordino.compare.contest import Contender, contenders, trials
from sordino.compare.following import facts, followed
from sordino.compare.tuning import tuned
from sordino.recipe import Recipe
from sordino.tune.grid import SettingsGrid
from sordino.tune.search import Score

FEATURES = ("data.features=scattering", "partition.clients=300")
PEOPLE, RECORDS = 300, 1437


def field(wanted: list[str], *settings: str, epsilons: tuple[float, ...] = (1.0,), **own: list[str]) -> list[Contender]:
    common, told = facts(Recipe.load(None, [*FEATURES, *settings]))
    made = contenders(wanted, common, own, follow=told is not None)
    return followed(made, told, epsilons) if told else made


def path(units: float, epsilon: float = 1.0) -> object:
    return pytest.approx(10 * (separation_for(epsilon, 1e-5) * units) ** 0.75, rel=0.01)


def test_the_path_is_that_of_the_class_whatever_the_mechanism_does_with_noise() -> None:
    wanted = ["dp_sgd", "distributed_gaussian-record", "distributed_gaussian", "dropout_robust", "geometric", "fed_ldp"]
    at = {one.label: one.at(1.0) for one in field(wanted)}
    for label, units in zip(wanted, (RECORDS, RECORDS, PEOPLE, PEOPLE, PEOPLE**0.5, PEOPLE**0.5), strict=True):
        assert at[label].server.path == path(units), label
        assert (at[label].mechanism.clip_norm, at[label].server.learning_rate) == (0.1, None)
        assert at[label].data.feature_scales == 1 and not at[label].model.bias, "the same rows and model for all"
        assert at[label].opening.channel_moment == 0, "not everybody can open with a release"
    assert at["dp_sgd"].run.rounds == at["distributed_gaussian-record"].run.rounds


def test_a_path_grows_with_the_budget_and_each_trial_has_its_own(tmp_path: Path) -> None:
    played = trials(field(["dp_sgd"], epsilons=(0.5, 3.0)), [0.5, 3.0], [0], tmp_path)
    assert [one.recipe.server.path for one in played] == [path(RECORDS, 0.5), path(RECORDS, 3.0)]


def test_noisy_steps_of_a_clients_own_are_as_long_as_their_mechanism_has_them() -> None:
    (alone,) = field(["local_dp_sgd"])
    assert alone.at(1.0).server.path is None and alone.at(1.0).server.learning_rate is None


def test_what_is_set_stays_for_all_or_for_one() -> None:
    a, b = field(["dp_sgd", "distributed_gaussian-record"], "run.rounds=7", dp_sgd=["mechanism.clip_norm=0.4"])
    assert (a.at(1).run.rounds, b.at(1).run.rounds) == (7, 7)
    assert (a.at(1).mechanism.clip_norm, b.at(1).mechanism.clip_norm) == (0.4, 0.1)
    (own,) = field(["dp_sgd"], dp_sgd=["server.learning_rate=3"])
    assert (own.at(1).server.learning_rate, own.at(1).server.path) == (3.0, None)
    (own,) = field(["dp_sgd"], dp_sgd=["server.path=300"])
    assert (own.at(1).server.learning_rate, own.at(1).server.path) == (None, 300)
    (chosen,) = field(["dp_sgd"], "server.learning_rate=3")
    assert (chosen.at(1).server.learning_rate, chosen.at(1).server.path, chosen.at(1).model.bias) == (3.0, None, True)
    assert not field(["fedavg"])[0].at(1).server.model_fields_set & {"path"}, "the plain mean is nobody's rival"


def test_a_recipe_file_keeps_the_step_that_it_names(tmp_path: Path) -> None:
    named, bare = tmp_path / "named.toml", tmp_path / "bare.toml"
    named.write_text('[mechanism]\nname = "dp_sgd"\n[server]\npath = 77\n')
    bare.write_text('[mechanism]\nname = "dp_sgd"\nclip_norm = 0.3\n')
    kept, open_ = (one.at(1) for one in field([str(named), str(bare)]))
    assert kept.server.path == 77
    assert open_.server.path == path(RECORDS) and open_.mechanism.clip_norm == 0.3


def test_everybody_is_tuned_around_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sordino.compare.tuning.play_all", lambda trials, jobs, watcher: {})
    monkeypatch.setattr(
        "sordino.compare.tuning.scored", lambda group, failed: [Score(x.settings, (0.0,)) for x in group]
    )
    common, told = facts(Recipe.load(None, FEATURES))
    assert told is not None
    wanted = ["distributed_gaussian", "dropout_robust", "dropout_robust-unthinned", "geometric-distributed", "fed_ldp"]
    made = followed(contenders(wanted, common, {}, follow=True), told, [1.0])
    found = tuned(made, common, [1.0], None, "synthetic", tmp_path, 1, lambda done, total: None)
    grids = {who: [row.settings for row in rows] for (who, _), rows in found.scores.items()}
    shared = made[0].at(1).server.path
    assert shared is not None and {f"server.path={shared * by:g}" for by in (0.5, 1, 2)} == {
        line for point in grids["distributed_gaussian"] for line in point if line.startswith("server.")
    }
    assert len({tuple(grids[who]) for who in wanted[:4]}) == 1, "the same grid for all in a class"
    assert grids["fed_ldp"] != grids["dropout_robust"] and len(grids["fed_ldp"]) == 9


def test_a_common_recipe_with_a_path_is_searched_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was refused: the grid set a learning rate beside the path."""
    monkeypatch.setattr("sordino.compare.tuning.play_all", lambda trials, jobs, watcher: {})
    monkeypatch.setattr(
        "sordino.compare.tuning.scored", lambda group, failed: [Score(x.settings, (0.0,)) for x in group]
    )
    common = Recipe.load(None, ["server.path=400", "mechanism.clip_norm=0.2", "partition.clients=30"])
    made = contenders(["dropout_robust", "distributed_gaussian"], common, {})
    found = tuned(made, common, [1.0], None, "synthetic", tmp_path, 1, lambda done, total: None)
    mine, other = ([row.settings for row in rows] for rows in found.scores.values())
    assert mine == other and ("mechanism.clip_norm=0.2", "server.path=800") in mine


def test_whoever_has_a_step_of_its_own_is_searched_without_one() -> None:
    grid = SettingsGrid.parse(["mechanism.clip_norm=0.1,0.2", "server.path=200,400"])
    assert grid.without({"server.learning_rate"}).points() == [
        ("mechanism.clip_norm=0.1",),
        ("mechanism.clip_norm=0.2",),
    ]
