"""Advice: its noise is that of a run with the settings it recommends, and what it says would help does."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

import sordino
from sordino.advise.advice import CLIP_NORM, FEWEST_ROUNDS, MOST_ROUNDS, Situation, advise
from sordino.cli.advise import advise as command
from sordino.errors import AccountingError
from sordino.recipe import Recipe
from sordino.runs.setup import assemble

HOSPITALS = Situation(clients=4, records=740, parameters=28, epsilon=2.0, unit="client")
DIGITS = Situation(clients=24, records=1437, parameters=650, epsilon=8.0)
CLASSES = [(unit, trust) for unit in ("client", "record") for trust in ("central", "distributed", "local")]


@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
@pytest.mark.parametrize(("unit", "trust"), CLASSES)
def test_advice_knows_the_noise_of_the_run_that_it_recommends(unit, trust, tmp_path) -> None:
    found = advise(replace(DIGITS, unit=unit, trust=trust))
    settings = [f"{name}={value}" for name, value in found.settings.items()]
    steps = [] if found.mechanism == "dp_sgd" else ["train.steps=1"]
    recipe = Recipe.load(None, ["partition.clients=24", *steps, *settings, "run.evaluate_every=200"])
    context = assemble(recipe)
    assert (context.mechanism.name, context.mechanism.unit, context.mechanism.trust) == (found.mechanism, unit, trust)
    assert context.mechanism.adapter.start().noise_multiplier == pytest.approx(found.noise_multiplier, rel=0.03)
    assert context.step.learning_rate == found.server_learning_rate
    # the first round's noise: it is calibrated for all of them, so the rest need not be played
    first = recipe.but(
        run={**recipe.run.model_dump(), "rounds": 1},
        mechanism={**recipe.mechanism.model_dump(), "noise_multiplier": found.noise_multiplier},
    )
    outcome = sordino.run(first, out=tmp_path / "run")
    played = json.loads((outcome.folder / "private" / "metrics.jsonl").read_text().splitlines()[0])["noise_stddev"]
    scale = recipe.train.learning_rate if (unit, trust) == ("record", "local") else 1.0
    assert played == pytest.approx(found.stddev * scale, rel=0.03)


@pytest.mark.parametrize("name", ["dp_sgd", "dropout_robust", "dp_fedavg", "fed_ldp"])
def test_the_step_that_is_recommended_is_the_mechanisms_own(name) -> None:
    recipe = Recipe.from_dict({"mechanism": {"name": name}, "run": {"rounds": 1}, "partition": {"clients": 24}})
    mechanism = assemble(recipe).mechanism
    found = advise(replace(DIGITS, unit=mechanism.unit, trust=mechanism.trust))
    assert (found.mechanism, found.server_learning_rate) == (name, mechanism.server_learning_rate)


def test_four_hospitals_as_units_cannot_work_and_it_is_said_plainly() -> None:
    found = advise(HOSPITALS)
    assert not found.works
    assert found.rounds == FEWEST_ROUNDS
    assert found.why[0].startswith("4 clients as units at ε = 2: this cannot work, as the noise of a round is ")
    times = float(re.search(r"is ([\d.]+) ×", found.why[0])[1])
    assert times == pytest.approx(1 / found.signal_to_noise, rel=0.01)
    assert any("Protect records" in sentence for sentence in found.why)
    assert any("there are only 4" in sentence for sentence in found.why)


def number(found, pattern: str) -> float:
    return next(float(m[1].replace(",", "")) for s in found.why if (m := re.search(pattern, s)))


@pytest.mark.parametrize("trust", ["central", "distributed", "local"])
def test_each_remedy_is_just_enough(trust) -> None:
    known = Situation(clients=50, records=5000, parameters=20_000, epsilon=1.0, unit="client", trust=trust)
    found = advise(known)
    assert not found.works
    epsilon = number(found, r"Raise ε to ([\d.]+[\d])\.")
    clients = int(number(found, r"as many records each: ([\d,]+)\."))
    assert advise(replace(known, epsilon=epsilon)).works
    assert not advise(replace(known, epsilon=0.97 * epsilon)).works
    assert advise(replace(known, clients=clients, records=100 * clients)).works
    fewer = int(0.97 * clients)
    assert not advise(replace(known, clients=fewer, records=100 * fewer)).works


def test_a_unit_that_is_left_open_is_the_client_where_that_works() -> None:
    assert advise(replace(HOSPITALS, unit=None)).unit == "record"
    many = advise(Situation(clients=10_000, records=50_000, parameters=650, epsilon=2.0))
    assert (many.unit, many.works, many.rounds) == ("client", True, MOST_ROUNDS)


def test_rounds_are_as_many_as_stay_audible() -> None:
    found = advise(Situation(clients=300, records=3000, parameters=650, epsilon=2.0, unit="client"))
    assert found.works and FEWEST_ROUNDS < found.rounds < MOST_ROUNDS
    assert 1 <= found.signal_to_noise < 1.1
    assert found.clip_norm == CLIP_NORM


def test_nobody_is_told_to_train_a_model_that_is_smaller_than_its_features() -> None:
    """Ten features and two classes were to be learned with one parameter."""
    few = Situation(clients=4, records=450, parameters=22, epsilon=2.0, delta=1e-4, unit="client")
    assert any("Train a smaller model: 1 parameters" in sentence for sentence in advise(few).why)
    assert not any("smaller model" in sentence for sentence in advise(replace(few, smallest=20)).why)


def test_sentences_leave_the_names_of_settings_and_single_clients_as_they_are() -> None:
    told = " ".join(advise(Situation(clients=1, records=3, parameters=22, epsilon=20.0, delta=0.5, unit="record")).why)
    assert "1 client, records as units" in told and "1 clients" not in told
    assert "budget.delta = 0.5 is not" in told and "budget.epsilon = 20 promises" in told and "Budget." not in told


def test_impossible_situations_are_refused() -> None:
    with pytest.raises(AccountingError, match="4 clients with 3 records"):
        replace(HOSPITALS, records=3)


def asked(*words: str):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(words))


def test_the_command_says_it_in_words_and_as_json() -> None:
    words = ("--clients", "4", "--records", "740", "--features", "13", "--epsilon", "2", "--unit", "client")
    told = asked(*words)
    assert told.exit_code == 0 and "this cannot work" in told.stdout and "--set run.rounds=5" in told.stdout
    record = json.loads(asked(*words, "--json").stdout)
    assert record["known"]["parameters"] == 28
    assert record["works"] is False and record["settings"]["run.rounds"] == 5


def test_what_is_missing_is_named() -> None:
    told = asked("--clients", "4")
    assert isinstance(told.exception, AccountingError)
    assert "--records and --epsilon and --features must be given" in str(told.exception)


def test_a_recipe_with_features_is_advised_what_it_gets(tmp_path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[mechanism]\nname = "dp_sgd"\n[data]\nfeatures = "scattering"\n')
    found = json.loads(asked(str(path), "--json").stdout)
    context = assemble(Recipe.load(path))
    assert found["settings"].items() >= context.settled.values.items() and found["settings"]["server.path"] == 869
    assert "server.learning_rate" not in found["settings"]
    assert found["server_learning_rate"] == pytest.approx(context.step.learning_rate)
    assert found["noise_multiplier"] == pytest.approx(context.mechanism.adapter.start().noise_multiplier, rel=0.03)
    settings = [f"{name}={str(value).lower()}" for name, value in found["settings"].items()]
    assert assemble(Recipe.load(path, settings)).recipe == context.recipe, "the command that it shows is that run"


def test_a_recipe_speaks_for_itself(tmp_path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(Recipe.load(None, ["mechanism.name=dp_sgd"]).to_toml())
    record = json.loads(asked(str(path), "--json").stdout)
    assert record["known"] == {
        "clients": 1437, "records": 1437, "parameters": 650, "epsilon": 1.0, "delta": 1e-5, "trust": "distributed",
        "unit": "record", "dropout": 0.0, "regression": 0, "smallest": 640,
        "by_features": {},
    }  # fmt: skip
    assert record["works"] is True
