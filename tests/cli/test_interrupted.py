"""A run that is stopped from the keyboard, or refused by the disk, says how to go on, and goes on to the same end."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest
import torch

from sordino.errors import StorageError
from sordino.runs.checkpoint import Checkpoint
from sordino.runs.client_store import ClientStore
from sordino.runs.folder import RunFolder
from sordino.server.side import Position
from sordino.terms import Knobs

STATEFUL = ("--set", "mechanism.name=fed_cad", "--set", "run.rounds=3")


@pytest.fixture(autouse=True)
def interruptible():
    """Tests that were started in the background ignore interrupts, and their children would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def sordino(*arguments, cwd, command="run", **more):
    return subprocess.Popen(
        [sys.executable, "-m", "sordino", command, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def test_stopped_from_the_keyboard_it_names_the_folder_and_the_way_on(tmp_path):
    long = ("--set", "mechanism.name=fed_ldp", "--set", "run.rounds=2000", "--set", "mechanism.noise_multiplier=9999")
    child = sordino(*long, cwd=tmp_path)
    while child.poll() is None and not any(tmp_path.glob("runs/*/private/checkpoint.safetensors")):
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    told, complaint = child.communicate(timeout=600)
    (folder,) = (tmp_path / "runs").iterdir()
    assert (child.returncode, told) == (130, "")
    way_on = f"stopped; `sordino run --out runs/{folder.name} --resume` goes on where it ended"
    assert complaint.strip().splitlines()[-1] == way_on  # before it, what a run warns of
    assert (folder / "private" / "checkpoint.safetensors").exists()


def nobody_is_left(group, seconds=300):
    """Returns whether all processes of a group have ended, or do so soon."""
    for _ in range(20 * seconds):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("stop", [lambda pid: os.killpg(pid, signal.SIGINT), lambda pid: os.kill(pid, signal.SIGTERM)])
def test_a_comparison_that_is_stopped_ends_all_its_runs_and_says_how_to_go_on(tmp_path, stop):
    """From a terminal, which interrupts the processes of the runs too, or by `kill`; more runs wait than are played."""
    long = ("--set", "run.rounds=20000", "--set", "mechanism.noise_multiplier=9999", "--seeds", "2", "--jobs", "2")
    child = sordino("dp_fedavg", "fed_ldp", *long, cwd=tmp_path, command="compare", start_new_session=True)
    while child.poll() is None and len(list(tmp_path.glob("comparison/**/private/metrics.jsonl"))) < 2:
        time.sleep(0.05)
    stop(child.pid)
    try:
        told, complaint = child.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        raise
    assert (child.returncode, told) == (130, "")
    assert complaint.strip().splitlines()[-1] == "stopped; the same command goes on where it ended"
    assert nobody_is_left(child.pid)
    assert len(list(tmp_path.glob("comparison/**/private/metrics.jsonl"))) == 2


def test_a_full_disk_is_one_sentence_and_the_run_goes_on_later(tmp_path, command):
    """The operating system refuses files above a megabyte, as a full disk would: clients' rows need more."""

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    child = sordino(*STATEFUL, "--out", "run", "--json", cwd=tmp_path, preexec_fn=full)
    told, complaint = child.communicate(timeout=600)
    assert (child.returncode, told) == (2, "")
    assert "clients.f32 cannot be written" in complaint
    assert len(complaint.strip().splitlines()) == 1
    outcomes = []
    for arguments in (("--out", "run", "--resume"), (*STATEFUL, "--out", "whole")):
        told = command("run", *arguments, "--json", cwd=tmp_path).stdout
        outcomes.append(json.loads(told)["test"])
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("name", ["fsync", "open"])
def test_a_file_is_replaced_whole_or_not_at_all(name, tmp_path, monkeypatch):
    folder, store = RunFolder(tmp_path), ClientStore()
    folder.prepare()
    folder.save(Checkpoint(Position(1, torch.ones(3), Knobs(1.0, 1.0), {}, {})), store)

    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, name, refuse)
        with pytest.raises(StorageError, match=r"checkpoint\.safetensors cannot be written .*--resume"):
            folder.save(Checkpoint(Position(2, torch.zeros(3), Knobs(1.0, 1.0), {}, {})), store)
    assert [path.name for path in folder.private.iterdir()] == ["checkpoint.safetensors"]
    assert folder.load(store).here.round_ == 1
