"""What people read is in plain words, says what can be chosen, and is short enough to be read."""

import subprocess
import sys

import pytest
import typer

import sordino
from sordino.cli.app import app, main, register

RIDDLES = (
    "by exact,",
    "by exact;",
    "by exact)",
    "who does the sums",
    "worst client 0",
    "near their limit",
    "all rounds played",
    "knob",
    "shield",
    "price releases",
)


def told(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["sordino", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    return capsys.readouterr().out


def helps():
    register()
    for name, command in typer.main.get_command(app).commands.items():
        for one in (command, *getattr(command, "commands", {}).values()):
            yield name, " ".join([one.help or "", *(getattr(part, "help", None) or "" for part in one.params)])


def test_no_riddles_in_help_or_explanations(monkeypatch, capsys):
    for name, text in helps():
        assert not [word for word in RIDDLES if word in text], name
    everything = told(monkeypatch, capsys, "recipe", "--explain")
    assert not [word for word in RIDDLES if word in everything]


def test_no_riddles_in_what_a_run_prints(monkeypatch, capsys, tmp_path):
    shown = told(monkeypatch, capsys, "run", "--set", "run.rounds=1", "--out", str(tmp_path / "run"))
    assert not [word for word in RIDDLES if word in shown]
    assert "test accuracy, AUC" in shown and "steps: train.learning_rate = 0.5" in shown
    again = told(monkeypatch, capsys, "certificate", str(tmp_path / "run"))
    assert not [word for word in RIDDLES if word in again]


def test_an_explanation_can_be_narrowed_and_names_choices_and_defaults(monkeypatch, capsys):
    whole = told(monkeypatch, capsys, "recipe", "--explain").splitlines()
    part = told(monkeypatch, capsys, "recipe", "--explain", "partition")
    assert len(part.splitlines()) < len(whole) / 5
    assert "dirichlet" in part and "by_key" in part
    assert "embedded" in told(monkeypatch, capsys, "recipe", "--explain", "server")


def test_help_has_the_version_and_shell_completion(monkeypatch, capsys):
    shown = told(monkeypatch, capsys, "--help")
    assert "--version" in shown and "--install-completion" in shown and "--show-completion" in shown
    assert told(monkeypatch, capsys, "--version").strip() == f"sordino {sordino.__version__}"


def test_a_printed_certificate_is_one(tmp_path):
    outcome = sordino.run(run={"rounds": 1}, out=tmp_path / "run")
    shown = str(outcome.certificate)
    assert shown.startswith("Certificate of digits: 1 releases") and "certified, ε = " in shown
    assert len(shown) < 600 and "Assurance(" not in shown


def test_progress_comes_to_python_too(tmp_path):
    seen = []
    sordino.run(run={"rounds": 3}, out=tmp_path / "run", watcher=lambda metrics: seen.append(metrics["round"]))
    assert seen == [1, 2, 3]


def test_python_takes_sections_where_it_takes_objects(tmp_path):
    outcome = sordino.run(
        mechanism={"name": "dp_sgd"}, model={"name": "mlp", "hidden": (4,)}, run={"rounds": 1}, out=tmp_path / "run"
    )
    assert outcome.context.recipe.mechanism.name == "dp_sgd" and outcome.context.layout.width == 65 * 4 + 5 * 10


def test_the_module_runs_as_a_command():
    assert subprocess.run([sys.executable, "-m", "sordino", "--version"], capture_output=True, check=True).stdout
