"""A search on private data is paid for before it begins, and never silently."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from sordino.account.accountants.accountant import epsilon
from sordino.account.certificate import certificate
from sordino.account.ledger import entry, heads
from sordino.account.ledger.ledger import Ledger
from sordino.cli.tune import tune
from sordino.data.federation import Federation
from sordino.data.public import PublicCounts
from sordino.errors import BudgetExceeded, RecipeError
from sordino.events import BestOfMany, SelfComposedDpEvent
from sordino.recipe import Recipe
from sordino.tune.charged import charged
from sordino.tune.grid import SettingsGrid
from sordino.tune.stand_in import stand_in

SMALL = ("partition.clients=24", "run.rounds=2", "budget.epsilon=4", "data.public_fraction=0.2", "train.steps=1")
CENTRAL = (*SMALL, "mechanism.name=dp_fedavg")
GRID = SettingsGrid.parse(["mechanism.clip_norm=0.01,0.5", "server.learning_rate=2"])


def quiet(done: int, total: int) -> None:
    """Tells nobody."""


def test_the_best_of_many_is_in_the_ledger_and_on_the_certificate(tmp_path: Path) -> None:
    found = charged(Recipe.load(None, CENTRAL), GRID, 4, tmp_path / "t", quiet)
    one = next(e for e in found.certificate.entries if e.observer == "outsider")
    assert 3.99 < one.epsilon <= 4.0
    with Ledger.open(tmp_path / "t" / "private" / "ledger.db") as ledger:
        (release,) = ledger.entries
        events = {c.guarantee.observer: c.event for c in release.charges}
    assert isinstance(events["outsider"], BestOfMany) and events["outsider"].shape == 0
    assert epsilon(events["outsider"], 1e-5) == pytest.approx(one.epsilon)
    assert epsilon(events["outsider"].event, 1e-5) < 0.8 * one.epsilon, "a trial alone costs less than the search"
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


def test_what_is_published_does_not_tell_how_long_the_trials_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head of the settlement and the certificate had the time of the last trial's end, and the first head that of
    the first one's beginning: with the time of one trial, the number that the whole price rests on nobody knowing."""
    trials = 0

    def clock() -> str:
        return f"2026-01-01T00:{trials:02}:00+00:00"

    def watch(done: int, total: int) -> None:
        nonlocal trials
        trials = done

    for module in (heads, entry, certificate):
        monkeypatch.setattr(module, "now", clock)
    found = charged(Recipe.load(None, [*CENTRAL, "run.seed=3"]), GRID, 6, tmp_path / "t", watch)
    assert trials == len(found.attempts) > 1
    public = tmp_path / "t" / "public"
    told = set(re.findall(r"2026-01-01T00:\d\d:00", "".join(map(_text, public.iterdir()))))
    assert told == {"2026-01-01T00:00:00"}
    first = min(path.stat().st_mtime for path in (tmp_path / "t" / "private" / "trials").rglob("*"))
    assert {path.stat().st_mtime <= first for path in (public, *public.iterdir())} == {True}
    with Ledger.open(tmp_path / "t" / "private" / "ledger.db") as ledger:
        assert all(one.settled for one in ledger.entries)


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


def test_where_the_server_sees_all_trials_all_are_charged(tmp_path: Path) -> None:
    recipe = Recipe.load(None, [*SMALL, "mechanism.name=fed_ldp"])
    found = charged(recipe, GRID, 3, tmp_path / "t", quiet)
    assert len(found.attempts) == 3
    with Ledger.open(tmp_path / "t" / "private" / "ledger.db") as ledger:
        events = [c.event for c in ledger.entries[0].charges]
    assert all(isinstance(event, SelfComposedDpEvent) and event.count == 3 for event in events)
    assert all(entry.epsilon <= 4.0 for entry in found.certificate.entries)
    assert "each of which the server saw" in found.document.to_json()
    assert not found.best_alone


@pytest.mark.parametrize(
    ("trust", "says"), [("central", "only the best trial was paid"), ("distributed", "Every trial")]
)
def test_the_command_says_which_trials_were_paid_for(trust: str, says: str, tmp_path: Path) -> None:
    """It called the table private, and the other trials unpaid, where the server saw and everybody paid for all."""
    app = typer.Typer()
    app.command()(tune)
    settings = (*SMALL[:-1], "mechanism.name=dp_sgd", f"mechanism.trust={trust}")
    arguments = ["--charged", "--trials", "2", "--grid", "server.learning_rate=2,4", "--out", str(tmp_path / "t")]
    arguments += [word for setting in settings for word in ("--set", setting)]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False).output
    assert says in shown and shown.count("paid for.") == 1


def test_earlier_runs_on_the_ledger_count(tmp_path: Path) -> None:
    recipe = Recipe.load(None, [*CENTRAL, f"ledger.path='{tmp_path / 'shared.db'}'"])
    charged(recipe, GRID, 2, tmp_path / "first", quiet)
    with pytest.raises(BudgetExceeded):
        charged(recipe, GRID, 2, tmp_path / "second", quiet)
    assert not (tmp_path / "second" / "private" / "trials").exists(), "nothing was trained"


def test_two_searches_on_one_ledger_share_no_draw(tmp_path: Path) -> None:
    """Trials had ledgers of their own and seeds by their number: a second search drew all noise of the first again."""
    ledger = f"ledger.path='{tmp_path / 'shared.db'}'"
    recipe = Recipe.load(None, [*CENTRAL, "budget.epsilon=30", "mechanism.noise_multiplier=6", ledger])
    grid = SettingsGrid.parse(["server.learning_rate=2"])
    first, second = (charged(recipe, grid, 3, tmp_path / name, quiet) for name in ("first", "second"))
    assert first.best.settings == second.best.settings
    seeds = [
        {Recipe.load(one / "private" / "recipe.toml").run.seed for one in sorted(folder.glob("private/trials/*"))}
        for folder in (tmp_path / "first", tmp_path / "second")
    ]
    assert not seeds[0] & seeds[1]
    models = [(tmp_path / name / "public" / "model.safetensors").read_bytes() for name in ("first", "second")]
    assert models[0] != models[1]


def test_a_search_with_a_ledger_of_its_own_repeats_to_the_bit(tmp_path: Path) -> None:
    found = [charged(Recipe.load(None, CENTRAL), GRID, 3, tmp_path / name, quiet) for name in ("a", "b")]
    assert found[0].attempts == found[1].attempts
    a, b = ((tmp_path / name / "public" / "model.safetensors").read_bytes() for name in ("a", "b"))
    assert a == b


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
    assert Path(told["recipe"]).stat().st_mode & 0o077 == 0, "the whole recipe: its seed, clients and files"


def test_data_that_stand_in_follow_from_the_declaration_alone(tmp_path: Path) -> None:
    """Where records have owners, as many were dealt to as there really are: settings that fit 20 tell them from 19."""
    rng = np.random.default_rng(0)
    x, y, declared = rng.standard_normal((400, 4)), rng.integers(0, 2, 400), PublicCounts(24, 400, 2)
    recipe = Recipe.load(None, ["partition.kind=by_key", "budget.clients={ anna = 1.0 }"])
    made = []
    for clients in (20, 19):
        owners = [f"client {place % clients}" for place in range(400)]
        federation = Federation.of(x, y, owners, test=None, classes=2, public=declared)
        made.append(stand_in(recipe, federation, "synthetic", tmp_path).to_toml())
    assert made[0] == made[1] and "clients = 24" in made[0] and "anna" not in made[0]
