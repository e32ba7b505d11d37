"""Agreements in other processes are the same as here, whatever becomes of those processes."""

import subprocess

import pytest

from sordino.aggregate.secure import agreeing
from sordino.aggregate.secure.agreeing import agree_all
from sordino.aggregate.secure.errors import KeySwapped
from sordino.aggregate.secure.keys import Agreement

PAIRS = [Agreement() for _ in range(5)]
WANTED = [(one.secret, [other.public for other in PAIRS[:size]]) for size, one in enumerate(PAIRS)]


def expected():
    return [[Agreement.of(secret).with_(public) for public in publics] for secret, publics in WANTED]


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_every_number_of_processes_agrees_on_the_same_secrets(monkeypatch, cores):
    monkeypatch.setattr(agreeing, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(agreeing, "_CORES", cores)
    started = []
    monkeypatch.setattr(
        agreeing, "_start", lambda part, start=agreeing._start: started.append(start(part)) or started[-1]
    )
    assert agree_all(WANTED) == expected()
    assert len(started) == cores - 1 and all(helper.returncode is not None for helper in started)


@pytest.mark.parametrize("program", ["import sys; sys.exit(3)", "print('nonsense')", "import time; time.sleep(600)"])
def test_a_process_that_fails_is_done_without(monkeypatch, program):
    monkeypatch.setattr(agreeing, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(agreeing, "_CORES", 2)
    real = subprocess.Popen

    def broken(command, **options):
        helper = real([command[0], "-c", program], **options)
        if "sleep" in program:
            helper.kill()
        return helper

    monkeypatch.setattr(subprocess, "Popen", broken)
    assert agree_all(WANTED) == expected()


def test_where_no_process_can_be_started_the_work_is_done_here(monkeypatch):
    monkeypatch.setattr(agreeing, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(agreeing.sys, "executable", "/nowhere/python")
    assert agree_all(WANTED) == expected()


@pytest.mark.parametrize("place", [0, 1])
def test_a_key_of_low_order_is_named_wherever_it_is_met(monkeypatch, place):
    monkeypatch.setattr(agreeing, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(agreeing, "_CORES", 2)
    wanted = [(one.secret, [PAIRS[0].public]) for one in PAIRS[:2]]
    wanted[place] = (PAIRS[0].secret, [bytes(32)])
    with pytest.raises(KeySwapped):
        agree_all(wanted)


def test_few_agreements_start_no_process(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert agree_all(WANTED) == expected()
    assert agree_all([]) == []
