"""The command line: one JSON object on stdout, one sentence and exit code 2 for bad input, nothing half-written."""

import json
import os
import re
import subprocess
import sys

import pytest

from sordino._version import __version__


def test_json_is_one_object_and_nothing_else(command, tmp_path):
    done = command("run", "--json", "--set", "run.rounds=2", "--out", "run", cwd=tmp_path)
    told = json.loads(done.stdout)
    assert set(told) >= {"run", "rounds", "stopped", "test", "seconds", "certificate", "simulation"}
    assert told["rounds"] == 2
    assert told["stopped"] == "rounds"
    assert told["simulation"] is True
    assert set(told["test"]) >= {"accuracy", "loss", "auc", "rmse", "r2"}
    for entry in told["certificate"]:
        wanted = {"unit", "observer", "adjacency", "epsilon", "delta", "status", "claimed_epsilon", "reason"}
        assert wanted <= set(entry)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "mechanism.clip_nrom=1"], "mechanism.clip_norm"),
        (["--set", "select.kind=fixed", "--set", "select.size=2000"], "select.size"),
        (["--set", "select.rate=0.1"], "select.kind = 'poisson'"),
        (["--set", "select.size=9"], "select.kind = 'fixed'"),
        (["--set", "data.client=who"], "data.client is set, but 'digits' has no such option"),
        (["--seed", "99999999999999999999999"], "run.seed"),
        (["--set", "data.name=mnist", "--set", "data.folder=nowhere"], "mnist"),
        (["--set", "mechanism.noise_multiplier=0.01"], "budget.epsilon"),
        (["--set", "ledger.path=no/such/people.db"], "ledger no/such/people.db"),
        (["--set", "ledger.path="], "ledger.path) names no file"),
        (["--set", "mechanism.clip_norm=1e308"], "mechanism.clip_norm must be less than or equal to"),
        (["--set", "mechanism.clip_norm=1e-320"], "greater than or equal to 1e-18"),
        (["--set", "mechanism.noise_multiplier=1e308"], "mechanism.noise_multiplier must be less than"),
        (["--set", "select.kind=poisson", "--set", "select.rate=1e-300"], "select.rate must be greater than"),
        (["--set", "ledger.witness=no/such/heads.jsonl"], "head log no/such/heads.jsonl cannot be written"),
        (["--set", "ledger.federation="], "ledger.federation: string should have at least 1 character"),
        (["--set", "public.shape=[3]"], "public.shape is [3], but a record has the shape"),
        (["--set", "mechanism.name=dp_sgd", "--set", "mechanism.unit=client"], "is not a setting of this mechanism"),
        (["--set", "budget.delta=0"], "budget.delta must be greater than or equal to 1e-100 (it is 0)"),
        (["--set", "epsilon=2"], "did you mean budget.epsilon=2?"),
        (["--set", "mechanism.name=DP-SGD"], "which is not a mechanism (did you mean dp_sgd?)"),
        (["--set", "model.hidden=64"], "model.hidden must be a list in [ and ] (it is 64)"),
        (["--model", "torch.nn:Linear"], "missing a required argument: 'in_features': name a function that takes none"),
        (["--resume"], "--out"),
        (["--resume", "--out", "never"], "never holds no run that began: leave out --resume"),
        (["nowhere.toml"], "nowhere.toml"),
    ],
)
def test_bad_input_is_one_sentence_exit_2_and_nothing_written(command, arguments, says, tmp_path):
    done = command("run", *arguments, cwd=tmp_path, code=2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "--out", ""], "--out is empty: name a file or folder, or leave it out"),
        (["run", ""], "RECIPE is empty"),
        (["tune", "--out= "], "--out is empty"),
        (["report", ""], "RUNS is empty: name a file or folder\n"),
        (["node", "check", ""], "FOLDER is empty"),
    ],
)
def test_an_empty_name_is_not_the_current_folder(command, arguments, says, tmp_path):
    done = command(*arguments, cwd=tmp_path, code=2)
    assert done.stderr.startswith("sordino: ") and says in done.stderr and done.stderr.count("\n") == 1
    assert done.stdout == "" and not list(tmp_path.iterdir())


def test_a_terminal_without_greek_is_told_the_same_in_its_own_letters(tmp_path):
    asked = ["advise", "--clients", "4", "--records", "740", "--features", "13", "--epsilon", "2", "--unit", "client"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "sordino", *asked], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0 and done.stderr == ""
    assert "4 clients as units at epsilon = 2: this cannot work" in done.stdout and "5.9 x the longest" in done.stdout


def test_the_folder_that_was_looked_in_is_named(command, tmp_path):
    assert "looked for in nowhere, which is no folder." in command("data", "--folder", "nowhere", cwd=tmp_path).stdout


def test_classes_that_have_names_are_called_by_them(command, tmp_path):
    rows = "\n".join(f"{n % 7},{n},{'ill' if n % 2 else 'well'}" for n in range(60))
    (tmp_path / "t.csv").write_text(f"age,size,label\n{rows}\n")
    told = {"public.population": 48, "public.records": 48, "data.class_names": '["well", "ill"]', "run.rounds": 1}
    done = command("run", "--data", "t.csv", *(f"--set={k}={v}" for k, v in told.items()), cwd=tmp_path)
    assert "\n 0 well " in done.stdout and "\n 1 ill " in done.stdout and "after 1 round in" in done.stdout


