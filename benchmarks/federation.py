"""What a round across machines costs, over bare FedAvg on Flower: `python benchmarks/federation.py --nodes 200`.

Three contenders play over the same in-process Flower grid (`sordino.federation.grid`), one node after the other, with
the same model of 26,010 weights and the same records: Flower's own FedAvg without any privacy, sordino without a secure
sum (`dp_fedavg`), and sordino with the whole secure sum (`dropout_robust`). Each node's records lie in a file that is
read for every message, as on a SuperNode, which starts its app anew for each. There are two workloads: `epoch`, a
network that passes once over 600 records a node in batches of 60, and `step`, a linear model with one step on 60
records, which is almost no work: it shows what everything else costs.

Contenders take turns, and ratios are medians over turns, so that a machine that slows down slows all. Seconds are a
round's, for all nodes and the server, from one round's first request to the next one's, by the clock and by the
processor: a node waits for its disk before an answer leaves, which only the first counts. What a run costs once, before
its first round and after its last (calibration, greetings, certificate), is told apart. Bytes are those of Flower's
messages, a node and round. `--parts` tells instead what a node's and the server's part of a round consists of.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from results import machine, put

from sordino import models
from sordino.account.ledger.ledger import Ledger
from sordino.aggregate.secure.keeper import FileKeeper
from sordino.aggregate.secure.server import SumServer
from sordino.client.side import ClientSide
from sordino.federation.client_app import client_app
from sordino.federation.deadlines import Deadlines
from sordino.federation.deployment import Deployment
from sordino.federation.folder import FederationFolder
from sordino.federation.grid import InProcessGrid
from sordino.federation.memory import NodeMemory
from sordino.federation.messages import Parcel
from sordino.federation.node_folder import NodeFolder
from sordino.federation.policy import BudgetPolicy, MechanismPolicy, Policy, WhoPolicy
from sordino.recipe import Recipe

CLASSES, BATCH = 10, 60
PATIENT = Deadlines(600, 600, 600)
SECTION = "A federation on Flower"
CONTENDERS = ("bare FedAvg on Flower", "dp_fedavg", "dropout_robust")
FIRST = ("train", "query.contribute", "query.advertise")
"""The messages with which a round of each contender begins."""
GOALS = {"dp_fedavg": 1.5, "dropout_robust": 3.0}


@dataclass(frozen=True)
class Workload:
    """What every node trains on in a round; the model has 26,010 weights."""

    model: str
    shape: tuple[int, ...]
    records: int
    about: str
    rounding: float = 0.01
    """Share by which rounding to integers may raise the sensitivity: coarser integers are fewer bytes."""

    def made_up(self, number: int) -> dict[str, np.ndarray]:
        """Returns the records of one node."""
        draws = np.random.default_rng(number)
        x = draws.standard_normal((self.records, *self.shape), np.float32)
        return {"x": x, "y": draws.integers(CLASSES, size=self.records)}

    def recipe(self, mechanism: str, nodes: int, rounds: int) -> Recipe:
        """Returns the recipe of a run over so many nodes."""
        settings = [f"mechanism.name={mechanism}", f"run.rounds={rounds}", f"train.batch_size={BATCH}"]
        settings += [f"train.steps={self.records // BATCH}", "train.learning_rate=0.05", f"model.name={self.model}"]
        settings += [f"public.population={nodes}", f"public.records={nodes * self.records}"]
        settings += [f"public.classes={CLASSES}", f"public.shape={list(self.shape)}", "data.name=npz"]
        settings += ["data.normalise=none", "budget.epsilon=8", "aggregate.tolerance=0.2", "train.engine=batched"]
        if mechanism == CONTENDERS[2]:
            settings += [f"aggregate.rounding={self.rounding}"]
        return Recipe.load(None, settings)


WORKLOADS = {
    "epoch": Workload("cnn_tfp", (1, 28, 28), 600, "one local epoch on 600 records, batch 60"),
    "step": Workload("linear", (2600,), 60, "one local step on 60 records"),
}


@dataclass(frozen=True)
class Measured:
    """One contender's turn: a round's seconds, those of a whole run besides its rounds, and bytes a node and round."""

    wall: float
    processor: float
    once: float
    down: float
    up: float


def federation(
    path: Path, work: Workload, mechanism: str, nodes: int, rounds: int, host: str = "fed.example.org", port: int = 8000
) -> tuple[FederationFolder, list[NodeFolder]]:
    """Makes the folders of an operator and of so many nodes, each with records of its own."""
    folder, server = FederationFolder(path / "operator"), f"{host}:{port}"
    folder.make("bench", (host,), port)
    who = WhoPolicy(federation="bench", operator=folder.operator.public.hex(), servers=(server,))
    limits = MechanismPolicy(
        allowed=(mechanism,), trusts=("distributed", "central"), largest_clip_norm=10.0, least_noise_multiplier=0.01
    )
    policy = Policy(who=who, mechanism=limits, budget=BudgetPolicy(epsilon=50.0))
    made = [NodeFolder(path / f"node-{number}") for number in range(nodes)]
    for number, node in enumerate(made):
        node.make(node.path.name, server, policy, folder.authority.certificate.read_bytes())
        np.savez(node.path / "data" / "records.npz", **work.made_up(number))
        folder.enrol(node.application())
    for node in made:
        node.registry_file.write_bytes(folder.registry_file.read_bytes())
    folder.recipe_file.write_text(work.recipe(mechanism, nodes, rounds).to_toml())
    return folder, made


def ours(
    path: Path, work: Workload, mechanism: str, nodes: int, rounds: int
) -> tuple[Callable[[], object], InProcessGrid]:
    folder, made = federation(path, work, mechanism, nodes, rounds)
    configs = {100 + number: {"folder": str(node.path)} for number, node in enumerate(made)}
    grid = InProcessGrid(dict.fromkeys(configs, client_app()), configs)
    return Deployment(folder, grid, deadlines=PATIENT).play, grid


def bare(path: Path, work: Workload, nodes: int, rounds: int) -> tuple[Callable[[], object], InProcessGrid]:
    """Flower's own FedAvg, with the steps that our nodes take."""
    app = ClientApp()
    for number in range(nodes):
        np.savez(path / f"{number}.npz", **work.made_up(number))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        with np.load(path / f"{context.node_id - 100}.npz") as held:
            x, y = torch.from_numpy(held["x"]), torch.from_numpy(held["y"])
        model = models.build(work.model, work.shape, CLASSES, seed=0)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimiser, order = torch.optim.SGD(model.parameters(), lr=0.05), torch.randperm(len(y))
        for batch in order.split(BATCH):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimiser.step()
        told = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
        return Message(RecordDict(told), reply_to=message)

    ids = range(100, 100 + nodes)
    grid = InProcessGrid(dict.fromkeys(ids, app), {node: {} for node in ids})
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    first = ArrayRecord(models.build(work.model, work.shape, CLASSES, seed=0).state_dict())
    return lambda: strategy.start(grid, first, num_rounds=rounds), grid


