"""Nodes that vanish, a server that is killed, keys used twice: nothing is forgotten, and the next round works."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import torch

from federation.disks import fill, small_disk
from federation.village import Village, simulated, village
from sordino.account.certificate.document import CertificateDocument
from sordino.account.ledger.ledger import Ledger
from sordino.aggregate.secure.state import SumState
from sordino.errors import FederationError
from sordino.federation import network
from sordino.federation.deadlines import Deadlines
from sordino.federation.grid import Fate, InProcessGrid
from sordino.federation.memory import NodeMemory
from sordino.federation.node_folder import NodeFolder
from sordino.federation.status import FederationStatus
from sordino.runs.folder import RunFolder

SMALL = ("partition.clients=7", "run.rounds=2", "budget.epsilon=20", "aggregate.tolerance=0.3")
SUM_STAGES = ("advertise", "share", "mask", "consent", "unmask")
PATIENT = Deadlines(gather=1e9)


def made(path: Path, *settings: str) -> Village:
    return village(path, *simulated(*SMALL, "mechanism.name=dropout_robust", *settings))


def charged(folder: NodeFolder) -> int:
    with folder.ledger(write=False) as ledger:
        return len(ledger.entries)


def books(of: Village) -> Ledger:
    return Ledger.open(RunFolder(of.folder.run_dir).ledger, write=False)


def status(of: Village) -> FederationStatus:
    told = FederationStatus.read(of.folder.status_file)
    assert told is not None
    return told


@pytest.mark.parametrize("stage", SUM_STAGES)
@pytest.mark.parametrize("fate", ("deaf", "mute", "gone"))
def test_a_node_that_is_lost_at_a_stage_is_a_dropout_of_that_stage(stage: str, fate: Fate, tmp_path: Path) -> None:
    here = made(tmp_path, "run.rounds=1")
    here.fates = lambda node, kind: fate if (node, kind) == (4, f"query.{stage}") else "answer"
    here.deployment().play()
    line = RunFolder(here.folder.run_dir).metrics()[0]
    in_sum = SUM_STAGES.index(stage) > SUM_STAGES.index("mask")
    assert "aborted" not in line
    assert (line["cohort"], line["survivors"]) == (7, 7 if in_sum else 6)
    assert status(here).node(4).state == "lost"
    # it pays in its own ledger if its message left it, and in the server's if it may have
    left = in_sum or (stage == "mask" and fate == "mute")
    assert charged(here.nodes[4]) == left
    with books(here) as ledger:
        assert (4 in ledger.entries[0].participants.ids()) == (in_sum or stage == "mask")


@pytest.mark.parametrize("stage", SUM_STAGES)
def test_too_few_abort_a_round_and_the_next_one_works(stage: str, tmp_path: Path) -> None:
    here, seen = made(tmp_path), list[int]()
    stay = 3 if stage == "unmask" else 4  # 5 of 7 must send, 4 of 7 can open

    def fates(node: int, kind: str) -> Fate:
        if kind != f"query.{stage}" or node < stay or len(seen) >= 7 - stay:
            return "answer"
        seen.append(node)
        return "deaf"

    here.fates = fates
    last = here.deployment(least=3).play()
    first, second = RunFolder(here.folder.run_dir).metrics()
    assert "needed" in first["aborted"]
    assert second["survivors"] == 7
    assert last.here.round_ == 2
    assert "round 1 was aborted" in " ".join(status(here).events)
    with books(here) as ledger:  # what no node was asked for costs nothing; what was stays spent
        paid = [bool(entry.charges) for entry in ledger.entries]
    assert paid == [SUM_STAGES.index(stage) >= SUM_STAGES.index("mask"), True]


class Killed(BaseException):
    """kill -9: nothing catches it."""


@pytest.mark.parametrize("stage", ("hello", *SUM_STAGES))
def test_a_server_that_is_killed_goes_on_with_nothing_forgotten(stage: str, tmp_path: Path) -> None:
    here = made(tmp_path, "run.rounds=3")
    grid = here.grid()
    pushed = grid.push_messages

    def fatal(messages):  # type: ignore[no-untyped-def]
        listed = list(messages)
        if listed and listed[0].metadata.message_type == f"query.{stage}":
            pushed(listed[:4])  # some nodes get it still
            raise Killed
        return pushed(listed)

    grid.push_messages = fatal  # type: ignore[method-assign]
    with pytest.raises(Killed):
        here.deployment(grid).play()
    with books(here) as ledger:
        assert len(ledger.entries) == (stage != "hello")
    last = here.deployment(here.grid()).play()
    lines = RunFolder(here.folder.run_dir).metrics()
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert ["aborted" in line for line in lines] == [stage != "hello", False, False]
    assert last.stopped == "rounds"
    with books(here) as ledger:
        assert [entry.round_ for entry in ledger.entries] == [1, 2, 3]
        assert all(entry.charges for entry in ledger.entries)
    mask_left = stage in ("mask", "consent", "unmask")
    assert charged(here.nodes[0]) == 2 + (mask_left or stage == "hello")


def test_a_run_that_was_killed_between_rounds_ends_with_the_same_certificate(tmp_path: Path) -> None:
    here = made(tmp_path, "run.rounds=3")
    grid = here.grid()
    pushed, rounds = grid.push_messages, list[str]()

    def fatal(messages):  # type: ignore[no-untyped-def]
        listed = list(messages)
        rounds.extend(m.metadata.message_type for m in listed[:1] if m.metadata.message_type == "query.advertise")
        if len(rounds) == 2:
            raise Killed
        return pushed(listed)

    grid.push_messages = fatal  # type: ignore[method-assign]
    with pytest.raises(Killed):
        here.deployment(grid).play()
    here.deployment().play()
    told = CertificateDocument.from_json(RunFolder(here.folder.run_dir).certificate_file.read_text())
    assert told.releases == 3
    assert not told.simulation
    assert told.promise("client", "server").epsilon == pytest.approx(20, rel=0.02)
    words = " ".join(told.statement.deployment)
    for part in ("server's operator sees", "another node sees", "outsider", "registry version 8", "TLS", "flwr 1.41"):
        assert part in words
    assert "node-3" not in told.to_json()


def test_a_key_that_two_nodes_use_lets_one_of_them_in(tmp_path: Path) -> None:
    here = made(tmp_path, "run.rounds=1")
    grid = here.grid()
    configs = {**grid.node_configs, 999: {"folder": str(here.nodes[2].path)}}
    twice = InProcessGrid({**grid.apps, 999: grid.apps[100]}, configs)
    here.deployment(twice).play()
    assert any("which is in use already" in line for line in status(here).events)
    assert RunFolder(here.folder.run_dir).metrics()[0]["survivors"] == 7
    assert charged(here.nodes[2]) == 1


def dated(of: Village, **changes: object) -> str:
    """Returns the registry's next version as the operator might have signed it at another time."""
    old = of.folder.registry
    return old.model_copy(update={"version": old.version + 1, **changes}).sign(of.folder.operator).to_json()


