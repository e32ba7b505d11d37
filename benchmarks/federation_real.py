"""Rounds of eight real SuperNodes on this machine: `python benchmarks/federation_real.py`.

A SuperLink and eight SuperNodes as separate processes on loopback, 26,010 weights and the workloads of `federation.py`
(one epoch on 600 records, or one step on 60): sordino without a secure sum (`dp_fedavg`) and with it
(`dropout_robust`), over TLS with authenticated nodes, and beside them Flower's own FedAvg on a plain SuperLink, without
TLS, without any privacy and with its state in memory (with a file, on a busy machine, two of eight nodes ended for good
at "database is locked", and FedAvg waited for them). Nodes reach the SuperLink through a door that counts bytes, so
that what is told is everything on the wire: TLS, HTTP and looking for messages included. Seconds are by the clock, from
a round's beginning to its end, and all processes share this machine's cores; a first round, in which nodes are started
and greeted, is played and not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from results import machine, put

from federation import GOALS, SECTION, WORKLOADS, Workload, federation
from sordino.federation.operate import Operation
from sordino.federation.processes import answers, free_ports, start_node, start_superlink, stop_all
from sordino.federation.settings import offline
from sordino.runs.folder import RunFolder

NODES = 8
PATIENCE = {"stage-seconds": 300.0, "train-seconds": 600.0, "gather-seconds": 600.0}

APP = """
import json, os, time
import numpy as np, torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from sordino import models

client, server = ClientApp(), ServerApp()
MODEL, SHAPE = {model!r}, {shape!r}


