"""A federation on one machine, in real processes: what `make federation` shows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sordino import data
from sordino.errors import FederationError
from sordino.federation.folder import FederationFolder
from sordino.federation.node_folder import NodeFolder
from sordino.federation.node_statement import state
from sordino.federation.operate import Operation
from sordino.federation.policy import BudgetPolicy, MechanismPolicy, Policy, WhoPolicy
from sordino.federation.processes import Started, free_port, start_node, start_superlink, stop_all
from sordino.federation.settings import require_flower
from sordino.federation.status import FederationStatus

NODES = 8
VICTIM, LATE = "clinic-3", "clinic-8"
DEADLINES = {"stage-seconds": 20.0, "train-seconds": 30.0, "gather-seconds": 120.0}

RECIPE = """# Eight clinics train a model of handwritten digits; nobody trusts the server.
[mechanism]
name = "dp_sgd"
clip_norm = 0.5
trust = "distributed"

[public]
population = 8
records = 1437
classes = 10
shape = [1, 8, 8]
test = true

[model]
name = "linear"

[server]
learning_rate = 10.0

[aggregate]
tolerance = 0.25

[budget]
epsilon = 3.0
delta = 1e-5

[run]
rounds = {rounds}
"""


@dataclass
class Demo:
    """Plays the story, and tells it."""

    out: Path
    rounds: int
    tell: Callable[[str], None]
    _nodes: dict[str, Started] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _round: int = 0
    _events: int = 0

    def play(self) -> tuple[FederationFolder, FederationStatus]:
        """Returns the operator's folder and the run's last status, once all processes have ended."""
        require_flower()
        if self.out.exists():
            raise FederationError(f"--out {self.out} is there already: name a new folder")
        operator, members = self.make()
        with ExitStack() as ending:
            ending.callback(self._end)
            link = start_superlink(operator.path)
            ending.callback(link.stop)
            self._say(f"sordino federation serve: a SuperLink answers at {operator.address}, over TLS")
            for member in members:
                if member.name != LATE:
                    self._nodes[member.name] = start_node(member.path)
            self._say(f"{len(self._nodes)} SuperNodes are started; {LATE} comes later")
            status = Operation(operator, DEADLINES, self._watch, self._say).play()
        self._conclude(members, status)
        return operator, status

    def make(self) -> tuple[FederationFolder, list[NodeFolder]]:
        """Makes the operator's folder and eight nodes', each with its own slice of the data."""
        records = data.load("digits")
        operator = FederationFolder(self.out / "operator")
        operator.make("clinics", ("127.0.0.1",), free_port())
        self._say(f"sordino federation init: certificate authority, TLS certificate, registry, app in {operator.path}")
        members = [self._member(operator, number) for number in range(1, NODES + 1)]
        for number, member in enumerate(members):
            mine = slice(number, None, NODES)
            np.savez(member.path / "data" / "records.npz", x=records.train_x[mine], y=records.train_y[mine])
            operator.enrol(member.application())
        for member in members:
            member.accept_registry(operator.registry_file)
        np.savez(operator.path / "test.npz", x=records.test_x, y=records.test_y)
        (self.out / "recipe.toml").write_text(RECIPE.format(rounds=self.rounds))
        operator.put_recipe(self.out / "recipe.toml")
        self._say(
            f"sordino node init, {NODES} times: keys, policy, own ledger, {len(records.train_y[mine])} records each"
        )
        return operator, members

    def _member(self, operator: FederationFolder, number: int) -> NodeFolder:
        told = json.loads((operator.path / "join.json").read_text())
        who = WhoPolicy(federation=told["federation"], operator=told["operator"], servers=(told["server"],))
        policy = Policy(
            who=who,
            mechanism=MechanismPolicy(allowed=("dp_sgd",), trusts=("distributed",), largest_clip_norm=0.5),
            budget=BudgetPolicy(epsilon=3.5),
        )
        node = NodeFolder(self.out / f"clinic-{number}")
        node.make(node.path.name, told["server"], policy, told["authority"].encode())
        return node

    def _watch(self, status: FederationStatus) -> None:
        """Tells what is new, and does what the story wants when its time has come."""
        for event in status.events[self._events :]:
            self._say(f"  {event}")
        self._events = len(status.events)
        finished = status.round - (status.stage != "")
        if status.epsilon and finished > self._round:
            self._round = finished
            spent = max((e for e in status.epsilon.values() if e is not None), default=0.0)
            score = "" if status.accuracy is None else f", accuracy {status.accuracy:.1%}"
            self._say(f"round {finished} of {status.rounds}: ε so far {spent:.3g}{score}")
        if status.round >= 3 and status.stage == "share" and self._nodes[VICTIM].alive:
            self._say(f"kill -9 of {VICTIM}, in the middle of round {status.round}")
            self._nodes[VICTIM].kill()
        if status.round >= 4 and LATE not in self._nodes:
            self._nodes[LATE] = start_node(self.out / LATE)
            self._say(f"{LATE} is started")

    def _conclude(self, members: list[NodeFolder], status: FederationStatus) -> None:
        for name in (VICTIM, LATE, "clinic-1"):
            member = next(member for member in members if member.name == name)
            told = state(NodeFolder(member.path))
            worst = max((one["epsilon"] for one in told.promises if one["epsilon"] is not None), default=0.0)
            self._say(f"sordino node certificate {name}: {told.releases} messages left it, ε = {worst:.3g}")

    def _end(self) -> None:
        stop_all([*self._nodes.values()])
        self._say("all processes have ended")

    def _say(self, sentence: str) -> None:
        self.tell(f"[dim]{time.monotonic() - self._began:5.0f} s[/]  {sentence}")