def test_an_expired_registry_and_a_wrong_clock_keep_their_nodes_out_and_the_operator_reads_why(tmp_path: Path) -> None:
    """A registry that was signed in a machine's future is one whose clock is behind."""
    here, now = made(tmp_path, "run.rounds=1"), datetime.now(UTC)
    here.nodes[5].registry_file.write_text(dated(here, valid_until=now - timedelta(minutes=1)))
    here.nodes[6].registry_file.write_text(dated(here, issued=now + timedelta(hours=1)))
    here.deployment().play()
    told = "\n".join(status(here).events)
    assert "expired on" in told and "set the clock" in told
    assert RunFolder(here.folder.run_dir).metrics()[0]["survivors"] == 5
    assert [charged(node) for node in here.nodes] == [1, 1, 1, 1, 1, 0, 0]


def test_a_node_that_comes_late_joins_the_next_round(tmp_path: Path) -> None:
    here = made(tmp_path, "run.rounds=3")
    grid = here.grid([0, 1, 2, 3, 4, 5])
    grid.node_configs = {**grid.node_configs, 106: {"folder": str(here.nodes[6].path)}}
    pushed, asked = grid.push_messages, list[str]()

    def later(messages):  # type: ignore[no-untyped-def]
        listed = list(messages)
        asked.extend(m.metadata.message_type for m in listed[:1])
        if asked.count("query.unmask") == 1:
            grid.apps[106] = grid.apps[100]
        return pushed(listed)

    grid.push_messages = later  # type: ignore[method-assign]
    here.deployment(grid).play()
    assert [line["cohort"] for line in RunFolder(here.folder.run_dir).metrics()] == [6, 7, 7]


def test_a_member_that_is_enrolled_during_a_run_takes_part(tmp_path: Path) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp", "run.rounds=3", "public.population=8")
    here = village(tmp_path, recipe, data)
    grid, new = here.grid(), NodeFolder(tmp_path / "node-7")
    pushed, asked = grid.push_messages, list[str]()

    def enrol() -> None:
        new.make("node-7", here.nodes[0].server, here.nodes[0].policy, here.folder.authority.certificate.read_bytes())
        own = data.gather(np.array([0]))
        np.savez(new.path / "data" / "records.npz", x=own.x.numpy(), y=own.y.numpy())
        here.folder.enrol(new.application())
        for node in (*here.nodes, new):
            node.registry_file.write_bytes(here.folder.registry_file.read_bytes())
        grid.node_configs = {**grid.node_configs, 107: {"folder": str(new.path)}}
        grid.apps[107] = grid.apps[100]

    def later(messages):  # type: ignore[no-untyped-def]
        listed = list(messages)
        sent = pushed(listed)
        asked.extend(m.metadata.message_type for m in listed[:1])
        if asked.count("query.contribute") == 1 and 107 not in grid.apps:
            enrol()
        return sent

    grid.push_messages = later  # type: ignore[method-assign]
    here.deployment(grid).play()
    assert [line["cohort"] for line in RunFolder(here.folder.run_dir).metrics()] == [7, 8, 8]
    assert charged(new) == 2


