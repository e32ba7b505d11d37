"""Attacks on runs and uploads: they find what is there, and not what is not."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from sordino.audit import cases, games
from sordino.audit.canaries import client_canaries, record_canaries
from sordino.audit.endtoend import Effort, RunAudit, _fitting, audit_run
from sordino.audit.inversion import invert, picture, summary
from sordino.audit.membership import infer
from sordino.audit.network import Network
from sordino.audit.people import only, with_canary_clients, with_records
from sordino.audit.picture import psnr, ssim
from sordino.audit.replay import replay
from sordino.cli.app import app, register
from sordino.errors import RecipeError, SordinoError
from sordino.mechanisms.spec import AuditCase
from sordino.recipe import Recipe
from sordino.runs.folder import RunFolder
from sordino.runs.run import run
from sordino.runs.setup import load

LOUD = ("mechanism.name=fedavg", "server.learning_rate=1", "run.rounds=6")
QUIET = ("run.rounds=6",)


def test_a_replay_is_the_run() -> None:
    recipe = Recipe.load(None, ["run.rounds=3", "mechanism.name=fed_ldp"])
    federation = load(recipe)
    played = replay(recipe, federation, recipe.run.seed)
    assert torch.equal(played.weights[0], Network.of(recipe, federation).start)
    assert len(played.moves) == 3


def test_a_replay_ends_with_the_models_of_its_run(tmp_path: Path) -> None:
    recipe = Recipe.load(None, ["run.rounds=3", "run.seed=4"])
    weights = run(recipe, out=tmp_path / "run").weights
    stream = RunFolder(tmp_path / "run").facts()["stream"]
    assert torch.equal(weights, replay(recipe, load(recipe), stream).last)
    assert not torch.equal(weights, replay(recipe, load(recipe), f"{stream}!").last)


def test_canary_clients_come_last_and_hold_one_record() -> None:
    federation = load(Recipe.load(None, ["partition.clients=5"]))
    x, y = federation.train_x[:3] + 1, federation.train_y[:3]
    more = with_canary_clients(federation, x, y)
    assert more.population == 8
    assert more.sizes(np.array([6, 0])).tolist() == [1, int(federation.sizes()[0])]
    seen = more.gather(np.array([0, 6, 7]))
    assert torch.equal(seen.x[-2:], x[1:])
    assert torch.equal(seen.x[:-2], federation.gather(np.array([0])).x)
    alike = with_canary_clients(federation, x, y, alike=True)
    assert alike.sizes().min() == federation.sizes().min() == alike.sizes()[-1]
    assert (alike.gather(np.array([7])).x == x[2]).all()


def test_added_and_left_out_records() -> None:
    federation = load(Recipe.load(None, ["partition.clients=5"]))
    more = with_records(federation, federation.train_x[:4] + 1, federation.train_y[:4], seed=0)
    assert more.sizes().sum() == federation.sizes().sum() + 4
    kept = np.arange(len(federation.train_y)) % 3 == 0
    fewer = only(federation, kept)
    held = fewer.partition.indices(np.arange(fewer.population))[1]
    assert sorted(held.tolist()) == np.flatnonzero(kept).tolist()


def test_canary_clients_are_heard_without_noise_and_not_with_it() -> None:
    loud, quiet = Recipe.load(None, list(LOUD)), Recipe.load(None, list(QUIET))
    federation = load(loud)
    heard, hidden = (client_canaries(r, federation, 60, 6, 1).found["all_models"] for r in (loud, quiet))
    assert heard["lower_bound"] > 1.2
    assert heard["bound_if_independent"] > 3
    assert hidden["lower_bound"] < 0.5
    assert abs(hidden["mean"]) < heard["mean"] / 5


@pytest.mark.parametrize("name", ["dp_sgd", "dp_fedavg", "fed_ldp"])
def test_canary_clients_sing_within_every_bound(name: str) -> None:
    recipe = Recipe.load(None, [f"mechanism.name={name}", "run.rounds=2", "budget.epsilon=1"])
    found = client_canaries(recipe, load(recipe), 30, 2, 0, alone=name != "dp_sgd")
    assert found.found["final_model"]["lower_bound"] < 1.0
    bound = "outsider" if name == "dp_fedavg" else "server"  # the one whom the budget binds
    promised = {entry.observer: entry.epsilon for entry in found.certificate.entries}
    assert promised[bound] == pytest.approx(1.0, abs=0.02)
    assert promised["outsider"] <= promised[bound]


def test_mechanisms_that_train_with_noise_have_no_canary_clients() -> None:
    recipe = Recipe.load(None, ["mechanism.name=a_dpfl", "partition.clients=20", "run.rounds=1"])
    with pytest.raises(RecipeError, match="canary records"):
        client_canaries(recipe, load(recipe), 10, 1, 0)


def test_canary_records_stay_below_the_certificate() -> None:
    recipe = Recipe.load(None, list(QUIET))
    found = record_canaries(recipe, load(recipe), 300, 6, 1, alone=True).found
    assert all(part["lower_bound"] < 1.0 for part in found.values())
    assert all(part["canaries"] == 300 for part in found.values())


def test_membership_shows_where_a_model_learns_by_heart() -> None:
    """Labels at random can only be learned by heart: then shadow models tell who was there."""
    overfit = [*LOUD, "partition.clients=10", "train.steps=40", "model.name=mlp", "model.hidden=[64]"]
    recipe = Recipe.load(None, overfit)
    federation = only(load(recipe), np.arange(1437) < 120)
    labels = torch.from_numpy(np.random.default_rng(0).integers(10, size=1437))
    found = infer(recipe, replace(federation, train_y=labels), 8, 3, 120, 6, 0)
    private = infer(Recipe.load(None, list(QUIET)), load(Recipe.load(None)), 4, 2, 400, 6, 0)
    assert found.curve.area > 0.6
    assert private.curve.area < 0.56
    assert abs(float(private.success.mean()) - 0.5) < 0.06


def test_ssim_and_psnr_by_hand() -> None:
    rng = np.random.default_rng(0)
    image = rng.random((1, 12, 12))
    assert ssim(image, image) == pytest.approx(1)
    assert psnr(image, image) == math.inf
    assert psnr(np.zeros((1, 4, 4)), np.full((1, 4, 4), 0.1)) == pytest.approx(20)
    assert ssim(image, rng.random((1, 12, 12))) < 0.3
    # two constants: only the light term is left, (2ab + K)/(a² + b² + K)
    assert ssim(np.full((1, 9, 9), 0.5), np.full((1, 9, 9), 0.25)) == pytest.approx(0.2501 / 0.3126, rel=1e-6)


def test_inversion_sees_plain_uploads_and_not_private_ones(tmp_path: Path) -> None:
    recipe = Recipe.load(None, ["mechanism.name=fed_ldp"])
    found = invert(recipe, load(recipe), 2, seed=1)
    quality = summary(found)
    assert quality["idlg/without"]["psnr"] > 30
    assert quality["idlg/without"]["ssim"] > 0.95
    assert quality["idlg/with"]["psnr"] < 15
    path = picture(found, "fed_ldp", tmp_path / "grid.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_inversion_needs_pictures() -> None:
    recipe = Recipe.load(None)
    flat = load(recipe)
    table = replace(flat, train_x=flat.train_x.flatten(1), test_x=flat.test_x.flatten(1))
    with pytest.raises(RecipeError, match="images"):
        invert(recipe, table, 1, 0)


def test_a_run_is_audited_in_its_folder(tmp_path: Path) -> None:
    recipe = Recipe.load(None, ["run.rounds=3"])
    run(recipe, out=tmp_path / "run")
    found = audit_run(tmp_path / "run", Effort(3, 2, 200, 100, 30), seed=0)
    assert found.verdict == "consistent"
    assert found.certified == pytest.approx(1.0, abs=0.01)
    kept = json.loads((tmp_path / "run" / "private" / "audit" / "audit.json").read_text())
    assert kept["membership"]["shadow_models"] == 3
    assert (tmp_path / "run" / "private" / "audit" / "roc.svg").exists()


def invoke(*arguments: str) -> Result:
    if not app.registered_commands:
        register()
    return CliRunner().invoke(app, ["audit", *arguments])


def test_the_command_prints_one_object() -> None:
    answer = invoke("fed_ldp", "--trials", "20000", "--json")
    found = json.loads(answer.stdout)
    assert answer.exit_code == 0
    assert found["verdict"] == "consistent"
    assert {"lower_bound", "certified", "claimed", "verdict", "trials", "seconds"} <= set(found)


def test_all_cases_make_one_list_or_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    two = [cases.Case("fed_ldp", AuditCase()), cases.Case("fed_cad", AuditCase("faithful"))]
    game = games.AuditGame("empty-rounds", "?", lambda seed, told: two[0].audits(2000, seed))
    monkeypatch.setattr(cases, "cases", lambda: two)
    monkeypatch.setattr(games, "GAMES", {game.name: game})
    found = json.loads(invoke("--all", "--trials", "2000", "--jobs", "1", "--json").stdout)
    both = [("fed_ldp", "certified")] * 2  # against the server, and against an outsider
    assert [(one["mechanism"], one["mode"]) for one in found] == [*both, ("fed_cad", "faithful"), *both]
    assert [one["game"] for one in found] == ["", "", "", "empty-rounds", "empty-rounds"]
    told = invoke("--all", "--mode", "certified", "--trials", "2000", "--jobs", "1").stdout
    assert "fed_ldp" in told
    assert "fed_cad" not in told
    assert "empty-rounds" in told


def test_a_game_is_played_by_name_and_all_of_them_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = invoke("games").stdout
    assert all(name in told for name in games.GAMES)
    assert set(json.loads(invoke("games", "--json").stdout)) == set(games.GAMES)
    case = cases.Case("fed_ldp", AuditCase())
    quick = games.AuditGame("empty-rounds", "?", lambda seed, told: case.audits(2000, seed))
    monkeypatch.setattr(games, "GAMES", {quick.name: quick})
    found = json.loads(invoke("empty-rounds", "--json").stdout)
    assert (found["game"], found["verdict"], len(found["findings"])) == ("empty-rounds", "consistent", 2)


def _unfinished(folder: Path) -> str:
    (folder / "private").mkdir(parents=True)
    (folder / "private" / "run.json").write_text("{}")
    return str(folder)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "nothing to audit"),
        (["nobody"], "neither a run folder nor a mechanism"),
        (["RUN"], "no certificate yet"),
        (["RUN", "--set", "run.rounds=2"], "leave out --set"),
        (["fed_ldp", "--all"], "leave out the target"),
        (["nobody", "--attack", "inversion"], "mechanism"),
    ],
)
def test_what_cannot_be_audited_is_refused(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    run = _unfinished(tmp_path / "run")
    answer = invoke(*(run if argument == "RUN" else argument for argument in arguments))
    assert isinstance(answer.exception, SordinoError)
    assert sentence in str(answer.exception)
    assert "\n" not in str(answer.exception)


def _audited(found: float, certified: float | None, claimed: float | None) -> RunAudit:
    bounds = {"last_loss": {"lower_bound": found}}
    return RunAudit("run", "client", "zero_out", certified, claimed, (certified,), None, bounds, None, 0.0)


@pytest.mark.parametrize(
    ("found", "certified", "claimed", "verdict", "word"),
    [
        (1.0, 2.0, None, "consistent", "no more"),
        (3.0, 2.0, None, "violated", "certified"),
        (3.0, 200.0, 2.0, "violated", "claimed"),
        (3.0, None, 2.0, "violated", "nothing is certified"),
        (30.0, None, None, "consistent", "nothing was promised"),
    ],
)
def test_the_verdict_on_a_run(
    found: float, certified: float | None, claimed: float | None, verdict: str, word: str
) -> None:
    told = _audited(found, certified, claimed).to_json()
    assert told["verdict"] == verdict
    assert word in told["words"]


def test_the_promise_that_fits_canaries_is_the_one_about_absence(tmp_path: Path) -> None:
    made = run(Recipe.load(None, ["run.rounds=1"]), out=tmp_path / "run").certificate
    replaced = replace(made.entries[0], observer="outsider", adjacency="replace", epsilon=9.0)
    absent = replace(made.entries[0], observer="outsider", adjacency="zero_out", epsilon=5.0)
    assert _fitting(replace(made, entries=(replaced, absent))) == absent
    added = replace(absent, adjacency="add_remove", epsilon=1.0)
    assert _fitting(replace(made, entries=(absent, added))) == added
