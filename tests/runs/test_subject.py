"""A run remembers its model and its data: audit, report and resume get these, or ask for them; never something else."""

import copy
import json
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import sordino
from sordino.audit.endtoend import Effort, audit_run
from sordino.cli.app import main
from sordino.errors import RecipeError
from sordino.report.page import page
from sordino.report.reading import read
from sordino.runs.folder import RunFolder
from sordino.runs.subject import recall

RECIPE = sordino.Recipe.from_dict(
    {
        "mechanism": {"name": "dp_sgd", "clip_norm": 1.0},
        "public": {"population": 48, "records": 240, "classes": 2},
        "budget": {"epsilon": 4.0},
        "run": {"rounds": 3},
    }
)
LITTLE = Effort(shadows=2, trials=1, pool=40, records=20, clients=20)


class Net(nn.Module):
    """A module of the user's own, with a frozen layer and a buffer."""

    def __init__(self, act=torch.relu):
        super().__init__()
        self.frozen, self.last = nn.Linear(6, 5), nn.Linear(5, 2)
        self.frozen.requires_grad_(False)
        self.register_buffer("shift", torch.ones(5))

    def forward(self, x):
        return self.last(torch.relu(self.frozen(x)) + self.shift)


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen, self.last = nn.Linear(6, 5), nn.Linear(5, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.frozen(x)))


def own_data(shift=0.0):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(300, 6, generator=generator)
    y = (x.sum(1) > 0).long()
    return sordino.Federation.of(x + shift, y, clients=[f"person {k // 5}" for k in range(300)])


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    torch.manual_seed(0)
    model, folder = Net(), tmp_path_factory.mktemp("own") / "run"
    return model, sordino.run(RECIPE, model=model, federation=own_data(), out=folder)


def test_the_recipe_and_the_report_name_what_was_trained(played):
    _, outcome = played
    for part in ("private", "public"):
        text = (outcome.folder / part / "recipe.toml").read_text()
        assert 'name = "Net"' in text
        assert "digits" not in text
    for public in (True, False):
        shown = page(read(outcome.folder, public), [])
        assert "dp_sgd on own data" in shown
        assert "on digits" not in shown


def test_nothing_of_the_records_is_told_without_a_key(played):
    _, outcome = played
    told = RunFolder(outcome.folder).facts()["data"]
    everything = b"".join(path.read_bytes() for path in (outcome.folder / "public").iterdir())
    assert told["digest"].encode() not in everything
    assert told["digest"] != RunFolder(outcome.folder).facts()["data"]["key"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, r"data of your own, 'own data'.*--data module:factory"),
        ({"federation": own_data()}, r"a model of your own, Net.*--model module:factory"),
        ({"model": Net()}, r"data of your own"),
        ({"model": Net(), "federation": own_data(0.5)}, r"other records"),
        ({"model": Other(), "federation": own_data()}, r"is another class"),
        ({"model": nn.Sequential(nn.Linear(6, 2)), "federation": own_data()}, r"is another class"),
    ],
)
def test_the_audit_and_resume_attack_nothing_else(played, given, words):
    _, outcome = played
    with pytest.raises(RecipeError, match=words):
        audit_run(outcome.folder, LITTLE, 0, **given)
    with pytest.raises(RecipeError, match=words):
        sordino.run(out=outcome.folder, resume=True, **given)


def test_a_model_that_was_rewritten_is_not_the_one(played, monkeypatch):
    _, outcome = played
    monkeypatch.setattr("sordino.runs.subject.inspect.getsource", lambda kind: "another forward")
    with pytest.raises(RecipeError, match="written differently"):
        recall(RunFolder(outcome.folder), Net(), own_data())


def test_given_again_the_very_model_is_found_whatever_its_weights_are_now(played):
    model, outcome = played
    other = Net()  # other random weights: the run's own are kept with it
    subject = recall(RunFolder(outcome.folder), other, own_data())
    assert all(torch.equal(a, b) for a, b in zip(subject.model.parameters(), model.parameters(), strict=True))
    assert not torch.equal(other.last.weight, model.last.weight)


def test_a_run_with_own_model_and_data_can_be_audited(played, monkeypatch):
    monkeypatch.setattr("sordino.audit.published_bound._WORK", 10_000)  # that part knows no model
    model, outcome = played
    found = audit_run(outcome.folder, LITTLE, 0, model=copy.deepcopy(model), federation=own_data())
    assert found.verdict == "consistent"
    assert found.canary_clients is not None


