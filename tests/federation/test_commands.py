"""`sordino federation` and `sordino node` as commands: what they make; one sentence and exit code 2 for mistakes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sordino.events import Charge, GaussianDpEvent, Guarantee
from sordino.federation import operate
from sordino.federation.folder import FederationFolder
from sordino.federation.node_folder import NodeFolder
from sordino.federation.node_statement import state
from sordino.federation.status import FederationStatus, NodeStatus

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sordino(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in this process; returns (exit code, stdout, stderr)."""
    from sordino.cli.app import app, main

    def run(*arguments: object) -> tuple[int, str, str]:
        app.registered_commands.clear()
        app.registered_groups.clear()
        monkeypatch.setattr(sys, "argv", ["sordino", *map(str, arguments)])
        try:
            main()
            code: object = 0
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        return int(str(code)), captured.out, captured.err

    return run


@pytest.fixture
def made(sordino: Run, tmp_path: Path) -> tuple[Path, Path]:
    """An operator's folder and one member's, by the commands of the guide."""
    operator, node = tmp_path / "federation", tmp_path / "node"
    assert sordino("federation", "init", operator, "--name", "hospitals", "--host", "fed.example.org")[0] == 0
    code, out, _ = sordino("node", "init", node, "--join", operator / "join.json", "--name", "a")
    assert code == 0 and "application.json" in out and FederationFolder(operator).operator.public.hex() in out
    assert sordino("federation", "enrol", operator, node / "application.json")[0] == 0
    code, out, _ = sordino("node", "registry", node, operator / "registry.json")
    assert code == 0 and "a is member 0" in out
    return operator, node


def test_what_a_node_sends_holds_public_keys_and_nothing_else(made: tuple[Path, Path]) -> None:
    told = json.loads((made[1] / "application.json").read_text())
    assert set(told) == {"name", "signing", "transport"} and told["transport"].startswith("ecdsa-sha2-nistp384 ")


def test_check_says_what_is_missing_for_a_start(sordino: Run, made: tuple[Path, Path]) -> None:
    _, node = made
    code, _, err = sordino("node", "check", node)
    assert code == 2 and "records.npz is missing" in err
    np.savez(node / "data" / "records.npz", x=np.zeros((3, 4), np.float32), y=np.arange(3))
    code, out, _ = sordino("node", "check", node)
    assert code == 0 and "records: 3 of shape [4]" in out and "unbroken" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("node", "init", "{node}", "--join", "{operator}/join.json", "--name", "a"), "holds a node already"),
        (("node", "init", "{new}", "--join", "{operator}/nothing", "--name", "a"), "is not a federation's join.json"),
        (("node", "check", "{new}"), "is not a node's folder"),
        (("node", "start", "{new}"), "is not a node's folder"),
        (("node", "certificate"), "name the node's folder"),
        (("federation", "init", "{operator}", "--name", "x", "--host", "h"), "holds a federation already"),
        (("federation", "enrol", "{operator}", "{operator}/ca/ca.crt"), "is not an application"),
        (("federation", "enrol", "{operator}", "{node}/application.json"), "have the same"),
        (("federation", "dismiss", "{operator}", "z"), "is not in registry version 2"),
        (("federation", "run", "--folder", "{operator}"), "has no recipe yet"),
        (("federation", "run", "--folder", "{new}"), "is not a federation's folder"),
        (("federation", "status", "{operator}"), "has no run yet"),
        (("federation", "serve", "{new}"), "is not a federation's folder"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(
    sordino: Run, made: tuple[Path, Path], tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    places = {"operator": made[0], "node": made[1], "new": tmp_path / "new"}
    code, out, err = sordino(*(argument.format(**places) for argument in arguments))
    assert code == 2 and sentence in err and out == ""
    assert err.startswith("sordino: ") and err.count("\n") == 1 and "Traceback" not in err


RECIPE = """
mechanism.name = "dp_sgd"
public.population = 8
public.records = 800
public.classes = 2
public.shape = [4]
model.name = "linear"
{more}
"""


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("train.learning_rate = 0.3", "train.learning_rate has no effect under dp_sgd"),
        ("opening.ridge = 0.5", "opening.ridge has no effect without opening.channel_moment"),
        ("aggregate.trim = 2", "aggregate.trim has no effect on a single sum"),
        ("partition.clients = 8", "partition.clients has no effect across machines"),
        ("dropout.rate = 0.1", "dropout.rate has no effect across machines"),
        ("public.part = true", "public.part has no effect across machines"),
        ("public.sizes = true", "public.sizes has no effect across machines"),
        ('data.name = "adult"', "data.name has no effect across machines, where records lie with the members"),
        ('data.file = "all.csv"', "data.file has no effect across machines"),
        ("run.notes = true", "run.notes has no effect across machines"),
        ('ledger.plan = "whole"', "ledger.plan has no effect across machines, where noise is planned for the whole"),
        ('aggregate.fidelity = "masked"', "aggregate.fidelity has no effect across machines"),
        ('aggregate.kind = "plain"', "aggregate.kind is 'plain' under distributed trust"),
    ],
)
def test_settings_without_effect_are_refused_before_anything_starts(
    sordino: Run, made: tuple[Path, Path], tmp_path: Path, more: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operate, "start_superlink", None)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(more=more))
    code, out, err = sordino("federation", "run", recipe, "--folder", made[0])
    assert code == 2 and sentence in err and out == "" and err.count("\n") == 1
    assert not (made[0] / "run").exists()


