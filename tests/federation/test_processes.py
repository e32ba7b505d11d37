"""SuperLink and SuperNodes as real processes, over TLS, with authenticated nodes: a whole run, and what breaks it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from federation.real import eventually, later, real
from sordino.account.certificate.check import check
from sordino.account.certificate.document import CertificateDocument
from sordino.federation import keys
from sordino.federation.control import control
from sordino.federation.journal import Journal
from sordino.federation.node_folder import NodeFolder
from sordino.federation.node_statement import state
from sordino.federation.processes import marked, start_node
from sordino.federation.status import FederationStatus
from sordino.runs.folder import RunFolder

SUM_STAGES = ("advertise", "share", "mask", "consent", "unmask")

pytest.importorskip("flwr")
pytestmark = pytest.mark.slow


def test_a_run_over_tls_survives_a_killed_node_a_killed_server_and_ends_with_a_certificate(tmp_path: Path) -> None:
    """One federation, one run, all that may happen to it: starting processes is what takes the time."""
    with real(tmp_path, count=6, rounds=5, more="[opening]\nfeature_mean = 0.2\n") as here:
        here.start("n0", "n1", "n2", "n3", "n4")
        done: set[str] = set()

        def watch(status: FederationStatus) -> None:
            if status.round == 1 and status.stage == "mask" and "late" not in done:
                done.add("late")
                here.start("n5")  # while the others play
            if status.round == 2 and status.stage == "mask" and "killed" not in done:
                done.add("killed")
                here.nodes["n1"].kill()  # in the middle of a secure sum
            if status.round == 3 and status.stage == "share" and "server" not in done:
                done.add("server")
                os.kill(int(here.operator.serverapp_pid.read_text()), signal.SIGKILL)

        status = here.play(watch)
        assert done == {"late", "killed", "server"} and status.state == "stopped" and status.round == 5
        assert "the ServerApp is gone" in here.said

        folder = RunFolder(here.operator.run_dir)
        lines = folder.metrics()
        assert [line["round"] for line in lines] == [1, 2, 3, 4, 5]
        assert lines[0]["survivors"] == 5 and lines[1]["survivors"] == lines[1]["cohort"] - 1
        assert "aborted" in lines[2], "the round in which the server was killed is not played again"
        assert "aborted" not in lines[4] and folder.model_file.exists()

        document = CertificateDocument.from_json(folder.certificate_file.read_text())
        assert not document.simulation and document.statement.deployment
        assert list(check(folder.certificate_file))
        epsilon = document.promise("record", "server").epsilon
        assert epsilon is not None and 0 < epsilon <= 8
        # each node's own ledger: the killed one paid for what left it, the late one for what it was asked
        own = state(NodeFolder(here.members["n0"].path))
        promised, told = own.promises[0], [here.charged(f"n{n}", rounds=False) for n in range(6)]
        assert own.releases == here.charged("n0") + told[0] >= 1  # on a busy machine it may be late for some rounds
        assert promised["price"] <= promised["epsilon"] <= 10 * (1 + 1e-9)
        # the charged sum before the first round: everybody who was there paid for it, once, and the model knows it
        assert set(told[:5]) <= {0, 1} and sum(told[:5]) >= 4 and told[5] == 0
        assert Journal(folder.private).concluded("FeatureMean")
        assert 1 <= here.charged("n1") <= 2
        answered = status.node(5).answered > 0  # on a busy machine it may come when all is over
        assert here.charged("n5") >= 1 or not answered


@pytest.mark.faults
def test_a_node_is_killed_at_each_stage_of_the_secure_sum_and_each_round_works(tmp_path: Path) -> None:
    with real(tmp_path, count=9, rounds=5) as here:
        here.start(*here.members)
        for round_, stage in enumerate(SUM_STAGES, 1):
            turn = 1 + 5 * (round_ - 1) + 1 + SUM_STAGES.index(stage)  # a greeting, then five messages a round
            later(partial(here.doom, f"n{round_}", turn))
        status = here.play()
        lines = RunFolder(here.operator.run_dir).metrics()
        assert [line["round"] for line in lines if "aborted" not in line] == [1, 2, 3, 4, 5]
        assert [line["cohort"] for line in lines] == [9, 8, 7, 6, 5]
        # whoever sent its masked vector is in the sum, killed afterwards or not
        assert [line["survivors"] for line in lines] == [8, 7, 6, 6, 5]
        for round_, stage in enumerate(SUM_STAGES, 1):
            told = status.node(round_)
            assert (told.state, told.stage, told.round) == ("lost", stage, round_)
            left = round_ if stage in ("consent", "unmask") else round_ - 1
            assert here.charged(f"n{round_}") == left, "its own ledger knows what left it"


def test_strangers_and_wrong_certificates_are_kept_out(tmp_path: Path) -> None:
    with real(tmp_path, count=3, rounds=1) as here, control(here.operator) as link:
        assert link.register_members() == ["n0", "n1", "n2"] and link.register_members() == []
        # a login key that nobody registered
        keys.make_transport_key(here.members["n0"].transport_key)
        # a server whose certificate comes from another authority
        other = keys.Authority(tmp_path / "other.crt", tmp_path / "other.key")
        other.make("another")
        here.members["n1"].authority.write_bytes(other.certificate.read_bytes())
        here.start("n0", "n1", "n2")
        assert eventually(lambda: link.online()["n2"]), here.nodes["n2"].tail()
        assert eventually(lambda: not here.nodes["n0"].alive), "a key that is not registered is refused"
        assert eventually(lambda: "certificate" in here.nodes["n1"].tail(60).lower()), here.nodes["n1"].tail(60)
        assert link.online() == {"n0": False, "n1": False, "n2": True}
        # a second SuperNode with the same key, from a copy of the folder
        twin = tmp_path / "twin"
        shutil.copytree(here.members["n2"].path, twin, ignore=shutil.ignore_patterns("*.sock", "*.log"))
        here.nodes["twin"] = start_node(twin)
        assert eventually(lambda: not here.nodes["twin"].alive), here.nodes["twin"].tail()
        assert link.online()["n2"] and here.nodes["n2"].alive
        # who leaves is not let in again
        here.operator.dismiss("n2")
        link.register_members()
        assert "n2" not in link.online()


@pytest.mark.faults
def test_a_superlink_is_restarted_a_node_cut_off_and_a_disk_full_and_nothing_is_lost(tmp_path: Path) -> None:
    with real(tmp_path, count=8, rounds=4) as here:
        # a registry that has expired, and one from the future of a machine whose clock is behind
        now, old = datetime.now(UTC), here.operator.registry
        for name, dates in (("n6", {"valid_until": now}), ("n7", {"issued": now + timedelta(hours=12)})):
            other = old.model_copy(update={"version": old.version + 1, **dates}).sign(here.operator.operator)
            here.members[name].registry_file.write_text(other.to_json())
        # nothing can be written below a file, whoever tries: root, too, as on a disk that is full
        (here.members["n5"].state_dir / "rounds").write_text("")
        here.start(*here.members)
        done: set[str] = set()

        def watch(status: FederationStatus) -> None:
            if status.round == 1 and status.stage == "mask" and "cut" not in done:
                done.add("cut")
                _each(here.nodes["n3"].mark, signal.SIGSTOP)  # as a machine that is unplugged
                later(cut_off)
            if status.round == 2 and status.stage == "advertise" and "link" not in done:
                assert "back" in done, "the second round waits for the node that was cut off"
                done.add("link")
                assert here.link is not None
                here.link.kill()

        def cut_off() -> None:
            time.sleep(60.0)
            done.add("back")
            _each(here.nodes["n3"].mark, signal.SIGCONT)

        status = here.play(watch, least=5)
        assert done == {"cut", "back", "link"} and status.state == "stopped"
        assert "the SuperLink is gone" in here.said
        lines = RunFolder(here.operator.run_dir).metrics()
        assert [line["round"] for line in lines] == [1, 2, 3, 4]
        assert lines[0]["survivors"] == 4 and "aborted" in lines[1]
        # the node that was cut off for a minute is back: the rounds after that have it, and it has paid for them
        assert lines[3]["cohort"] == lines[3]["survivors"] == 5
        paid = [line for line in lines if "aborted" not in line]
        assert here.charged("n0") >= len(paid) >= 2
        assert here.charged("n3") >= len([line for line in paid if line["round"] > 2]) >= 1
        # the node that cannot write says so, and neither pays nor is counted
        told = [event for event in status.events if "disk" in event or "cannot be written" in event]
        assert told and here.charged("n5") == 0
        for name, why in (("n6", "expired on"), ("n7", "set the clock")):
            assert any(why in event for event in status.events) and here.charged(name) == 0


def _each(mark: str, which: signal.Signals) -> None:
    for pid in marked(mark):
        os.kill(pid, which)
