"""Times secure sums and integer noise: `make bench-secagg`, or `python benchmarks/secagg.py --help`.

Up to 200 clients and the server run in this one process, one after the other; masks use all cores. Signatures that one
client has verified are remembered for the others of the process; `one client, cold` forgets them first, as a client on
a machine of its own has to verify them all. From 1,000 on, three clients are real (and cold; two of them have met the
others in an earlier round), the others a crowd (`secagg_crowd.py`) that says what a server needs to hear, one at a
time. Wall-clock and processor seconds are both printed: on a machine that is busy with other things the second tells
more.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from Crypto.Protocol.SecretSharing import Shamir
from rich.console import Console
from rich.table import Table
from secagg_crowd import Crowd

from sordino.aggregate.secure import keys, shares
from sordino.aggregate.secure.client import SumClient
from sordino.aggregate.secure.graph import Topology, choose
from sordino.aggregate.secure.keys import Identity
from sordino.aggregate.secure.policy import SumPolicy
from sordino.aggregate.secure.server import SumServer
from sordino.aggregate.secure.session import STAGES, SumStage, sum_terms
from sordino.aggregate.secure.state import SumState
from sordino.perturb.skellam import SkellamShares, skellam

CONSOLE = Console(width=132)
TOGETHER = 64
"""Messages that a server takes in at once."""


def processor_seconds() -> float:
    """Those of this process and of the ones that it has started, once they have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass
