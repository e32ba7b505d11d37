"""Runs: repeatable to the bit, resumable to the bit, stopped by the budget, honest in what they write."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import sordino
from sordino.account.certificate.certificate import Certificate
from sordino.account.ledger.ledger import Ledger
from sordino.errors import BudgetExceeded, RecipeError
from sordino.mechanisms.fed_ldp import FedLdp
from sordino.sections.budget import BudgetSection
from sordino.sections.rounds import RunSection
from sordino.sections.training import ModelSection

SMALL = {
    "mechanism": {"name": "dp_sgd"},
    "run": {"rounds": 4},
    "budget": {"epsilon": 2.0},
    "server": {"learning_rate": 8},
}


def small(**sections):
    return sordino.Recipe.from_dict({**SMALL, **sections})


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    return sordino.run(small(), out=tmp_path_factory.mktemp("run") / "a")


def test_the_folder_holds_what_it_should(outcome):
    names = {path.name for path in outcome.folder.rglob("*")}
    assert {"recipe.toml", "metrics.jsonl", "model.safetensors", "certificate.json", "ledger.db"} <= names
    model = load_file(outcome.folder / "public" / "model.safetensors")
    assert torch.equal(torch.cat([model["1.weight"].flatten(), model["1.bias"]]), outcome.weights)
    assert Certificate.from_json((outcome.folder / "private" / "certificate.json").read_text()) == outcome.certificate


def test_metrics_tell_each_round(outcome):
    lines = [json.loads(line) for line in (outcome.folder / "private" / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        assert {
            "loss",
            "accuracy",
            "epsilon",
            "cohort",
            "survivors",
            "noise_stddev",
            "clip_fraction",
            "seconds",
        } <= set(line)
        assert line["cohort"] == line["survivors"] == 1437
    spent = [line["epsilon"]["record/server"] for line in lines]
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(2.0, abs=1e-3)
    assert lines[-1]["accuracy"] == outcome.accuracy


def test_the_ledger_is_the_plan(outcome):
    with Ledger.open(outcome.folder / "private" / "ledger.db", write=False) as ledger:
        ledger.verify()
        assert [entry.round_ for entry in ledger.entries] == [1, 2, 3, 4]
        assert all(entry.settled for entry in ledger.entries)
        assert (ledger.participations == 4).all()
    entry = outcome.certificate.entry("record", "server")
    assert entry.epsilon <= 2.0
    assert entry.epsilon == pytest.approx(2.0, abs=1e-4)
    assert entry.status == "certified"


def test_same_seed_same_bits_and_another_seed_another_model(outcome, tmp_path):
    again = sordino.run(small(), out=tmp_path / "again")
    other = sordino.run(small(run={"rounds": 4, "seed": 1}), out=tmp_path / "other")
    assert torch.equal(outcome.weights, again.weights)
    assert not torch.equal(outcome.weights, other.weights)


def test_a_finished_run_resumes_to_itself(outcome):
    again = sordino.run(small(), out=outcome.folder, resume=True)
    assert torch.equal(again.weights, outcome.weights)
    assert again.certificate.entry("record", "server").epsilon == outcome.certificate.entry("record", "server").epsilon


def test_a_folder_is_not_overwritten_and_a_run_not_changed_midway(outcome):
    with pytest.raises(RecipeError, match="already holds a run"):
        sordino.run(small(), out=outcome.folder)
    with pytest.raises(RecipeError, match="another recipe"):
        sordino.run(small(run={"rounds": 9}), out=outcome.folder, resume=True)


@pytest.mark.parametrize("there", [False, True])
def test_a_run_that_never_began_is_not_resumed_and_nothing_is_written(there, tmp_path):
    folder = tmp_path / "never"
    if there:
        folder.mkdir()
    with pytest.raises(RecipeError, match=r"never holds no run that began: leave out --resume"):
        sordino.run(small(), out=folder, resume=True)
    assert list(tmp_path.rglob("*")) == ([folder] if there else [])


def test_the_budget_stops_the_run_before_the_release_and_keeps_the_model(tmp_path):
    recipe = small(mechanism={"name": "dp_sgd", "noise_multiplier": 5.0}, run={"rounds": 50})
    stopped = sordino.run(recipe, out=tmp_path / "run")
    assert stopped.stopped == "budget"
    assert 0 < stopped.rounds < 50
    epsilon = stopped.certificate.entry("record", "server").epsilon
    assert epsilon <= 2.0
    # one more round would not have fitted
    more = sordino.run(
        small(mechanism={"name": "dp_sgd", "noise_multiplier": 5.0}, budget={"epsilon": 99.0},
              run={"rounds": stopped.rounds + 1}), out=tmp_path / "more"
    )  # fmt: skip
    assert more.certificate.entry("record", "server").epsilon > 2.0
    assert "budget.epsilon" in stopped.why
    assert (tmp_path / "run" / "public" / "model.safetensors").exists()


def test_the_target_stops_the_run(tmp_path):
    reached = sordino.run(small(run={"rounds": 4, "target": 0.11}), out=tmp_path / "run")
    assert reached.stopped == "target"
    assert reached.rounds < 4


def test_a_ledger_remembers_between_runs(tmp_path):
    shared = {"path": str(tmp_path / "shared.db"), "federation": "people"}
    recipe = small(mechanism={"name": "dp_sgd", "noise_multiplier": 10.0}, ledger=shared)
    first = sordino.run(recipe, out=tmp_path / "first")
    second = sordino.run(recipe, out=tmp_path / "second")
    ends = [o.certificate.entry("record", "server").epsilon for o in (first, second)]
    assert ends[1] > ends[0]
    dear = small(mechanism={"name": "dp_sgd", "noise_multiplier": 10.0}, ledger=shared, budget={"epsilon": ends[1]})
    with pytest.raises(BudgetExceeded, match=r"budget\.epsilon"):
        sordino.run(dear, out=tmp_path / "third")
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize("name", ["dp_sgd", "dp_fedavg", "fed_ldp", "distributed_gaussian"])
def test_noise_is_calibrated_by_the_accountant_that_charges(name, tmp_path):
    """By the tighter one it had less noise than Rényi sums pay for, and the run ended early or never began."""
    asked = {"epsilon": 4.0, "accountant": "rdp"}
    played = sordino.run(small(mechanism={"name": name}, budget=asked, run={"rounds": 3}), out=tmp_path / "run")
    assert (played.stopped, played.rounds) == ("rounds", 3)
    assert max(entry.epsilon for entry in played.certificate.entries if entry.status == "certified") <= 4.0


@pytest.mark.parametrize("name", ["fedavg", "fed_ldp", "laplace", "dp_fedavg", "dp_fedavg_adaptive", "dp_sgd"])
def test_every_baseline_runs_on_the_default_with_dropouts_and_late_joiners(name, tmp_path):
    recipe = small(
        mechanism={"name": name},
        select={"kind": "poisson", "rate": 0.3},
        dropout={"rate": 0.2, "stages": ["train", "upload", "unmask"], "late": 0.2, "late_round": 2},
        run={"rounds": 2},
    )
    done = sordino.run(recipe, out=tmp_path / "run")
    assert np.isfinite(done.loss)
    for entry in done.certificate.entries:
        assert entry.epsilon is None or entry.epsilon <= 2.0
    outsider = next(entry for entry in done.certificate.entries if entry.observer == "outsider")
    assert (outsider.epsilon is None) == (name == "fedavg")


def test_aborted_rounds_are_told_and_paid_for_and_the_next_one_works(tmp_path):
    recipe = small(dropout={"schedule": [0.0, 0.5, 0.0]}, aggregate={"tolerance": 0.1}, run={"rounds": 3})
    sordino.run(recipe, out=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "private" / "metrics.jsonl").read_text().splitlines()]
    assert ["aborted" in line for line in lines] == [False, True, False]
    with Ledger.open(tmp_path / "run" / "private" / "ledger.db", write=False) as ledger:
        assert [entry.settled for entry in ledger.entries] == [True, False, True]
    assert lines[2]["loss"] != lines[1]["loss"] == lines[0]["loss"]


def test_clients_may_ask_for_less_and_are_left_out_when_it_is_spent(tmp_path):
    recipe = small(
        mechanism={"name": "dp_sgd", "noise_multiplier": 8.0}, budget={"epsilon": 2.0, "clients": {"7": 0.8}}
    )
    done = sordino.run(recipe, out=tmp_path / "run")
    with Ledger.open(done.folder / "private" / "ledger.db", write=False) as ledger:
        times = ledger.participations
    assert times[7] < times[8] == 4
    again = sordino.run(recipe, out=done.folder, resume=True)
    assert torch.equal(again.weights, done.weights)


def test_an_outsider_is_not_promised_what_an_early_end_could_show(tmp_path):
    sampled = {"kind": "poisson", "rate": 0.5}
    few = {"mechanism": {"name": "dropout_robust", "noise_multiplier": 6.0}, "select": sampled, "run": {"rounds": 6}}
    few["partition"] = {"clients": 12}
    # all twelve may be used up after a few rounds: the run ends by coins, or could have
    tight = sordino.run(small(**few, budget={"epsilon": 1.2}), out=tmp_path / "tight").certificate
    assert tight.early_end > tight.delta or tight.stopped_by_participation
    assert tight.entry("client", "outsider").epsilon == tight.entry("client", "server").epsilon
    loose = sordino.run(small(**few, budget={"epsilon": 50.0}), out=tmp_path / "loose").certificate
    assert loose.early_end == 0
    assert loose.entry("client", "outsider").epsilon < loose.entry("client", "server").epsilon


def test_a_round_that_was_paid_for_and_cut_off_is_not_paid_for_again(tmp_path):
    class CutOff(Exception):
        pass

    def last_round(metrics):
        if metrics["round"] == 4:
            raise CutOff

    # the budget fits four rounds exactly, and the fourth is reserved and settled when the run is cut off
    with pytest.raises(CutOff):
        sordino.run(small(), out=tmp_path / "run", watcher=last_round)
    resumed = sordino.run(small(), out=tmp_path / "run", resume=True)
    assert (resumed.rounds, resumed.stopped) == (4, "rounds")
    assert torch.equal(resumed.weights, sordino.run(small(), out=tmp_path / "whole").weights)
    with Ledger.open(resumed.folder / "private" / "ledger.db", write=False) as ledger:
        assert (ledger.participations == 4).all()


def test_a_run_is_played_by_one_process_at_a_time(tmp_path):
    def second(metrics):
        with pytest.raises(RecipeError, match="another process"):
            sordino.run(small(), out=tmp_path / "run", resume=True)

    sordino.run(small(), out=tmp_path / "run", watcher=second)
    assert sordino.run(small(), out=tmp_path / "run", resume=True).stopped == "rounds"


def test_sections_are_given_as_objects_or_as_dictionaries(tmp_path):
    """A mechanism's options and a model's section were refused as objects, which every other section takes."""
    objects = {
        "mechanism": FedLdp(clip_norm=0.5),
        "model": ModelSection(name="mlp"),
        "budget": BudgetSection(epsilon=4),
    }
    told = {"mechanism": {"name": "fed_ldp", "clip_norm": 0.5}, "model": {"name": "mlp"}, "budget": {"epsilon": 4}}
    rest = {"partition": {"clients": 20}, "run": RunSection(rounds=1)}
    one, two = (sordino.run(**given, **rest, out=tmp_path / str(n)) for n, given in enumerate((objects, told)))
    assert one.context.recipe == two.context.recipe and torch.equal(one.weights, two.weights)