def turn(name: str, work: Workload, nodes: int, rounds: int) -> Measured:
    """Plays one contender's run, a round more than is measured, and measures it."""
    began: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as aside:
        path, one = Path(aside), (nodes, rounds + 1)
        play, grid = bare(path, work, *one) if name == CONTENDERS[0] else ours(path, work, name, *one)
        push, start = grid.push_messages, time.process_time()

        def pushed(messages: Iterable[Message]) -> Iterable[str]:
            messages = list(messages)
            if messages and messages[0].metadata.message_type in FIRST:
                began.append((time.perf_counter(), time.process_time()))
            return push(messages)

        grid.push_messages = pushed  # type: ignore[method-assign]
        play()
        whole = time.process_time() - start
    wall, processor = ((last - first) / rounds for first, last in zip(began[0], began[-1], strict=True))
    down, up = (sum(seen[place] for seen in grid.traffic.values()) / nodes / (rounds + 1) for place in (1, 2))
    return Measured(wall, processor, max(0.0, whole - (rounds + 1) * processor), down, up)


def table(found: dict[str, list[Measured]], head: str) -> str:
    """Returns the rows, with ratios over bare FedAvg turn by turn."""
    heads = ("s a round", "processor s", "× bare", "goal", "once", "KiB to a node", "KiB from it", "× bare", "goal")
    lines = [f"| {head} | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for name, turns in found.items():
        base, last = found[CONTENDERS[0]], turns[-1]
        kinds = ("wall", "processor", "once")
        wall, processor, once = (statistics.median(getattr(one, kind) for one in turns) for kind in kinds)
        ratio = statistics.median(one.processor / other.processor for one, other in zip(turns, base, strict=True))
        goals = (f"{GOALS[name]:g}", "1.1") if name in GOALS else ("", "")
        time_ = f"{wall:.2f} | {processor:.2f} | {ratio:.2f} | {goals[0]} | {once:.2f}"
        bytes_ = f"{last.down / 1024:.1f} | {last.up / 1024:.1f} | {last.up / base[-1].up:.2f} | {goals[1]}"
        lines.append(f"| {name} | {time_} | {bytes_} |")
    return "\n".join(lines)


PARTS: dict[str, tuple[tuple[type, str], ...]] = {
    "reading records": ((NodeFolder, "data"),),
    "training, bounding, noise": ((ClientSide, "contribute"),),
    "taking noise back": ((ClientSide, "reveal"),),
    "own ledger: open, check, write": ((Ledger, "open"), (Ledger, "reserve"), (Ledger, "close")),
    "secure sum: state on disk": ((FileKeeper, "claim"), (FileKeeper, "save"), (FileKeeper, "load")),
    "secure sum at the server": ((SumServer, "receive"), (SumServer, "close"), (SumServer, "open")),
    "signing and checking messages": ((Parcel, "sealed"), (Parcel, "check")),
    "packing and reading messages": ((Parcel, "pack"), (Parcel, "parse")),
    "what a node remembers": ((NodeMemory, "begin_sum"), (NodeMemory, "keep"), (NodeMemory, "forget")),
}
"""What a round consists of; none of these calls another."""


def parts(work: Workload, nodes: int, rounds: int) -> str:
    """Returns a table of processor milliseconds a node and round, by what they went into."""
    lines = [f"| ms a node and round | {' | '.join(CONTENDERS[1:])} |", "|---|---:|---:|"]
    found: list[dict[str, float]] = []
    for name in CONTENDERS[1:]:
        spent = dict.fromkeys(PARTS, 0.0)
        with ExitStack() as wrapped:
            for part, calls in PARTS.items():
                for owner, call in calls:
                    wrapped.enter_context(_timed(owner, call, part, spent))
            whole = turn(name, work, nodes, rounds).processor / nodes
        # a run has a round more than is measured; the ledger of the server is among the nodes'
        each = {part: 1000 * seconds / nodes / (rounds + 1) for part, seconds in spent.items()}
        found.append(each | {"everything else": 1000 * whole - sum(each.values()), "together": 1000 * whole})
    lines += [f"| {part} | {' | '.join(f'{one[part]:.1f}' for one in found)} |" for part in found[0]]
    return "\n".join(lines)


@contextmanager
def _timed(owner: type, call: str, part: str, spent: dict[str, float]) -> Iterator[None]:
    """Adds what a method takes to a part, as long as it is open."""
    raw = vars(owner)[call]
    function = raw.__func__ if isinstance(raw, classmethod) else raw

    def measured(*arguments: object, **named: object) -> object:
        began = time.process_time()
        try:
            return function(*arguments, **named)
        finally:
            spent[part] += time.process_time() - began

    setattr(owner, call, classmethod(measured) if isinstance(raw, classmethod) else measured)
    try:
        yield
    finally:
        setattr(owner, call, raw)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2, help="rounds that are measured; one more is played")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--work", choices=WORKLOADS, default="epoch")
    parser.add_argument("--rounding", type=float, default=0.01, help="aggregate.rounding of the secure sum")
    parser.add_argument("--parts", action="store_true", help="tell what a round consists of instead")
    parser.add_argument("--write", action="store_true", help=f"put the table into RESULTS.md, under {SECTION!r}")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    work = replace(WORKLOADS[asked.work], rounding=asked.rounding)
    for name in CONTENDERS:  # what is imported, compiled and tabulated once is not a round's
        turn(name, work, 6, 1)
    if asked.parts:
        told = parts(work, asked.nodes, asked.rounds)
        print(told)
        if asked.write:
            command = f"python benchmarks/federation.py --parts --nodes {asked.nodes} --work {asked.work}"
            title = f"What a round consists of: {asked.nodes} nodes, {work.about}"
            put(SECTION, title, f"`{command} --rounds {asked.rounds}`, processor time. {machine()}.\n\n{told}")
        return
    found: dict[str, list[Measured]] = {name: [] for name in CONTENDERS}
    for _ in range(asked.turns):
        for name, turns in found.items():
            turns.append(turn(name, work, asked.nodes, asked.rounds))
    told = table(found, f"{asked.nodes} nodes")
    print(told)
    if asked.write:
        command = f"python benchmarks/federation.py --nodes {asked.nodes} --work {asked.work} --turns {asked.turns}"
        more, title = ("", "") if asked.rounding == 0.01 else (f" --rounding {asked.rounding}", ", coarser integers")
        about = (
            f"`{command} --rounds {asked.rounds}{more}`, all nodes in one process, one after the other. {machine()}."
        )
        put(SECTION, f"In one process: {asked.nodes} nodes, 26,010 weights, {work.about}{title}", f"{about}\n\n{told}")


if __name__ == "__main__":
    main()
