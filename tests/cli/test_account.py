"""`sordino account`, `plan` and `ledger` as commands: numbers, JSON, sentences, exit codes; and no wait for torch."""

import json
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from sordino.account.certificate.certificate import certify
from sordino.account.ledger.ledger import Ledger
from sordino.events import Charge, GaussianDpEvent, Guarantee, PoissonSampledDpEvent

SERVER = Guarantee("client", "server", "zero_out")
OUTSIDER = Guarantee("client", "outsider", "add_remove")
BOTH = (
    Charge(SERVER, GaussianDpEvent(2.0)),
    Charge(OUTSIDER, PoissonSampledDpEvent(0.2, GaussianDpEvent(2.0)), "eligible"),
)


@pytest.fixture
def sordino(capsys, monkeypatch):
    """Runs the command line in this process; returns (exit code, stdout, stderr)."""
    from sordino.cli.app import app, main

    def run(*arguments):
        app.registered_commands.clear()
        monkeypatch.setattr(sys, "argv", ["sordino", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def run_folder(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    with Ledger.open(folder / "ledger.db", "clinics", 10, create=True) as ledger:
        for number in range(3):
            ledger.settle(ledger.reserve("mine-1", number, np.array([number, 7]), BOTH), BOTH)
        ledger.reserve("mine-1", 3, np.array([7]), BOTH)
        (folder / "certificate.json").write_text(certify(ledger, 1e-5).to_json())
    (folder / "run.json").write_text(json.dumps({"run": "mine-1"}))
    return folder


class TestAccount:
    BASE = ("account", "--noise-multiplier", "1", "--sampling-rate", "0.01")

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("--rounds", "100", "--delta", "1e-5"), "ε = 0.718"),
            (("--rounds", "100", "--delta", "1e-5", "--accountant", "rdp-classic"), "ε = 1.61"),
            (("--rounds", "100", "--epsilon", "0.7180402", "--accountant", "pld"), "δ = 9.9999"),
            (("--epsilon", "8", "--delta", "1e-5", "--accountant", "rdp-classic"), "11479 rounds"),
        ],
    )
    def test_answers(self, sordino, arguments, says):
        code, out, _ = sordino(*self.BASE, *arguments)
        assert code == 0
        assert says in out

    def test_json(self, sordino):
        code, out, _ = sordino(*self.BASE, "--rounds", "10", "--delta", "1e-5", "--json")
        told = json.loads(out)
        assert code == 0
        assert round(told["epsilon"], 3) == 0.380
        assert (told["rounds"], told["accountant"], told["adjacency"]) == (10, "pld", "add_remove")
        assert told["history"][0]["count"] == 10

    def test_schedules(self, sordino, tmp_path):
        falling = ("--noise-multiplier", "10", "--rounds", "30", "--schedule", "geometric:0.95")
        geometric = sordino("account", *falling, "--delta", "1e-5", "--json")
        (tmp_path / "noise").write_text("\n".join(str(10 * 0.95 ** (m / 2)) for m in range(30)))
        listed = sordino("account", "--schedule", tmp_path / "noise", "--delta", "1e-5", "--json")
        assert json.loads(geometric[1])["epsilon"] == pytest.approx(json.loads(listed[1])["epsilon"])

    @pytest.mark.parametrize("paper", ["xue", "fed_cad", "yuan", "gaussian"])
    def test_published_numbers(self, sordino, paper):
        code, out, _ = sordino("account", "--published", paper)
        wanted = {
            "xue": ["108", "277"],
            "fed_cad": ["0.578001", "1552.61"],
            "yuan": ["0.027933", "0.005819"],
            "gaussian": ["4.3772"],
        }
        assert code == 0
        assert all(number in out for number in wanted[paper])

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("--rounds", "10", "--delta", "1"), "delta"),
            (("--rounds", "10", "--delta", "nan"), "delta"),
            (("--rounds", "10", "--epsilon", "-1"), "epsilon"),
            (("--rounds", "0", "--delta", "1e-5"), "rounds"),
            (("--delta", "1e-5"), "--rounds"),
            (("--rounds", "10"), "--delta"),
            (("--rounds", "1", "--delta", "1e-5", "--epsilon", "1"), "--rounds"),
            (("--rounds", "10", "--delta", "1e-5", "--accountant", "moments"), "moments"),
            (("--rounds", "10", "--delta", "1e-5", "--accountant", "exact"), "exact"),
            (("--rounds", "10", "--delta", "1e-5", "--adjacency", "swap"), "swap"),
            (("--rounds", "10", "--delta", "1e-5", "--sampling-rate", "0"), "sampling-rate"),
            (("--rounds", "10", "--delta", "1e-5", "--sampling-rate", "1.1"), "sampling-rate"),
            (("--rounds", "10", "--delta", "1e-5", "--noise-multiplier", "-2"), "noise-multiplier"),
            (("--rounds", "10", "--delta", "1e-5", "--noise-multiplier", "inf"), "noise-multiplier"),
            (("--rounds", "10", "--delta", "1e-5", "--schedule", "nowhere"), "nowhere"),
            (("--rounds", "10", "--delta", "1e-5", "--mechanism", "cauchy"), "cauchy"),
            (("--published", "nobody"), "nobody"),
        ],
    )
    def test_bad_input_is_one_sentence_and_exit_2(self, sordino, arguments, says):
        code, out, err = sordino(*self.BASE, *arguments)
        assert (code, out) == (2, "")
        assert says in err
        assert len(err.strip().splitlines()) == 1