def test_who_left_is_told_so(sordino: Run, made: tuple[Path, Path]) -> None:
    operator, node = made
    assert "0 members" in sordino("federation", "dismiss", operator, "a")[1]
    code, _, err = sordino("node", "registry", node, operator / "registry.json")
    assert code == 2 and "has left the federation" in err


def test_renewing_keeps_the_authority_so_that_nodes_need_nothing_new(sordino: Run, made: tuple[Path, Path]) -> None:
    folder = FederationFolder(made[0])
    before = folder.server_certificate.read_bytes(), folder.authority.certificate.read_bytes()
    assert sordino("federation", "renew", made[0])[0] == 0
    assert folder.server_certificate.read_bytes() != before[0]
    assert folder.authority.certificate.read_bytes() == before[1]
    assert folder.registry.version == 3


def test_a_nodes_certificate_is_its_own_ledger_signed(sordino: Run, made: tuple[Path, Path], tmp_path: Path) -> None:
    _, path = made
    node, guarantee = NodeFolder(path), Guarantee("record", "server", "add_remove")
    with node.ledger() as ledger:
        for round_ in (1, 2):
            ledger.reserve("run", round_, np.array([0]), (Charge(guarantee, GaussianDpEvent(4.0)),))
    code, out, _ = sordino("node", "certificate", path)
    assert code == 0 and "2 messages left this node" in out
    code, out, _ = sordino("node", "certificate", path, "--json")
    told = json.loads(out)
    # two Gaussians of multiplier 4 are one of 4/√2: ε at δ = 1e-5 by the closed form (Balle and Wang 2018) is 1.4364
    assert told["promises"][0]["epsilon"] == pytest.approx(_gaussian_epsilon(4 / 2**0.5, 1e-5), rel=1e-6)
    statement = tmp_path / "statement.json"
    statement.write_text(out)
    key = node.identity.public.hex()
    assert sordino("node", "certificate", "--check", statement, "--key", key)[0] == 0
    assert "not by" in sordino("node", "certificate", "--check", statement, "--key", "00" * 32)[2]
    statement.write_text(json.dumps(told | {"releases": 1}))
    code, _, err = sordino("node", "certificate", "--check", statement)
    assert code == 2 and "was changed" in err


def test_what_a_nodes_certificate_rests_on_follows_from_its_policy(made: tuple[Path, Path]) -> None:
    """Members of the operator's invention are a share that works with the server: the statement says how large."""
    operator, path = made
    told = state(NodeFolder(path))
    assert told.members == FederationFolder(operator).registry.digest
    assert any("share of 0 of them" in sentence and "invention" in sentence for sentence in told.rests_on)
    assert not any("central" in sentence for sentence in told.rests_on)
    own = NodeFolder(path).policy
    wider = own.mechanism.model_copy(update={"trusts": ("central",)})
    NodeFolder(path).policy_file.write_text(own.model_copy(update={"mechanism": wider}).to_toml())
    assert any("nothing is promised against the server" in one for one in state(NodeFolder(path)).rests_on)


def test_members_are_enrolled_all_or_none(sordino: Run, made: tuple[Path, Path], tmp_path: Path) -> None:
    operator, _ = made
    before = FederationFolder(operator).registry
    assert sordino("node", "init", tmp_path / "c", "--join", operator / "join.json", "--name", "c")[0] == 0
    broken = tmp_path / "broken.json"
    broken.write_text('{"name": "d"}')
    code, _, err = sordino("federation", "enrol", operator, tmp_path / "c" / "application.json", broken)
    assert code == 2 and "lacks" in err
    assert FederationFolder(operator).registry == before


def _gaussian_epsilon(multiplier: float, delta: float) -> float:
    from math import exp

    from scipy.optimize import brentq
    from scipy.stats import norm

    def excess(epsilon: float) -> float:
        a, b = 0.5 / multiplier, epsilon * multiplier
        return float(norm.cdf(a - b) - exp(epsilon) * norm.cdf(-a - b)) - delta

    return float(brentq(excess, 1e-6, 50, xtol=1e-12))


def test_status_shows_nodes_rounds_epsilon_and_who_is_late(sordino: Run, made: tuple[Path, Path]) -> None:
    operator, _ = made
    status = FederationStatus(
        federation="hospitals",
        state="running",
        round=3,
        rounds=8,
        stage="mask",
        deadline=1.0,
        epsilon={"record/server": 1.25},
        nodes=[NodeStatus(name="a", number=0, state="asked", stage="mask", answered=2, since=1.0)],
        events=["b: no answer to share in time"],
    )
    status.write(FederationFolder(operator).status_file)
    code, out, _ = sordino("federation", "status", operator, "--once")
    assert code == 0
    for word in ("round 3 of 8", "1.25", "late", "no answer to share"):
        assert word in out
    assert json.loads(sordino("federation", "status", operator, "--json")[1])["nodes"][0]["answered"] == 2