@client.train()
def train(message, context):
    torch.set_num_threads(1)
    with np.load(context.node_config["file"]) as held:
        x, y = torch.from_numpy(held["x"]), torch.from_numpy(held["y"])
    model = models.build(MODEL, SHAPE, 10, seed=0)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    for batch in torch.randperm(len(y)).split(60):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimiser.step()
    told = {{"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({{"num-examples": len(y)}})}}
    return Message(RecordDict(told), reply_to=message)


@server.main()
def main(grid, context):
    while len(list(grid.get_node_ids())) < context.run_config["nodes"]:
        time.sleep(0.5)
    times = []

    def note(round_, arrays):
        times.append(time.time())
        with open(context.run_config["times"] + ".new", "w") as file:
            json.dump(times, file)
        os.replace(context.run_config["times"] + ".new", context.run_config["times"])

    nodes = context.run_config["nodes"]
    first = ArrayRecord(models.build(MODEL, SHAPE, 10, seed=0).state_dict())
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    strategy.start(grid, first, num_rounds=context.run_config["rounds"], evaluate_fn=note)
"""
PROJECT = """
[project]
name = "bare"
version = "1.0.0"
license = "Apache-2.0"
dependencies = ["flwr>=1.41"]
[tool.flwr.app]
publisher = "bench"
[tool.flwr.app.components]
serverapp = "bare_app:server"
clientapp = "bare_app:client"
[tool.flwr.app.config]
nodes = 8
rounds = 3
times = ""
"""


class Door:
    """Passes bytes on to another port of this machine, and counts them."""

    def __init__(self, port: int, to: int) -> None:
        self.port, self.to, self.up, self.down = port, to, 0, 0

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, up: bool) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.up += len(data) if up else 0
                self.down += 0 if up else len(data)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other, onward = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pass(reader, onward, True), self._pass(other, writer, False))

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._greet, "127.0.0.1", self.port) as server:
            await server.serve_forever()

    def open(self) -> None:
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()


def ours(path: Path, work: Workload, rounds: int, mechanism: str) -> tuple[list[float], Door]:
    """Returns the seconds of each round of a federation, and its door."""
    port, inner = free_ports(2)
    # nodes know the door's port; the SuperLink listens behind it
    folder, members = federation(path, work, mechanism, NODES, rounds, "127.0.0.1", port)
    about = folder.path / "federation.toml"
    about.write_text(about.read_text().replace(str(port), str(inner)))
    folder.__dict__.pop("about", None)
    door = Door(port, inner)
    door.open()
    with ExitStack() as ending:
        link = start_superlink(folder.path)
        nodes = [start_node(member.path) for member in members]
        ending.callback(stop_all, [*nodes, link])
        Operation(folder, PATIENCE).play()
    return [line["seconds_total"] for line in RunFolder(folder.run_dir).metrics()], door


@contextmanager
def program(*command: str, home: Path, log: Path) -> Iterator[None]:
    surroundings = os.environ | offline(home) | {"OMP_NUM_THREADS": "1"}
    surroundings["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=surroundings)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def bare(path: Path, work: Workload, rounds: int) -> tuple[list[float], Door]:
    """Returns the seconds of each round of Flower's own FedAvg, with plain SuperLink and SuperNodes."""
    (path / "app").mkdir()
    (path / "app" / "pyproject.toml").write_text(PROJECT)
    (path / "app" / "bare_app.py").write_text(APP.format(model=work.model, shape=work.shape))
    times = path / "times.json"
    port, inner, *own = free_ports(2 + NODES)
    door = Door(port, inner)
    door.open()
    off = "--disable-runtime-dependency-installation"
    with ExitStack() as ending:
        link = ["flower-superlink", "--insecure", off, "--host", "127.0.0.1", "--port", str(inner)]
        ending.enter_context(program(*link, home=path / "home", log=path / "link.log"))
        while not answers(inner):
            time.sleep(0.2)
        for number, local in enumerate(own):
            file = path / f"{number}.npz"
            np.savez(file, **work.made_up(number))
            node = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1"]
            node += ["--port", str(local), "--node-config", f'file="{file}"']
            ending.enter_context(program(*node, home=path / f"home-{number}", log=path / f"{number}.log"))
        _submit(path / "app", inner, {"nodes": NODES, "rounds": rounds, "times": str(times)})
        until = time.monotonic() + 900
        while not (times.exists() and len(json.loads(times.read_text())) > rounds):
            if time.monotonic() > until or "Run is finished" in (path / "link.log").read_text():
                raise TimeoutError(f"bare FedAvg did not end: {(path / 'link.log').read_text()[-2000:]}")
            time.sleep(0.5)
    told = json.loads(times.read_text())
    return list(np.diff(told)), door


def _submit(app: Path, port: int, config: dict[str, object]) -> None:
    import hashlib

    from flwr.cli.build import build_fab_from_disk
    from flwr.cli.cli_client_interceptor import CliClientHttpInterceptor
    from flwr.common.serde import fab_to_proto, user_config_to_proto
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.supercore.control.control_http_client import ControlHttpClient
    from flwr.supercore.fab import Fab
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

    client = ControlHttpClient.from_server_address(
        server_address=f"127.0.0.1:{port}",
        insecure=True,
        root_certificates=None,
        interceptors=[CliClientHttpInterceptor(), RuntimeVersionHttpInterceptor(component_name="bench")],
    )
    content = build_fab_from_disk(app)
    fab = fab_to_proto(Fab(hashlib.sha256(content).hexdigest(), content, {}))
    client.StartRun(StartRunRequest(fab=fab, override_config=user_config_to_proto(config)))
    client.close()


CONTENDERS = {
    "bare": ("bare FedAvg on Flower, no TLS", bare),
    "plain": ("dp_fedavg, TLS", partial(ours, mechanism="dp_fedavg")),
    "secure": ("dropout_robust, secure sum, TLS", partial(ours, mechanism="dropout_robust")),
}
HEADS = ("s a round (median)", "s of each", "× bare", "goal", "KiB to a node and round", "KiB from it", "× bare")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds that are measured; one more is played before them"
    )
    parser.add_argument("--work", choices=WORKLOADS, default="epoch")
    parser.add_argument("--only", choices=CONTENDERS, nargs="+", help="play these alone; they get a table of their own")
    parser.add_argument("--write", action="store_true", help=f"put the table into RESULTS.md, under {SECTION!r}")
    asked = parser.parse_args()
    work, played = WORKLOADS[asked.work], asked.only or list(CONTENDERS)
    lines = [f"| {NODES} SuperNodes | {' | '.join(HEADS)} |", "|---|" + "---:|" * len(HEADS)]
    base: tuple[float, float] | None = None
    for name, play in (CONTENDERS[one] for one in played):
        with tempfile.TemporaryDirectory() as aside:
            seconds, door = play(Path(aside), work, asked.rounds + 1)
        middle, share = statistics.median(seconds[1:]), 1024 * NODES * (asked.rounds + 1)
        base = (middle, door.up) if play is bare else base
        goal = next((f"{goal:g}" for mechanism, goal in GOALS.items() if mechanism in name), "")
        slower, longer = (f"{middle / base[0]:.2f}", f"{door.up / base[1]:.2f}") if base else ("", "")
        each = " ".join(f"{one:.1f}" for one in seconds[1:])
        lines.append(
            f"| {name} | {middle:.1f} | {each} | {slower} | {goal} | {door.down / share:.0f} | {door.up / share:.0f} | "
            f"{longer} |"
        )
        print("\n".join(lines), flush=True)
    if asked.write:
        only = f" --only {' '.join(played)}" if asked.only else ""
        about = (
            f"`python benchmarks/federation_real.py --work {asked.work} --rounds {asked.rounds}{only}`; bytes are of "
        )
        about += f"the whole run, start-up and looking for messages included, over its rounds. {machine()}."
        title = f"Real processes: {NODES} SuperNodes on one machine, 26,010 weights, {work.about}"
        title += f", {' and '.join(played)} alone" if asked.only else ""
        put(SECTION, title, f"{about}\n\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
