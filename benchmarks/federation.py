"""Times rounds across machines in one process: `python benchmarks/federation.py --nodes 200`.

Three contenders play over the same in-process Flower grid (`sordino.federation.grid`), with the same model of 26,010
weights, the same records and one local step a round, one node after the other: Flower's own FedAvg without any privacy,
sordino without a secure sum (`dp_fedavg`), and sordino with the whole secure sum (`dropout_robust`). Seconds are a
round's, for all nodes, by the clock and by the processor: a node waits for its disk before an answer leaves, which only
the first counts. Bytes are those of Flower's messages, a node and round.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from sordino import models
from sordino.federation.client_app import client_app
from sordino.federation.deployment import Deployment
from sordino.federation.folder import FederationFolder
from sordino.federation.grid import InProcessGrid
from sordino.federation.network import Deadlines
from sordino.federation.node_folder import NodeFolder
from sordino.federation.policy import BudgetPolicy, MechanismPolicy, Policy, WhoPolicy
from sordino.recipe import Recipe

RECORDS, SHAPE, CLASSES = 60, (2600,), 10
"""A linear model on 2,600 features has 26,010 weights."""
SERVER = "fed.example.org:8000"
PATIENT = Deadlines(600, 600, 600)


def records(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns made-up records of one node."""
    draws = np.random.default_rng(number)
    return draws.standard_normal((RECORDS, *SHAPE), np.float32), draws.integers(CLASSES, size=RECORDS)


def recipe_for(mechanism: str, nodes: int, rounds: int) -> Recipe:
    settings = [f"mechanism.name={mechanism}", f"run.rounds={rounds}", "train.steps=1", "train.batch_size=60"]
    settings += [f"public.population={nodes}", f"public.records={nodes * RECORDS}", f"public.classes={CLASSES}"]
    settings += [f"public.shape={list(SHAPE)}", "data.name=npz", "data.normalise=none", "budget.epsilon=8"]
    return Recipe.load(None, [*settings, "aggregate.tolerance=0.2", "model.name=linear"])


def federation(path: Path, mechanism: str, nodes: int, rounds: int) -> tuple[FederationFolder, InProcessGrid]:
    """Makes the folders of an operator and of so many nodes, and the grid over which they talk."""
    folder = FederationFolder(path / "operator")
    folder.make("bench", ("fed.example.org",), 8000)
    who = WhoPolicy(federation="bench", operator=folder.operator.public.hex(), servers=(SERVER,))
    limits = MechanismPolicy(
        allowed=(mechanism,),
        trusts=("distributed", "central"),
        largest_clip_norm=10.0,
        least_noise_multiplier=0.01,
    )
    policy = Policy(who=who, mechanism=limits, budget=BudgetPolicy(epsilon=50.0))
    made = [NodeFolder(path / f"node-{number}") for number in range(nodes)]
    for number, node in enumerate(made):
        node.make(node.path.name, SERVER, policy, folder.authority.certificate.read_bytes())
        x, y = records(number)
        np.savez(node.path / "data" / "records.npz", x=x, y=y)
        folder.enrol(node.application())
    for node in made:
        node.registry_file.write_bytes(folder.registry_file.read_bytes())
    folder.recipe_file.write_text(recipe_for(mechanism, nodes, rounds).to_toml())
    configs = {100 + number: {"folder": str(node.path)} for number, node in enumerate(made)}
    return folder, InProcessGrid(dict.fromkeys(configs, client_app()), configs)


def ours(path: Path, mechanism: str, nodes: int, rounds: int) -> tuple[Callable[[], object], InProcessGrid]:
    folder, grid = federation(path, mechanism, nodes, rounds)
    return Deployment(folder, grid, deadlines=PATIENT).play, grid


def bare(nodes: int, rounds: int) -> tuple[Callable[[], object], InProcessGrid]:
    """Flower's own FedAvg, with the step that our nodes take."""
    app, held = ClientApp(), {100 + number: records(number) for number in range(nodes)}
    module = models.build("linear", SHAPE, CLASSES, seed=0)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        model = models.build("linear", SHAPE, CLASSES, seed=0)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        x, y = (torch.from_numpy(part) for part in held[context.node_id])
        optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
        told = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
        return Message(RecordDict(told), reply_to=message)

    grid = InProcessGrid(dict.fromkeys(held, app), {node: {} for node in held})
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    return lambda: strategy.start(grid, ArrayRecord(module.state_dict()), num_rounds=rounds), grid


def timed(play: Callable[[], object], grid: InProcessGrid, nodes: int, rounds: int) -> tuple[float, ...]:
    wall, processor = time.perf_counter(), time.process_time()
    play()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    down, up = (sum(seen[place] for seen in grid.traffic.values()) / nodes / rounds for place in (1, 2))
    return wall / rounds, processor / rounds, down, up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    bare(2, 1)[0]()  # what is imported and compiled once is not a round's
    heads = ("s a round", "processor s", "× bare", "KiB to a node", "KiB from it", "× bare")
    print(f"| {asked.nodes} nodes, 26,010 weights | {' | '.join(heads)} |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    first: tuple[float, ...] = ()
    for name in ("bare FedAvg on Flower", "dp_fedavg", "dropout_robust"):
        with tempfile.TemporaryDirectory() as aside:
            path, one = Path(aside), (asked.nodes, asked.rounds)
            play, grid = bare(*one) if name.startswith("bare") else ours(path, name, *one)
            found = timed(play, grid, *one)
        first = first or found
        wall, processor, down, up = found
        print(
            f"| {name} | {wall:.2f} | {processor:.2f} | {processor / first[1]:.2f} | {down / 1024:.1f} | "
            f"{up / 1024:.1f} | {up / first[3]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
