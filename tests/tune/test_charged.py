"""A search on private data is paid for before it begins, and never silently."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sordino.account.accountants.accountant import epsilon
from sordino.account.ledger.ledger import Ledger
from sordino.cli.tune import tune
from sordino.errors import BudgetExceeded, RecipeError
from sordino.events import BestOfMany, SelfComposedDpEvent
from sordino.recipe import Recipe
from sordino.tune.charged import charged
from sordino.tune.grid import SettingsGrid

SMALL = ("partition.clients=24", "run.rounds=2", "budget.epsilon=4", "data.public_fraction=0.2", "train.steps=1")
CENTRAL = (*SMALL, "mechanism.name=dp_fedavg")
GRID = SettingsGrid.parse(["mechanism.clip_norm=0.01,0.5", "server.learning_rate=2"])


def quiet(done: int, total: int) -> None:
    """Tells nobody."""


def test_the_best_of_many_is_in_the_ledger_and_on_the_certificate(tmp_path: Path) -> None:
    found = charged(Recipe.load(None, CENTRAL), GRID, 4, tmp_path / "t", quiet)
    entry = next(e for e in found.certificate.entries if e.observer == "outsider")
    assert 3.99 < entry.epsilon <= 4.0
    with Ledger.open(tmp_path / "t" / "private" / "ledger.db") as ledger:
        (release,) = ledger.entries
        events = {c.guarantee.observer: c.event for c in release.charges}
    assert isinstance(events["outsider"], BestOfMany) and events["outsider"].shape == 0
    assert epsilon(events["outsider"], 1e-5) == pytest.approx(entry.epsilon)
    assert epsilon(events["outsider"].event, 1e-5) < 0.8 * entry.epsilon, "a trial alone costs less than the search"
    assert "best of a random number of trials" in found.document.to_json()
    assert found.best == max(found.attempts, key=lambda one: one.score) and found.best.settings in GRID.points()


def test_what_is_published_tells_neither_other_trials_nor_their_number(tmp_path: Path) -> None:
    found = charged(Recipe.load(None, [*CENTRAL, "run.seed=3"]), GRID, 6, tmp_path / "t", quiet)
    public = {path.name for path in (tmp_path / "t" / "public").rglob("*")}
    assert public == {"model.safetensors", "certificate.json", "recipe.toml", "chosen.toml", "heads.jsonl"}
    chosen = Recipe.load(tmp_path / "t" / "public" / "chosen.toml")
    assert f"mechanism.clip_norm={chosen.mechanism.clip_norm:g}" == found.best.settings[0]
    assert chosen.mechanism.noise_multiplier == found.recipe.mechanism.noise_multiplier
    # whoever has the seed knows how many trials there were, and can repeat their noise
    assert "seed = 3" not in (tmp_path / "t" / "public" / "chosen.toml").read_text()
    assert Recipe.load(tmp_path / "t" / "private" / "chosen.toml") == found.recipe


def test_where_the_server_sees_all_trials_all_are_charged(tmp_path: Path) -> None:
    recipe = Recipe.load(None, [*SMALL, "mechanism.name=fed_ldp"])
    found = charged(recipe, GRID, 3, tmp_path / "t", quiet)
    assert len(found.attempts) == 3
    with Ledger.open(tmp_path / "t" / "private" / "ledger.db") as ledger:
        events = [c.event for c in ledger.entries[0].charges]
    assert all(isinstance(event, SelfComposedDpEvent) and event.count == 3 for event in events)
    assert all(entry.epsilon <= 4.0 for entry in found.certificate.entries)
    assert "each of which the server saw" in found.document.to_json()


def test_earlier_runs_on_the_ledger_count(tmp_path: Path) -> None:
    recipe = Recipe.load(None, [*CENTRAL, f"ledger.path='{tmp_path / 'shared.db'}'"])
    charged(recipe, GRID, 2, tmp_path / "first", quiet)
    with pytest.raises(BudgetExceeded):
        charged(recipe, GRID, 2, tmp_path / "second", quiet)
    assert not (tmp_path / "second" / "private" / "trials").exists(), "nothing was trained"


@pytest.mark.parametrize(
    ("settings", "grid", "sentence"),
    [
        (("mechanism.name=a_dpfl",), GRID, "on stand-in data"),
        (("mechanism.name=dp_fedavg", "opening.feature_mean=0.3"), GRID, "opens with a release"),
        (("mechanism.name=dp_fedavg", "data.public_fraction=0", "public.test=false"), GRID, "judged on public records"),
        (
            ("mechanism.name=dp_sgd",),
            SettingsGrid.parse(["mechanism.sampling_rate=0.5,1"]),
            "changes what a trial costs",
        ),
    ],
)
def test_what_cannot_be_charged_is_refused(settings, grid, sentence, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=sentence):
        charged(Recipe.load(None, [*SMALL, *settings]), grid, 2, tmp_path / "t", quiet)
    assert not (tmp_path / "t").exists()


def test_the_command_chooses_on_stand_in_data_for_nothing(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(tune)
    arguments = ["--set", "run.rounds=2", "--set", "partition.clients=30", "--set", "budget.epsilon=20"]
    arguments += ["--set", "aggregate.kind=plain", "--grid", "mechanism.clip_norm=0.0001,0.5", "--seeds", "1"]
    arguments += ["--jobs", "1", "--out", str(tmp_path / "t")]
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    told = json.loads(result.stdout)
    assert told["chosen"] == ["mechanism.clip_norm=0.5"] and told["cost"].startswith("nothing")
    assert [row["settings"] for row in told["table"]] == [["mechanism.clip_norm=0.5"], ["mechanism.clip_norm=0.0001"]]
    chosen = Recipe.load(told["recipe"])
    assert chosen.mechanism.clip_norm == 0.5 and chosen.data.name == "digits"
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "cost: nothing" in shown.output and "mechanism.clip_norm=0.5" in shown.output