def test_account_does_not_wait_for_torch():
    modules = ("sordino.cli.account", "sordino.cli.plan", "sordino.cli.ledger", "sordino.account.certificate.verify")
    program = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


class TestPlan:
    def test_finds_noise_and_warns(self, sordino):
        known = (
            "plan",
            "--population",
            "1000",
            "--cohort",
            "20",
            "--rounds",
            "40",
            "--epsilon",
            "2",
            "--accountant",
            "rdp",
        )
        code, out, _ = sordino(*known)
        assert code == 0
        for words in ("noise multiplier found", "warning", "signal to noise", "cohort 20", "160 rounds"):
            assert words in out
        told = json.loads(sordino(*known, "--json")[1])
        assert told["solved"] == "noise_multiplier"
        assert told["plan"]["epsilon"] == pytest.approx(2, abs=1e-5)
        assert len(told["trade_off"]["rows"]) == 25
        assert "times as long" in told["warning"]

    def test_plot(self, sordino, tmp_path):
        known = (
            "plan",
            "--cohort",
            "20",
            "--rounds",
            "4",
            "--epsilon",
            "2",
            "--accountant",
            "rdp",
            "--observer",
            "server",
        )
        assert sordino(*known, "--plot", tmp_path / "plan.html")[0] == 0
        assert "cohort 20" in (tmp_path / "plan.html").read_text()
        code, _, err = sordino(*known, "--plot", tmp_path / "none" / "plan.html")
        assert code == 2
        assert "--plot" in err

    def test_convergence(self, sordino):
        known = (
            "plan",
            "--convergence",
            "--population",
            "100",
            "--cohort",
            "10",
            "--epsilon",
            "10",
            "--divergence",
            "0.3",
        )
        code, out, _ = sordino(*known)
        assert code == 0
        assert "M* = " in out
        told = json.loads(sordino(*known, "--json")[1])
        assert abs(told["root"] - told["aggregations"]) <= 1
        assert sordino("plan", "--convergence")[0] == 2

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("--epsilon", "2"), "open"),
            (("--choose", "--population", "0", "--rounds", "5", "--epsilon", "1"), "population 0 must be finite and"),
            (("--choose", "--population", "9", "--rounds", "5", "--epsilon", "1", "--momentum", "nan"), "momentum nan"),
            (("--choose", "--population", "9", "--rounds", "9" * 20, "--epsilon", "1"), "rounds 1e+20 must be"),
            (("--convergence", "--epsilon", "1", "--iterations", "9" * 20), "iterations 1e+20 must be"),
            (("--convergence", "--epsilon", "1", "--theta", "1e26"), "theta 1e+26 must be finite and 0.01 … 100"),
            (("--epsilon", "2", "--cohort", "5", "--rounds", "5", "--observer", "nobody"), "nobody"),
            (("--epsilon", "2", "--cohort", "5", "--rounds", "5", "--unit", "hospital"), "hospital"),
            (("--epsilon", "2", "--cohort", "5", "--rounds", "5", "--trust", "blind"), "blind"),
            (("--epsilon", "nan", "--cohort", "5", "--rounds", "5"), "epsilon"),
            (("--epsilon", "2", "--cohort", "5000", "--rounds", "5", "--population", "1000"), "cohort"),
        ],
    )
    def test_bad_input_is_one_sentence_and_exit_2(self, sordino, arguments, says):
        code, out, err = sordino("plan", *arguments)
        assert (code, out) == (2, "")
        assert says in err
        assert len(err.strip().splitlines()) == 1


