"""A federation of real processes on this machine, for tests: small, and ended whatever happens."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sordino import data
from sordino.federation.folder import FederationFolder
from sordino.federation.node_folder import NodeFolder
from sordino.federation.operate import Operation
from sordino.federation.own_code import SOCKET
from sordino.federation.policy import BudgetPolicy, MechanismPolicy, Policy, WhoPolicy
from sordino.federation.processes import Started, free_port, marked, start_node, start_superlink, stop_all
from sordino.federation.status import FederationStatus

LONGEST = 1500.0
"""Seconds after which a run of a test is ended: on a busy machine the longest took 600."""

RECIPE = """
[mechanism]
name = "dp_sgd"
[public]
population = {count}
records = {records}
classes = 10
shape = [1, 8, 8]
test = true
[model]
name = "linear"
[server]
learning_rate = 10.0
[aggregate]
tolerance = 0.34
[budget]
epsilon = 8.0
[run]
rounds = {rounds}
"""


@dataclass
class Real:
    """The operator, its members, and the processes that run."""

    operator: FederationFolder
    members: dict[str, NodeFolder]
    link: Started | None = None
    nodes: dict[str, Started] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    stage_seconds: float = field(default_factory=lambda: max(15.0, 10 * max(os.getloadavg())))
    """A machine that is busy with other things gets more time."""

    def start(self, *names: str) -> None:
        for name in names:
            self.nodes[name] = start_node(self.members[name].path)

    def doom(self, name: str, turn: int) -> None:
        """Kills a node when a message of it is about to be answered, counted from its start; returns then."""
        launcher, count = (self.members[name].state_dir / "bin" / part for part in ("flwr-clientapp", "count"))
        assert eventually(lambda: (launcher.parent / SOCKET).exists(), 300)
        launcher.rename(launcher.with_name("own"))
        launcher.write_text(
            f'#!/bin/sh\ncd "{launcher.parent}" && echo >> count && [ $(wc -l < count) -ge {turn} ] && exec sleep 600\n'
            f'exec "{launcher.parent}/own" "$@"\n'
        )
        launcher.chmod(0o700)
        assert eventually(lambda: count.exists() and len(count.read_text()) >= turn, 1200)
        self.nodes[name].kill()

    def play(self, watch: Callable[[FederationStatus], None] = lambda status: None, least: int = 0) -> FederationStatus:
        """Plays the run; `LONGEST` seconds later its processes are ended, whatever happens, and it gives up."""
        config = {"stage-seconds": self.stage_seconds, "train-seconds": self.stage_seconds, "gather-seconds": 600.0}
        config["least-nodes"] = least
        late = threading.Timer(LONGEST, self.stop)  # without nodes a run gives up
        late.start()
        try:
            return Operation(self.operator, config, watch, self.said.append).play()
        finally:
            late.cancel()

    def stop(self) -> None:
        started = [*self.nodes.values(), *([self.link] if self.link else [])]
        stop_all(started)
        for one in started:
            assert not list(marked(one.mark)), "processes are left behind"

    def charged(self, name: str, rounds: bool = True) -> int:
        """Returns what a node's own ledger has: releases of rounds, or of what comes before the first one."""
        with self.members[name].ledger(write=False) as ledger:
            return sum((entry.round_ > 0) == rounds for entry in ledger.entries)


@contextmanager
def real(path: Path, count: int, rounds: int, more: str = "") -> Iterator[Real]:
    """Makes operator and members, and a SuperLink; ends all processes on the way out. `more` is added to the recipe."""
    records = data.load("digits")
    operator = FederationFolder(path / "operator")
    operator.make("clinics", ("127.0.0.1",), free_port())
    told = json.loads((operator.path / "join.json").read_text())
    who = WhoPolicy(federation="clinics", operator=told["operator"], servers=(told["server"],))
    policy = Policy(
        who=who,
        mechanism=MechanismPolicy(allowed=("dp_sgd",), smallest_cohort=3),
        budget=BudgetPolicy(epsilon=10.0),
    )
    members = {}
    for number in range(count):
        node = NodeFolder(path / f"n{number}")
        node.make(node.path.name, told["server"], policy, told["authority"].encode())
        mine = slice(number, None, count)
        np.savez(node.path / "data" / "records.npz", x=records.train_x[mine], y=records.train_y[mine])
        operator.enrol(node.application())
        members[node.name] = node
    for node in members.values():
        node.accept_registry(operator.registry_file)
    np.savez(operator.path / "test.npz", x=records.test_x, y=records.test_y)
    recipe = path / "recipe.toml"
    recipe.write_text(RECIPE.format(count=count, rounds=rounds, records=len(records.train_y)) + more)
    operator.put_recipe(recipe)
    here = Real(operator, members)
    try:
        here.link = start_superlink(operator.path)
        yield here
    finally:
        here.stop()


def eventually(what: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Returns whether something comes true in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if what():
            return True
        time.sleep(0.2)
    return False


def later(work: Callable[[], None]) -> threading.Thread:
    """Does something meanwhile."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
