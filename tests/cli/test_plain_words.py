"""What people read is in plain words, says what can be chosen, and is short enough to be read."""

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

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


def on_a_screen(*arguments: str, cwd: Path, columns: int = 80) -> list[str]:
    """Returns the lines of a command on a terminal of so many columns, errors among them."""
    primary, secondary = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    command = [sys.executable, "-m", "sordino", *arguments]
    with subprocess.Popen(command, cwd=cwd, stdout=secondary, stderr=secondary, env=environment) as process:
        os.close(secondary)
        written = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(primary, 1 << 16):
                written += part
        process.wait()
    os.close(primary)
    left = re.sub(r"[^\n]*\n(\x1b\[\?25h)?\r\x1b\[1A\x1b\[2K", "", written.decode())  # a line that was taken back
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", left).replace("\r\n", "\n")
    return [line.rpartition("\r")[2] for line in plain.split("\n")]  # of a bar, as it was drawn last


def test_no_word_is_cut_in_two_at_the_edge_of_a_screen(tmp_path):
    """Advice, errors and warnings were whole lines, which a terminal breaks wherever they reach its edge."""
    asked = ("advise", "--clients", "4", "--records", "740", "--features", "13", "--epsilon", "2", "--unit", "client")
    advice = on_a_screen(*asked, cwd=tmp_path)
    longer = [line for line in advice if len(line) > 80]
    assert len(longer) == 1 and longer[0].startswith("sordino run --set ")  # to be copied
    refused = on_a_screen("run", "--set", "mechanism.name=dp_sgd", "--set", "train.learning_rate=0.1", cwd=tmp_path)
    assert len(refused) > 2 and max(map(len, refused)) <= 80
    assert "learning_rate" in " ".join(refused)


def test_no_empty_bar_stands_above_a_refusal(tmp_path):
    """A run that was refused while it was set up left a bar at round 0 of 40 behind."""
    refused = on_a_screen("run", "--set", "data.name=csv", "--set", "data.file=none.csv", cwd=tmp_path)
    told = "sordino: none.csv is missing; put it there, or correct data.file."
    assert [line for line in refused if line.strip()] == [told]


@pytest.mark.parametrize("columns", [40, 60])
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("mechanisms",), ("distributed_gaussian", "distributed", "claimed-only", "certified", "dp_sgd")),
        (("recipe", "--explain", "budget"), ("budget.epsilon", "rdp")),
    ],
)
def test_a_narrow_screen_loses_no_name(arguments, names, columns, tmp_path):
    lines = on_a_screen(*arguments, cwd=tmp_path, columns=columns)
    assert max(map(len, lines)) <= columns and "…" not in "".join(lines)
    assert all(name in " ".join(lines) for name in names)


def test_a_sentence_in_a_log_is_one_line(command, tmp_path):
    told = command("run", "--set", "run.rounds=1", "--out", "run", cwd=tmp_path).stdout
    (line,) = [line for line in told.splitlines() if "test accuracy" in line]
    assert line.endswith("(all planned rounds)")


def test_mechanisms_can_be_named(command, tmp_path):
    told = command("mechanisms", "fed_cad", cwd=tmp_path).stdout
    assert "fed_cad" in told and "faithful" in told and "dp_sgd" not in told
    assert "choose among fedavg, " in command("mechanisms", "fedcad", cwd=tmp_path, code=2).stderr


def test_a_certificate_fits_a_screen(tmp_path):
    outcome = sordino.run(run={"rounds": 1}, out=tmp_path / "run")
    assert max(map(len, str(outcome.document).splitlines())) <= 80


def test_a_suggestion_is_made_once(command, tmp_path):
    """typer and click both suggested a command, one after the other."""
    assert command("rn", cwd=tmp_path, code=2).stderr.count("Did you mean") == 1


def test_a_run_names_its_engine_once(command, tmp_path):
    done = command("run", "--set", "run.rounds=1", "--out", "run", cwd=tmp_path)
    assert (done.stdout + done.stderr).count("gradients: ") == 1


def test_a_printed_certificate_is_one(tmp_path):
    outcome = sordino.run(run={"rounds": 1}, out=tmp_path / "run")
    shown = str(outcome.certificate)
    assert shown.startswith("Certificate of digits: 1 releases") and "certified, ε = " in shown
    assert len(shown) < 600 and "Assurance(" not in shown
    first, *rest = str(outcome).splitlines()  # it was a page of numbers
    assert first.endswith(f"after 1 round ({outcome.folder})") and "test accuracy, AUC" in first
    assert rest == shown.splitlines()


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
