"""What privacy costs a Flower app: `python benchmarks/flower.py`, against bare FedAvg at the same settings.

The same ClientApp trains the same network on the same records, with FedAvg alone, with FedAvg wrapped in
`PrivateStrategy` under central and local trust, and with Flower's own fixed clipping beside them. Every message is
turned into Flower's bytes and back, as on a network; all nodes run in this process, one after the other, so seconds are
those of all nodes and the server together. Processor seconds are what to compare on a machine that is busy. Ways take
turns, and the median over turns is told, so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import fixedclipping_mod
from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping, FedAvg, Strategy
from rich.console import Console
from rich.table import Table
from torch import nn

from sordino import models
from sordino.federation.grid import InProcessGrid
from sordino.flower import PrivateStrategy, private_mod

CONSOLE = Console(width=132)


def network() -> nn.Module:
    """Returns the network of workload W2, 26,010 weights on 28 × 28 pixels."""
    return models.build("cnn_tfp", (1, 28, 28), 10, seed=0)


def trained(mods: list[Any], records: int) -> ClientApp:
    """Returns a ClientApp that passes once over its records, in batches of 60."""
    app = ClientApp(mods=mods)
    x, y = torch.randn(records, 1, 28, 28), torch.randint(0, 10, (records,))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        model, loss = network(), nn.CrossEntropyLoss()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        for first in range(0, records, 60):
            optimizer.zero_grad()
            loss(model(x[first : first + 60]), y[first : first + 60]).backward()
            optimizer.step()
        metrics = MetricRecord({"num-examples": records, "loss": 0.1})
        return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)

    return app


def bare(context: Context) -> tuple[Strategy, list[Any]]:
    return FedAvg(fraction_evaluate=0.0), []


def flowers(context: Context) -> tuple[Strategy, list[Any]]:
    nodes = int(context.run_config["sordino.population"])
    return DifferentialPrivacyClientSideFixedClipping(FedAvg(fraction_evaluate=0.0), 1.0, 1.0, nodes), [
        fixedclipping_mod
    ]


def private(context: Context) -> tuple[Strategy, list[Any]]:
    return PrivateStrategy(FedAvg(fraction_evaluate=0.0), context), [private_mod]


WAYS: dict[str, tuple[Callable[[Context], tuple[Strategy, list[Any]]], dict[str, Any]]] = {
    "FedAvg": (bare, {}),
    "Flower's own fixed clipping": (flowers, {}),
    "sordino, central trust": (private, {}),
    "sordino, central, adaptive clipping": (private, {"sordino.clipping": "adaptive"}),
    "sordino, local trust": (private, {"sordino.trust": "local"}),
}


def played(way: str, nodes: int, rounds: int, records: int) -> tuple[float, float, int, int]:
    """Returns wall-clock and processor seconds of a run, and bytes up and down."""
    make, changed = WAYS[way]
    with tempfile.TemporaryDirectory() as folder:
        config: dict[str, Any] = {
            "sordino.epsilon": 1000.0,
            "sordino.delta": 1e-5,
            "sordino.population": nodes,
            "sordino.noise-multiplier": 1.0,
            "sordino.ledger": str(Path(folder) / "ledger.db"),
            **changed,
        }
        context = Context(7, 0, {}, RecordDict(), config)
        strategy, mods = make(context)
        app = trained(mods, records)
        grid = InProcessGrid({100 + node: app for node in range(nodes)}, {}, run_config=config)
        wall, processor = time.perf_counter(), time.process_time()
        strategy.start(grid, ArrayRecord(network().state_dict()), num_rounds=rounds)
        seconds = time.perf_counter() - wall, time.process_time() - processor
        _, down, up = (sum(counts) for counts in zip(*grid.traffic.values(), strict=True))
        return *seconds, up, down


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("--nodes", type=int, default=10)
    told.add_argument("--rounds", type=int, default=3)
    told.add_argument("--records", type=int, default=600, help="records of each node")
    told.add_argument("--turns", type=int, default=3)
    asked = told.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    runs: dict[str, list[tuple[float, float, int, int]]] = {way: [] for way in WAYS}
    played("FedAvg", 2, 1, asked.records)
    for _ in range(asked.turns):
        for way in WAYS:
            runs[way].append(played(way, asked.nodes, asked.rounds, asked.records))
    size = sum(parameter.numel() for parameter in network().parameters())
    table = Table(
        title=f"{asked.nodes} nodes, {asked.rounds} rounds, {asked.records} records a node, {size} parameters"
    )
    for column in ("", "processor s", "over FedAvg", "wall s", "bytes up a reply", "over FedAvg", "bytes down"):
        table.add_column(column, justify="right" if column else "left")
    messages = asked.nodes * asked.rounds
    for way, turns in runs.items():
        wall, processor = (statistics.median(turn[place] for turn in turns) for place in (0, 1))
        # turn by turn: a machine that slows down slows both
        ratio = statistics.median(turn[1] / base[1] for turn, base in zip(turns, runs["FedAvg"], strict=True))
        up, down = turns[0][2] / messages, turns[0][3] / messages
        more = turns[0][2] / runs["FedAvg"][0][2]
        table.add_row(
            way, f"{processor:.2f}", f"{ratio:.2f} x", f"{wall:.2f}", f"{up:,.0f}", f"{more:.3f} x", f"{down:,.0f}"
        )
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
