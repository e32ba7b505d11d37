"""A mechanism picked from public facts alone, and three sentences."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from played import cast, play
from sordino.adapt.contraction import Contraction
from sordino.cli.plan import plan
from sordino.mechanisms.choice import Known, choose
from sordino.recipe import Recipe
from sordino.runs.setup import assemble, load

FACTS = Known("client", "distributed", 1000, 40, 7850, 4.0, 1e-5)


@pytest.mark.parametrize(
    ("unit", "trust", "name"),
    [
        ("client", "distributed", "dropout_robust"),
        ("client", "central", "dp_fedavg"),
        ("client", "local", "fed_ldp"),
        ("record", "distributed", "dp_sgd"),
        ("record", "central", "dp_sgd"),
        ("record", "local", "local_dp_sgd"),
    ],
)
def test_where_everybody_takes_part_and_nothing_is_forgotten_noise_is_plain(unit, trust, name) -> None:
    found = choose(replace(FACTS, unit=unit, trust=trust))
    assert found.mechanism == name and found.sampling_rate is None
    assert len(found.why) == 3 and all(one.endswith(".") and one.count(". ") == 0 for one in found.why)
    mechanism = cast("mechanism.name=auto", f"mechanism.unit={unit}", f"mechanism.trust={trust}").mechanism
    assert (mechanism.name, mechanism.unit, mechanism.trust) == (name, unit, trust)


def test_a_recipe_that_forgets_gets_a_schedule() -> None:
    found = choose(replace(FACTS, contraction=Contraction(decay=0.1)))
    assert found.mechanism == "geometric" and found.settings["theta"] == pytest.approx(0.9, abs=1e-5)
    assert "θ = 0.9000" in found.why[1]
    assert choose(replace(FACTS, contraction=Contraction(decay=0.001))).mechanism == "dropout_robust"


def test_separated_clients_get_banded_noise_where_it_leaves_less_than_coins() -> None:
    central = replace(FACTS, trust="central", rounds_apart=10)
    found = {epsilon: choose(replace(central, epsilon=epsilon)) for epsilon in (1.0, 8.0)}
    assert found[1.0].mechanism == "dp_fedavg" and found[1.0].sampling_rate == 0.1
    assert found[8.0].mechanism == "banded" and found[8.0].settings == {"groups": 10}
    assert "1.21 times" in found[1.0].why[1] and "0.68 times" in found[8.0].why[1]
    mechanism = cast(
        "mechanism.name=auto", "mechanism.trust=central", "mechanism.rounds_apart=4", "budget.epsilon=20"
    ).mechanism
    assert mechanism.name in ("banded", "dp_fedavg") and mechanism.trust == "central"


def test_the_choice_does_not_look_at_data() -> None:
    recipe = Recipe.load(None, ["mechanism.name=auto", "partition.clients=30", "run.rounds=3"])
    federation = load(recipe)
    other = replace(federation, train_x=federation.train_x * 100, train_y=federation.train_y.flip(0))
    one, two = (assemble(recipe, federation=each).mechanism for each in (federation, other))
    assert one.name == two.name and repr(one.perturber) == repr(two.perturber)


def test_a_run_of_it_is_certified_like_the_one_it_chose(tmp_path) -> None:
    outcome = play(tmp_path / "run", "mechanism.name=auto", "run.rounds=2")
    assert outcome.document.statement.mechanism == "dropout_robust"
    assert all(entry.epsilon <= 8 for entry in outcome.certificate.entries)


def test_the_command_says_why() -> None:
    app = typer.Typer()
    app.command()(plan)
    facts = ["--choose", "--population", "1000", "--rounds", "40", "--epsilon", "8"]
    more = ["--trust", "central", "--rounds-apart", "10"]
    told = json.loads(CliRunner().invoke(app, [*facts, *more, "--json"], catch_exceptions=False).stdout)
    assert told["mechanism"] == "banded" and len(told["why"]) == 3
    assert "mechanism.groups = 10" in CliRunner().invoke(app, [*facts, *more], catch_exceptions=False).stdout