class TestLedger:
    def test_lists_every_release(self, sordino, run_folder):
        code, out, _ = sordino("ledger", run_folder)
        assert code == 0
        for words in (
            "clinics",
            "client against the server",
            "client against the outsider",
            "Gaussian(2)",
            "(open)",
            "client 7",
        ):
            assert words in out

    def test_one_client(self, sordino, run_folder):
        told = json.loads(sordino("ledger", run_folder, "--client", "1", "--json")[1])
        server = [line for line in told["releases"] if line["guarantee"]["observer"] == "server"]
        assert [line["round"] for line in server] == [1]
        assert server[0]["cumulative"] == pytest.approx(server[0]["cost"])
        outsider = [line for line in told["releases"] if line["guarantee"]["observer"] == "outsider"]
        sums = [line["cumulative"] for line in outsider]
        assert len(sums) == 4
        assert sums == sorted(sums)

    def test_verify(self, sordino, run_folder):
        code, out, _ = sordino("ledger", run_folder, "--verify")
        assert code == 0
        assert [line.split(":")[0] for line in out.strip().splitlines()] == ["chain", "costs", "heads", "certificate"]
        assert json.loads(sordino("ledger", run_folder, "--verify", "--json")[1])["verified"] is True

    @pytest.mark.parametrize(
        "statements",
        [
            ["UPDATE rows SET body = replace(body, '2.0', '3.0') WHERE seq = 3"],
            ["DELETE FROM rows WHERE seq = 3"],
            [f"UPDATE rows SET seq = {new} WHERE seq = {old}" for old, new in ((1, -1), (3, 1), (-1, 3))],
        ],
        ids=["edited", "deleted", "swapped"],
    )
    def test_verify_finds(self, sordino, run_folder, statements):
        raw = sqlite3.connect(run_folder / "ledger.db")
        for statement in statements:
            raw.execute(statement)
        raw.commit()
        raw.close()
        code, out, err = sordino("ledger", run_folder, "--verify")
        assert (code, out) == (2, "")
        assert "row" in err

    def test_verify_finds_one_bit(self, sordino, run_folder):
        path = run_folder / "ledger.db"
        data = bytearray(path.read_bytes())
        data[data.find(b'"noise_multiplier":2.0') + 19] ^= 1
        path.write_bytes(data)
        assert sordino("ledger", run_folder, "--verify")[0] == 2

    def test_a_shared_ledger_shows_the_runs_own_rows(self, sordino, run_folder, tmp_path):
        shared = tmp_path / "shared.db"
        for part in run_folder.glob("ledger.db*"):
            part.rename(tmp_path / part.name.replace("ledger.db", "shared.db"))
        with Ledger.open(shared, "clinics") as ledger:
            ledger.reserve("theirs", 1, np.array([1]), BOTH)
        (run_folder / "recipe.toml").write_text(f'[ledger]\npath = "{shared}"\n')
        told = json.loads(sordino("ledger", run_folder, "--json")[1])
        assert {line["run"] for line in told["releases"]} == {"mine-1"}
        assert {line["run"] for line in json.loads(sordino("ledger", shared, "--json")[1])["releases"]} == {
            "mine-1",
            "theirs",
        }
        assert sordino("ledger", run_folder, "--verify")[0] == 0

    def test_verify_with_heads_that_were_kept(self, sordino, run_folder, tmp_path):
        kept = json.loads(sordino("ledger", run_folder, "--json")[1])["head"]
        code, out, _ = sordino("ledger", run_folder, "--verify", "--head", kept)
        assert code == 0
        assert "and 1 that were kept" in out
        code, out, err = sordino("ledger", run_folder, "--verify", "--head", "00" * 32)
        assert (code, out) == (2, "")
        assert "never had the head" in err

    def test_verify_asks_the_witness_that_the_recipe_names(self, sordino, run_folder, tmp_path):
        witness, path = tmp_path / "witness.jsonl", run_folder / "ledger.db"
        (run_folder / "recipe.toml").write_text(f'[ledger]\nwitness = "{witness}"\n')
        assert sordino("ledger", run_folder, "--verify")[0] == 2  # there is none yet
        old = path.read_bytes(), (run_folder / "ledger.db.heads.jsonl").read_bytes()
        with Ledger.open(path, witness=witness) as ledger:
            ledger.reserve("theirs", 1, np.array([1]), BOTH)
        assert sordino("ledger", run_folder, "--verify")[0] == 0
        path.write_bytes(old[0])
        (run_folder / "ledger.db.heads.jsonl").write_bytes(old[1])
        code, _, err = sordino("ledger", run_folder, "--verify")
        assert code == 2
        assert "older copy" in err
        (run_folder / "recipe.toml").unlink()
        assert sordino("ledger", run_folder, "--verify")[0] == 0  # the folder alone cannot tell
        assert sordino("ledger", run_folder, "--verify", "--witness", witness)[0] == 2

    def test_a_client_is_asked_for_by_name(self, sordino, tmp_path):
        with Ledger.open(tmp_path / "l.db", "clinics", ["anna", "bert"], create=True) as ledger:
            ledger.reserve("one", 1, np.array([1]), BOTH)
        lines = {
            name: json.loads(sordino("ledger", tmp_path / "l.db", "--client", name, "--json")[1])["releases"]
            for name in ("anna", "bert")
        }
        assert [len(lines["anna"]), len(lines["bert"])] == [1, 2]
        code, _, err = sordino("ledger", tmp_path / "l.db", "--client", "carl")
        assert code == 2
        assert "knows no client 'carl'" in err

    def test_the_two_parts_of_a_run_folder_are_found(self, sordino, run_folder):
        for part, names in {"private": ["ledger.db*"], "public": ["certificate.json", "run.json"]}.items():
            (run_folder / part).mkdir()
            for name in names:
                for file in list(run_folder.glob(name)):
                    file.rename(run_folder / part / file.name)
        code, out, _ = sordino("ledger", run_folder, "--verify")
        assert code == 0
        assert "certificate" in out

    @pytest.mark.parametrize("arguments", [("--client", "10"), ("--client", "-1")])
    def test_bad_clients(self, sordino, run_folder, arguments):
        code, _, err = sordino("ledger", run_folder, *arguments)
        assert code == 2
        assert "population" in err

    def test_missing_and_broken(self, sordino, run_folder, tmp_path):
        (tmp_path / "empty").mkdir()
        for path in (tmp_path / "none.db", tmp_path / "empty"):
            code, _, err = sordino("ledger", path)
            assert code == 2
            assert len(err.strip().splitlines()) == 1
        (run_folder / "certificate.json").write_text("{")
        assert sordino("ledger", run_folder, "--verify")[0] == 2