class Clock:
    """Wall-clock and processor seconds, by who spent them."""

    wall: dict[object, float] = field(default_factory=lambda: defaultdict(float))
    cpu: dict[object, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def __call__(self, *who: object) -> Iterator[None]:
        wall, cpu = time.perf_counter(), processor_seconds()
        yield
        for name in who:
            self.wall[name] += time.perf_counter() - wall
            self.cpu[name] += processor_seconds() - cpu


@dataclass(frozen=True)
class Case:
    name: str
    clients: int
    width: int
    vanish: float
    topology: Topology
    noise: SkellamShares | None = None
    bits: int = 32
    real: int = 0
    """How many clients are real (0: all)."""
    tagged: bool = False


def vector(case: Case, client: int) -> np.ndarray:
    return np.random.default_rng((case.width, client)).integers(0, 2**32, case.width, dtype=np.uint32)


class Forgetful:
    """A keeper that keeps nothing: a deployed client's keeper writes to its own disk."""

    def claim(self, state: SumState, releases: int, attempts: int = 8) -> None:
        pass

    def save(self, before: SumState, after: SumState) -> None:
        pass


def share_what_was_told(party: SumClient, shared: tuple | None) -> tuple:
    """Lets a client use the one copy of the roster, so that ten thousand fit into memory."""
    shared = shared or (party._state.roster, party._view)
    party._state = replace(party._state, roster=shared[0])
    party.__dict__["_view"] = shared[1]
    return shared


def take(server: SumServer, waiting: list[bytes]) -> None:
    """Gives the server what has come in since it last looked."""
    refused = [error for error in server.receive_all(waiting) if isinstance(error, Exception)]
    assert not refused, refused[0]
    waiting.clear()


def run(case: Case) -> tuple[Clock, dict[SumStage, list[int]], dict[SumStage, list[int]]]:
    """Plays one case, checks its sum, and returns who spent how long, and bytes sent and received by stage."""
    ids = np.arange(case.clients)
    terms = sum_terms(ids, case.topology, case.width, case.bits, reveals=case.noise is not None)
    gone = set(np.random.default_rng(5).choice(ids, int(case.vanish * case.clients), replace=False).tolist())
    identities = {client: Identity() for client in ids.tolist()}
    registry = {client: identity.public for client, identity in identities.items()}
    clock, sent, received = Clock(), defaultdict(list), defaultdict(list)
    expected, drawn = np.zeros(case.width, np.uint32), {}

    def noisy(client: int) -> np.ndarray:
        values = vector(case, client)
        if case.noise:
            with clock("clients", client, "noise"):
                drawn[client] = case.noise.draw(case.width, os.urandom)
                values += drawn[client].values.astype(np.uint32)
        np.add(expected, values, out=expected)
        return values

    def reveal(client: int, survivors: int) -> np.ndarray:
        with clock("noise"):
            removable = case.noise.removable(drawn.pop(client), survivors, os.urandom)
        np.subtract(expected, removable.astype(np.uint32), out=expected)
        return removable

    with clock("server"):
        server = SumServer(terms, registry)
    parties = {}
    for client in ids.tolist():
        with clock("clients", client):
            parties[client] = SumClient(terms, client, identities[client], registry, SumPolicy(), Forgetful())
    speak = {
        "advertise": lambda client, heard: client.advertise(),
        "share": SumClient.share,
        "mask": lambda client, heard, values=None: client.mask(heard, values),
        "consent": SumClient.consent,
        "unmask": lambda client, heard: client.unmask(heard, partial(reveal, client.client) if case.noise else None),
    }
    answers, shared, waiting = dict.fromkeys(ids.tolist(), b""), None, []
    cold = [client for client in ids.tolist() if client not in gone][:3]
    for stage in STAGES:
        for client, heard in answers.items():
            if client in gone and stage not in ("advertise", "share"):
                continue
            extra = (noisy(client),) if stage == "mask" else ()
            if client in cold:
                keys._signed.cache_clear()
            with clock("clients", client):
                message = speak[stage](parties[client], heard, *extra)
            if stage == "share":
                shared = share_what_was_told(parties[client], shared)
            if stage == "unmask":
                del parties[client]
            sent[stage].append(len(message))
            received[stage].append(len(heard))
            waiting.append(message)
            if len(waiting) == TOGETHER:
                with clock("server"):
                    take(server, waiting)
        with clock("server"):
            take(server, waiting)
            answers = server.close() if stage != "unmask" else {}
    with clock("server"):
        opened = server.open()
    assert (opened.total == expected).all(), "the sum is wrong"
    clock.wall["cold"] = max(clock.wall[client] for client in cold)
    clock.cpu["cold"] = max(clock.cpu[client] for client in cold)
    return clock, sent, received


def stream(case: Case) -> tuple[Clock, dict[SumStage, list[int]], dict[SumStage, list[int]]]:
    """Plays one case with a few real clients in a crowd: as `run`."""
    ids = list(range(case.clients))
    terms = sum_terms(np.array(ids), case.topology, case.width, case.bits, tagged=case.tagged)
    identities = {client: Identity() for client in ids}
    registry = {client: identity.public for client, identity in identities.items()}
    real = {client * case.clients // case.real: None for client in range(case.real)}
    rng = np.random.default_rng(5)
    gone = set(rng.choice(sorted(set(ids) - set(real)), int(case.vanish * case.clients), replace=False).tolist())
    crowd = Crowd(terms, identities, registry, set(real), gone)
    clock, sent, received, waiting = Clock(), defaultdict(list), defaultdict(list), []
    with clock("server"):
        server = SumServer(terms, registry)

    def speak(stage: SumStage, client: int, heard: bytes, call, *extra) -> bytes:
        if client not in real:
            return call()
        keys._signed.cache_clear()
        with clock(client):
            message = getattr(real[client], stage)(*([heard] if stage != "advertise" else []), *extra)
        sent[stage].append(len(message))
        received[stage].append(len(heard))
        return message

    def play(stage: SumStage, heard: dict[int, bytes], call, each=lambda client, message: None, extra=None) -> dict:
        for client in heard:
            if client in gone and stage not in ("advertise", "share"):
                continue
            more = (extra(client),) if extra else ()
            message = speak(stage, client, heard[client], lambda client=client, more=more: call(client, *more), *more)
            each(client, message)
            waiting.append(message)
            if len(waiting) == TOGETHER:
                with clock("server", f"server, {stage}"):
                    take(server, waiting)
        with clock("server", f"server, {stage}"):
            take(server, waiting)
        with clock("server", f"server, after {stage}"):
            return server.close() if stage != "unmask" else {}

    *later, first = real
    for client in later:  # lasting secrets are agreed on in the first round that two clients share
        identities[client].agreements(list(registry.values()))
    for client in real:
        with clock(client):
            real[client] = SumClient(terms, client, identities[client], registry, SumPolicy(corrupt=0.0), Forgetful())
    answers = play("advertise", dict.fromkeys(ids, b""), crowd.advertise)
    crowd.show(answers[next(iter(real))])
    overhear = lambda client, message: crowd.overhear(client, message) if client in real else None  # noqa: E731
    answers = play("share", answers, crowd.share, overhear)
    sharers, expected = np.ones(case.clients, bool), np.zeros(case.width, np.uint32)

    def added(client: int) -> np.ndarray:
        values = vector(case, client)
        np.add(expected, values, out=expected)
        return values

    answers = play("mask", answers, lambda client, values: crowd.mask(client, values, sharers), extra=added)
    alive = sharers.copy()
    alive[list(gone)] = False
    answers = play("consent", answers, lambda client: crowd.consent(client, sharers, alive))
    of_real = defaultdict(dict)
    for client, party in real.items():
        for holder, part in party._side.secrets().items():
            of_real[holder][client] = part
    play("unmask", answers, lambda client: crowd.unmask(client, alive, of_real[client]))
    with clock("server", "server, opening"):
        opened = server.open()
    assert (opened.total == expected).all(), "the sum is wrong"
    for seconds in (clock.wall, clock.cpu):
        seconds["cold"], seconds["later"] = seconds[first], max(seconds[client] for client in later)
    return clock, sent, received


def report(case: Case) -> None:
    clock, sent, received = stream(case) if case.real else run(case)
    graph = f"{case.topology.degree} neighbours" if case.topology.degree else "complete graph"
    CONSOLE.print(f"\n[bold]{case.name}[/bold]: {graph}, threshold {case.topology.threshold}")
    table = Table("", "wall s", "processor s")
    for name, who in (
        ("whole protocol, all parties", ("clients", "server")),
        ("server", ("server",)),
        ("one client, mean", ("clients",)),
        ("one client in its first round" if case.real else "one client, cold (longest of 3)", ("cold",)),
        ("one client in a later round (longest of 2)", ("later",)),
        ("of all clients: drawing and splitting noise", ("noise",)),
        *((name, (name,)) for name in clock.wall if str(name).startswith("server, ")),
    ):
        if case.real and "clients" in who:
            continue
        wall, cpu = (sum(seconds.get(w, 0.0) for w in who) for seconds in (clock.wall, clock.cpu))
        share = case.clients if name.endswith("mean") else 1
        if wall:
            table.add_row(name, f"{wall / share:.3f}", f"{cpu / share:.3f}")
    CONSOLE.print(table)
    traffic = Table("stage", "clients", "bytes sent per client", "bytes received per client")
    for stage in STAGES:
        up, down = np.mean(sent[stage]), np.mean(received[stage])
        traffic.add_row(stage, str(len(sent[stage])), f"{up:,.0f}", f"{down:,.0f}")
    upload, plain = sum(np.mean(sent[stage]) for stage in STAGES), case.width * case.bits / 8
    traffic.add_row("all", "", f"{upload:,.0f}", f"{sum(np.mean(received[s]) for s in STAGES):,.0f}")
    CONSOLE.print(traffic, f"upload: {upload / plain:.4f} × the plain vector of {plain:,.0f} bytes")


def report_noise() -> None:
    table = Table("Skellam variance", "million samples/s", "split, million/s", "entropy")
    for variance in (1, 15, 200, 15_000, 1_000_000):
        shares_ = SkellamShares(70.0 * variance, 70)
        noise = skellam(variance, 10**6, os.urandom)
        shares_.removable(noise, 90, os.urandom)  # makes the tables
        draw, split = (min(_seconds(f) for _ in range(3)) for f in (
            lambda variance=variance: skellam(variance, 10**6, os.urandom).values,
            lambda noise=noise, shares_=shares_: shares_.removable(noise, 90, os.urandom),
        ))  # fmt: skip
        table.add_row(f"{variance:,}", f"{1 / draw:.1f}", f"{1 / split:.1f}", "operating system")
    CONSOLE.print("\n[bold]exact noise[/bold], vectors of 10^6, shares for 70 split for 90 survivors", table)


def report_shamir() -> None:
    secret, holders, threshold, many = os.urandom(16), 100, 56, 1000
    parts = shares.split(secret, threshold, holders)
    some = dict(enumerate(parts[:threshold], 1))
    table = Table("Shamir, 16 bytes, 56 of 100", "split ms", "combine ms")
    ours = (lambda: shares.split(secret, threshold, holders), lambda: shares.combine(some, holders))
    theirs = (lambda: Shamir.split(threshold, holders, secret), lambda: Shamir.combine(list(some.items())))
    for name, (split, combine) in (("here", ours), ("pycryptodome", theirs)):
        table.add_row(name, *(f"{1000 * min(_seconds(f) for _ in range(3)):.2f}" for f in (split, combine)))
    whole = np.broadcast_to(np.frombuffer(b"".join(parts), np.uint8).reshape(holders, 16), (many, holders, 16))
    present = np.random.default_rng(0).random((many, holders)) >= 0.1
    bulk = min(_seconds(lambda: shares.combine_all(whole, present)) for _ in range(3))
    table.add_row("here, each of 1,000 at once, 10 % of the shares missing", "", f"{1000 * bulk / many:.2f}")
    CONSOLE.print(table)


def _seconds(call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def cases() -> list[Case]:
    hundred = choose(100, dropout=0.3, corrupt=0.1)
    two_hundred = choose(200, dropout=0.2, corrupt=0.05)
    thousand = choose(1000, dropout=0.11, corrupt=0.05)
    ten_thousand = choose(10_000, dropout=0.11, corrupt=0.01)
    return [
        Case("100 clients × 10^5, no dropout", 100, 10**5, 0.0, hundred),
        Case("100 clients × 10^5, 30 % dropouts", 100, 10**5, 0.3, hundred),
        Case("100 clients × 10^5, 10 % dropouts, integer noise", 100, 10**5, 0.1, hundred, SkellamShares(1e4, 70)),
        Case("200 clients × 10^5, 10 % dropouts, complete graph", 200, 10**5, 0.1, two_hundred),
        Case("1,000 clients × 10^6, 10 % dropouts", 1000, 10**6, 0.1, thousand, real=3, tagged=True),
        Case("1,000 clients × 10^6, 10 % dropouts, signed", 1000, 10**6, 0.1, thousand, real=3),
        Case("10,000 clients × 10^5, 10 % dropouts", 10_000, 10**5, 0.1, ten_thousand, real=3),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out 1,000 clients and more")
    parser.add_argument("--case", type=int, help="play this one case alone, counted from 0")
    arguments = parser.parse_args()
    gc.disable()  # a thousand clients in one process would pause each other
    if arguments.case is None:
        report_noise()
        report_shamir()
    chosen = cases()[: 4 if arguments.quick else None] if arguments.case is None else [cases()[arguments.case]]
    for each in chosen:
        report(each)