@pytest.mark.parametrize("name", ("fed_ldp", "dropout_robust"))
def test_a_full_disk_on_a_node_is_a_sentence_and_costs_nothing(name: str, tmp_path: Path) -> None:
    here = village(tmp_path, *simulated(*SMALL, f"mechanism.name={name}"))
    with small_disk(here.nodes[5].state_dir) as disk:
        fillers: list[Path] = []

        def fates(node: int, kind: str) -> Fate:
            if kind in ("query.contribute", "query.advertise") and not fillers:
                fillers.append(fill(disk))
            elif fillers and status(here).round == 2:
                fillers[0].unlink(missing_ok=True)  # somebody makes room before the second round
            return "answer"

        here.fates = fates
        here.deployment().play()
        told = status(here)
        why = next(event for event in told.events if event.startswith("node-5"))
        assert "No space left on device" in why or "nothing was released, check the disk" in why
        first, second = RunFolder(here.folder.run_dir).metrics()
        assert first["survivors"] == 6
        assert second["survivors"] == 7
        assert [charged(node) for node in here.nodes] == [2, 2, 2, 2, 2, 1, 2]


def test_a_run_without_enough_nodes_says_so_and_can_be_resumed(tmp_path: Path) -> None:
    here = made(tmp_path, "run.rounds=1")
    with pytest.raises(FederationError, match=r"2 nodes are there and 4 are needed.*start node-2, node-3, node-4"):
        here.deployment(here.grid([0, 1])).play()
    with pytest.raises(FederationError, match=r"8 nodes are needed .* the registry has 7 members"):  # nobody waits
        here.deployment(least=8, deadlines=PATIENT).play()
    assert status(here).state == "failed"
    assert here.deployment().play().here.round_ == 1
    assert status(here).state == "stopped"


def test_fed_cads_memory_survives_on_the_nodes_disk_and_is_used(tmp_path: Path) -> None:
    here = village(tmp_path, *simulated(*SMALL, "mechanism.name=fed_cad"))
    here.deployment().play()
    run = RunFolder(here.folder.run_dir).facts()["run"]
    memory = NodeMemory(here.nodes[3].state_dir / "rounds").state(run)
    width = len(here.deployment().context.weights)
    assert memory.rows.shape == (1, 2 * width + 2)
    assert bool(memory.known[0])
    assert 0 < float(memory.rows[0, -2]) < 1  # the second message reuses the first's noise: less variance than fresh
    assert torch.isfinite(memory.rows).all()


def test_secrets_of_a_round_that_never_ended_are_erased_when_the_next_begins(tmp_path: Path) -> None:
    here, seen = made(tmp_path), list[int]()

    def fates(node: int, kind: str) -> Fate:
        if kind == "query.consent" and len(seen) < 7:
            seen.append(node)
            return "deaf"
        return "answer"

    here.fates = fates
    here.deployment().play()
    for node in here.nodes:
        kept = [path for path in (node.state_dir / "rounds").iterdir() if path.suffix in (".kept", ".sum")]
        assert kept == []
        sums = sorted(node.sums_dir.glob("*.sum"))
        assert len(sums) == 2
        assert all(SumState.parse(path.read_bytes()).root == b"" for path in sums)


def test_nobody_waits_for_a_node_that_was_silent_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, slept, sleep = made(tmp_path, "run.rounds=3"), list[float](), network.time.sleep
    monkeypatch.setattr(network.time, "sleep", lambda seconds: (slept.append(seconds), sleep(seconds)))
    gone = list[str]()

    def fates(node: int, kind: str) -> Fate:
        if node == 4 and (gone or kind == "query.mask"):
            gone.append(kind)
            return "deaf"
        return "answer"

    here.fates = fates
    here.deployment(deadlines=Deadlines(stage=120.0, train=1.0, gather=300.0)).play()
    assert [line["cohort"] for line in RunFolder(here.folder.run_dir).metrics()] == [7, 6, 6]
    assert gone == ["query.mask", "query.hello"]
    assert sum(slept) < 100.0  # one stage's deadline would be longer