def test_words_between_colons_are_no_pictures(command, tmp_path):
    done = command("run", "--model", "nets:x", cwd=tmp_path, code=2)
    assert done.stderr.startswith("sordino: --model nets:x: nets cannot be imported")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["certificate", "file"], "the certificate cannot be read (no JSON object)"),
        (["node", "certificate", "--check", "file"], "the node's statement cannot be read (no JSON object)"),
        (["node", "certificate", "--check", "bytes"], "--check bytes is not there or is no text"),
        (["node", "init", "node", "--join", "deep", "--name", "a"], "--join deep is not a federation's join.json"),
        (["account", "--delta", "1e-5", "--schedule", "deep"], "schedule deep holds something that is not a number"),
        (["federation", "run", "recipe.toml", "--folder", "folder"], "folder is not a federation's folder"),
    ],
)
def test_a_file_of_another_kind_is_one_short_sentence(command, arguments, says, tmp_path):
    (tmp_path / "file").write_text("[]")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "recipe.toml").write_text("")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    done = command(*arguments, cwd=tmp_path, code=2)
    assert done.stderr.startswith(f"sordino: {says}") and done.stderr.count("\n") == 1 and len(done.stderr) < 300
    assert done.stdout == "" and sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["advise", "r.toml", "--epsilon", "8"], "--epsilon has no effect beside a recipe"),
        (["advise", "--clients", "9", "--set", "run.rounds=2"], "--set has no effect without a recipe"),
        (["advise", "--parameters", "9", "--classes", "3"], "--classes has no effect beside --parameters"),
        (["recipe", "--explain", "budget", "--set", "run.rounds=2"], "--set has no effect on what --explain lists"),
        (
            ["recipe", "--explain", "--json", "budget"],
            "--explain budget --json: the JSON schema has all",
        ),
        (["certificate", "run", "--key", "ab"], "--key has no effect on a certificate that is only shown"),
        (["ledger", "run", "--verify", "--client", "anna"], "--client has no effect beside --verify"),
        (["ledger", "run", "--head", "ab"], "--head has no effect without --verify"),
        (["tune", "--trials", "5"], "--trials has no effect on stand-in data"),
        (["tune", "--charged", "--on", "mnist"], "--on has no effect on a charged search"),
        (["compare", "dp_sgd", "--no-tune", "--grid", "run.rounds=2,3"], "--grid has no effect where nothing is tuned"),
        (["audit", "fed_ldp", "--canaries", "20"], "--canaries has no effect on the audit of a mechanism"),
        (["audit", "--all", "--out", "x.png"], "--out has no effect on --all"),
        (["audit", "games", "--trials", "2000"], "--trials has no effect on the list of games"),
        (["audit", "fed_ldp", "--attack", "inversion", "--trials", "2000"], "--trials has no effect on gradient inver"),
        (["account", "--published", "baek", "--delta", "1e-5"], "--delta has no effect beside --published"),
        (["plan", "--cohort", "10", "--theta", "2"], "--theta has no effect without --convergence"),
        (["plan", "--cohort", "10", "--momentum", "0.5"], "--momentum has no effect without --choose"),
        (["plan", "--convergence", "--rounds", "5"], "--rounds has no effect on the bound of --convergence"),
        (["plan", "--choose", "--cohort", "5"], "--cohort has no effect on what --choose picks"),
    ],
)
def test_options_without_effect_are_refused(command, arguments, says, tmp_path):
    done = command(*arguments, cwd=tmp_path, code=2)
    assert done.stderr.startswith(f"sordino: {says}") and done.stderr.count("\n") == 1 and done.stdout == ""
    assert not list(tmp_path.iterdir())


def test_nan_in_a_users_file_is_named(command, tmp_path):
    (tmp_path / "own.csv").write_text("a,b,label\n1,2,0\nnan,1,1\n3,4,1\n")
    done = command("run", "--set", "data.name=csv", "--set", "data.file=own.csv", cwd=tmp_path, code=2)
    assert "own.csv" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["own.csv"]


@pytest.mark.parametrize("extreme", ["1e-9", "1e9"])
@pytest.mark.parametrize("setting", ["mechanism.clip_norm", "mechanism.noise_multiplier"])
def test_the_most_extreme_numbers_that_are_taken_can_be_computed_with(command, setting, extreme, tmp_path):
    told = ["--set", f"{setting}={extreme}", "--set", "budget.epsilon=none", "--set", "run.rounds=1"]
    told += ["--set", "mechanism.name=dp_sgd", "--set", "mechanism.noise_multiplier=2"][: 4 if "clip" in setting else 2]
    command("run", "--json", "--out", "o", *told, cwd=tmp_path)
    assert (tmp_path / "o" / "public" / "certificate.json").exists()