def test_a_run_with_own_model_and_data_goes_on_to_the_same_bits(played, tmp_path):
    model, outcome = played

    def stop(metrics):
        if metrics["round"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sordino.run(RECIPE, model=model, federation=own_data(), out=tmp_path / "cut", watcher=stop)
    again = sordino.run(model=Net(), federation=own_data(), out=tmp_path / "cut", resume=True)
    assert torch.equal(again.weights, outcome.weights)


def test_the_published_model_loads_whole(played):
    model, outcome = played
    state = load_file(outcome.folder / "public" / "model.safetensors")
    fresh = Net()
    fresh.load_state_dict(state)  # strict: frozen layers and buffers are there
    assert torch.equal(fresh.frozen.weight, model.frozen.weight)
    x = torch.randn(4, 6)
    assert torch.allclose(fresh(x), outcome.model(x))


def test_an_edited_file_is_noticed_at_resume_and_a_moved_one_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = ["a,b,label", *(f"{k % 7},{k % 5},{k % 2}" for k in range(60))]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    public = {"population": 48, "records": 48, "classes": 2}
    recipe = RECIPE.but(data={"name": "csv", "file": "t.csv"}, public=public)
    outcome = sordino.run(recipe, out=tmp_path / "run")
    (tmp_path / "t.csv").rename(tmp_path / "moved.csv")
    monkeypatch.setattr(sys, "argv", ["sordino", "run", "--out", "run", "--resume", "--data", "moved.csv", "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    (tmp_path / "t.csv").write_text("\n".join([*rows[:-1], "6,4,0"]))
    with pytest.raises(RecipeError, match=r"other records than those of data.name = 'csv'"):
        sordino.run(out=outcome.folder, resume=True)
    assert read(outcome.folder).federation is None


def test_a_mechanism_from_python_is_not_mistaken_for_the_recipes(tmp_path):
    from sordino.runs.setup import assemble

    mechanism = assemble(RECIPE, nn.Linear(6, 2), own_data()).mechanism
    mine = sordino.run(
        RECIPE.but(mechanism={"name": "fed_ldp"}),
        model=nn.Linear(6, 2),
        federation=own_data(),
        mechanism=mechanism,
        out=tmp_path / "mine",
    )
    assert "dp_sgd on own data" in page(read(mine.folder, True), [])
    assert "fed_ldp" not in (mine.folder / "public" / "recipe.toml").read_text()
    with pytest.raises(RecipeError, match="your own mechanism 'dp_sgd'"):
        audit_run(mine.folder, LITTLE, 0, model=nn.Linear(6, 2), federation=own_data())


def test_the_command_line_names_model_and_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import torch, sordino\n"
        "def net():\n    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))\n"
        "def people():\n"
        "    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))\n"
        "    return sordino.Federation.of(x, (x[:, 0] > 0).long(), clients=torch.arange(200) // 4,\n"
        "        public=sordino.PublicCounts(40, 160, 2))\n"
    )
    settings = ["--set", "run.rounds=2", "--set", "mechanism.name=dp_sgd", "--json"]
    given = ["--model", "mine:net", "--data", "mine.py:people"]
    for arguments, code in (
        (["run", "--out", "r", *given, *settings], 0),
        (["run", "--out", "r", "--resume", *given, "--json"], 0),
        (["run", "--out", "r", "--resume", "--json"], 2),
        (["audit", "r"], 2),
        (["run", "--model", "mine:absent"], 2),
    ):
        monkeypatch.setattr(sys, "argv", ["sordino", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        assert (end.value.code or 0) == code, arguments
    assert "data of your own" in capsys.readouterr().err
    assert json.loads((tmp_path / "r" / "private" / "run.json").read_text())["model"]["class"] == "Sequential"


def test_whole_numbers_that_a_model_takes_as_floats_are_the_same_records_again(tmp_path):
    numbers = np.random.default_rng(0).integers(0, 9, (60, 4))
    people = sordino.Federation.of(
        numbers, numbers[:, 0] % 2, np.arange(60) % 12, test=(numbers[:6], numbers[:6, 0] % 2)
    )
    people = people.declare(people.proposed())
    settings = {"mechanism": {"name": "fed_ldp"}, "model": {"name": "linear"}, "run": {"rounds": 1}}
    sordino.run(federation=people, out=tmp_path / "run", budget={"epsilon": 5.0}, **settings)
    assert recall(RunFolder(tmp_path / "run"), federation=people).federation.population == 12
    with pytest.raises(RecipeError, match="other records"):
        recall(RunFolder(tmp_path / "run"), federation=people.mapped(lambda x: x + 1))


@pytest.mark.parametrize("made", [lambda x: x, lambda x: x * 2, torch.sin])
def test_the_same_records_scaled_otherwise_are_not_what_a_run_was_trained_on(tmp_path, made):
    """A ledger knows records as they were read; whoever audits a run, or goes on with it, needs what the model saw."""
    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    people = sordino.Federation.of(x, (x[:, 0] > 0.5).long(), test=None)
    people = people.declare(people.proposed())
    sordino.run(federation=people.mapped(lambda x: x / 2), out=tmp_path / "run", run={"rounds": 1})
    assert recall(RunFolder(tmp_path / "run"), federation=people.mapped(lambda x: x / 2)).federation.population == 40
    with pytest.raises(RecipeError, match="scaled otherwise"):
        recall(RunFolder(tmp_path / "run"), federation=people.mapped(made))
