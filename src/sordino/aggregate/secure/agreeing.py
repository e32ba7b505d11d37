"""Many key agreements at once, on all cores: the cipher library does one at a time in a process.

Run as a program (`python -m sordino.aggregate.secure.agreeing`), it does a part of them for the process that started
it: secrets and public keys come in through its standard input, agreed secrets go out, and it ends.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, pairwise

from sordino.aggregate.secure.cores import CORES
from sordino.aggregate.secure.errors import KeySwapped
from sordino.aggregate.secure.keys import KEY, Agreement

Wanted = tuple[bytes, Sequence[bytes]]
"""A 32-byte secret, and the public keys to agree with."""

_CORES = CORES
_WORTH_A_PROCESS = 1 << 13  # agreements that take a core longer than to start a process
_U32 = struct.Struct("<I")


def agree_all(wanted: Sequence[Wanted]) -> list[list[bytes]]:
    """Returns the secrets that each secret's owner shares with the owners of the public keys.

    **Edge cases**: a public key of low order raises `KeySwapped`, wherever it is met. If no process can be started, or
    one ends early, the work is done here.
    """
    many = sum(len(publics) for _, publics in wanted) // _WORTH_A_PROCESS
    helpers = 0 if getattr(sys, "frozen", False) else min(_CORES - 1, many)  # frozen: the executable is no interpreter
    own, *others = [wanted[number :: helpers + 1] for number in range(helpers + 1)]
    started = [(part, _start(part)) for part in others]
    try:
        done = [_agree(own), *(_finish(part, helper) for part, helper in started)]
    finally:
        for _, helper in started:
            _end(helper)
    return [done[number % len(done)][number // len(done)] for number in range(len(wanted))]


def _agree(wanted: Sequence[Wanted]) -> list[list[bytes]]:
    agreed = []
    for secret, publics in wanted:
        own = Agreement.of(secret)
        agreed.append([own.with_(public) for public in publics])
    return agreed


def _start(part: Sequence[Wanted]) -> subprocess.Popen[bytes] | None:
    """Starts a process on a part of the work; secrets travel through a pipe, which nobody else can read."""
    lines = [secret + _U32.pack(len(publics)) + b"".join(publics) for secret, publics in part]
    command = [sys.executable, "-P", "-m", "sordino.aggregate.secure.agreeing"]  # -P: nothing from where we stand
    paths = os.pathsep.join(path for path in sys.path if path)
    helper = None
    try:
        helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  env={**os.environ, "PYTHONPATH": paths})  # fmt: skip
        assert helper.stdin is not None
        helper.stdin.write(b"".join(lines))
        helper.stdin.close()
    except OSError:
        _end(helper)
        return None
    return helper


def _end(helper: subprocess.Popen[bytes] | None) -> None:
    """Sees to it that a process is gone, and what it was told with it."""
    if helper is not None:
        helper.kill()
        with suppress(OSError), helper:
            pass


def _finish(part: Sequence[Wanted], helper: subprocess.Popen[bytes] | None) -> list[list[bytes]]:
    """Returns what a process has agreed on, or does its work if it has not done it."""
    sizes = [len(publics) for _, publics in part]
    whole = b"" if helper is None or helper.stdout is None else helper.stdout.read()
    if len(whole) != KEY * sum(sizes):
        return _agree(part)
    starts = [KEY * start for start in accumulate(sizes, initial=0)]
    return [[whole[at : at + KEY] for at in range(a, b, KEY)] for a, b in pairwise(starts)]


def _serve(told: bytes) -> bytes:
    """Does what `_start` asks for."""
    wanted, at = list[Wanted](), 0
    while at < len(told):
        secret, count = told[at : at + KEY], _U32.unpack_from(told, at + KEY)[0]
        at += KEY + _U32.size
        wanted.append((secret, [told[start : start + KEY] for start in range(at, at + KEY * count, KEY)]))
        at += KEY * count
    return b"".join(b"".join(agreed) for agreed in _agree(wanted))


if __name__ == "__main__":
    try:
        sys.stdout.buffer.write(_serve(sys.stdin.buffer.read()))
    except KeySwapped:
        sys.exit(1)