@pytest.mark.parametrize(
    ("bytes_", "sentence"),
    [
        ("x,label\n1,0\n".encode("utf-16"), "not text in UTF-8: save it as UTF-8 (iconv -f utf16 -t utf8)"),
        ("x,label\nÄ,0\n".encode("latin-1"), "not text in UTF-8: save it as UTF-8 (iconv -f latin1 -t utf8)"),
        (b"x,label\n1e300,0\n", "line 2: column x is '1e300', which single precision does not hold"),
        (
            b"x,label\n1,0\n2,1000000000000\n",
            "has the label 1000000000000: name classes in class_names, or set classes",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(command, bytes_, sentence, tmp_path):
    (tmp_path / "own.csv").write_bytes(bytes_)
    done = command("run", "--data", "own.csv", cwd=tmp_path, code=2)
    assert sentence in done.stderr and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["own.csv"]


def test_a_test_split_that_leaves_nobody_says_so(command, tmp_path):
    lines = "".join(f"{place},{place % 2},c{place % 3}\n" for place in range(9))
    (tmp_path / "own.csv").write_text("x,label,who\n" + lines)
    told = ["--set", "data.client=who", "--set", "partition.kind=by_key", "--set", "data.test=0.99"]
    done = command("run", "--data", "own.csv", *told, cwd=tmp_path, code=2)
    assert "no client is left to train: set fewer aside (data.test)" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["mechanisms"], "dp_sgd"), (["data"], "digits"), (["recipe", "--explain"], "budget.epsilon")],
)
def test_lists(command, arguments, says, tmp_path):
    assert says in command(*arguments, cwd=tmp_path).stdout


def test_names_are_whole_on_a_narrow_terminal(command, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = command("mechanisms", cwd=tmp_path).stdout
    for word in (r"dp_fedavg_adaptive +certified", r"component_adaptive +certified", "claimed-only"):
        assert re.search(word, listed)
    assert "…" not in listed
    attacked = command("audit", "distributed_gaussian", "--trials", "1000", cwd=tmp_path).stdout
    assert attacked.count(" consistent") == 2 and "\ncertified " in attacked and "outsider" in attacked
    assert "…" not in attacked and max(map(len, attacked.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("run", "RECIPE is a TOML file"),
        ("recipe", "PATH is a TOML file"),
        ("ledger", "RUN is a run folder"),
        ("report", "RUNS are run folders"),
        ("compare", "CONTENDERS are mechanisms"),
        ("reproduce", "IDS are those of --list"),
    ],
)
def test_help_says_what_is_named_after_the_command(name, says, command, tmp_path):
    assert says in command(name, "--help", cwd=tmp_path).stdout


def test_lists_as_json(command, tmp_path):
    rows = json.loads(command("mechanisms", "--json", cwd=tmp_path).stdout)
    assert {row["mode"] for row in rows} == {"certified", "faithful"}
    assert json.loads(command("data", "--json", cwd=tmp_path).stdout)


def test_the_version_and_completion_are_where_people_look(command, tmp_path):
    assert command("--version", cwd=tmp_path).stdout == f"sordino {__version__}\n"
    told = command("--help", cwd=tmp_path).stdout
    assert "--install-completion" in told and "--version" in told
    assert "Train models on data that stays with its owners" in told


def test_settings_are_explained_by_section_and_mechanism_with_their_choices(command, tmp_path):
    told = command("recipe", "--explain", "select", cwd=tmp_path).stdout
    assert "select.kind" in told and "everyone | poisson | fixed" in " ".join(told.split())
    assert "budget." not in told and "mechanism." not in told
    told = command("recipe", "--explain", "dp_sgd", cwd=tmp_path).stdout
    assert "mechanism.sampling_rate" in told and "distributed | central" in " ".join(told.split())
    assert "select." not in told
    refused = command("recipe", "--explain", "dp_sdg", cwd=tmp_path, code=2).stderr
    assert "dp_sdg" in refused and "dp_sgd" in refused


def test_a_narrow_terminal_is_told_every_promise(command, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    told = command("run", "--set", "run.rounds=1", "--out", "run", cwd=tmp_path).stdout
    words = " ".join(told.split())
    assert "…" not in words.split("ledger")[0]
    assert "· client against the server (zero_out): certified, ε = 1, μ = " in words
    assert "columns to see which class was taken for which" in words


@pytest.mark.parametrize("option", ["--model", "--data"])
@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def make(:", "SyntaxError in {file}, line 1 (invalid syntax)"),
        ("import os\nraise ValueError('no data today')", "ValueError in {file}, line 2 (no data today)"),
        ("def make():\n    return 1 / 0", "ZeroDivisionError in {file}, line 2 (division by zero)"),
        ("def make(width):\n    return width", "missing a required argument: 'width': name a function that takes none"),
    ],
)
def test_what_is_wrong_in_somebodys_own_file_is_named_by_its_line(command, tmp_path, option, source, says):
    file = tmp_path / "own.py"
    file.write_text(source)
    done = command("run", option, f"{file}:make", cwd=tmp_path, code=2)
    assert says.format(file=file) in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} <= {"own.py", "__pycache__"}
