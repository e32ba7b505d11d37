"""Flower's simulation (Ray, two actors of one core), with its server-side fixed clipping and Gaussian noise."""

import logging
import time
from functools import cache
from itertools import pairwise

import torch
from flwr.client import ClientApp, NumPyClient
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation
from torch import nn
from workloads import CLIP_NORM, LEARNING_RATE, WORKLOADS, Workload, data

logging.getLogger("flwr").setLevel(logging.ERROR)


class Contender:
    prepared = False

    def __init__(self, workload: Workload, option: str = "") -> None:
        self.workload = workload
        self.arrays = [p.detach().numpy().copy() for p in workload.model().parameters()]

    def play(self, rounds: int, noise: float) -> list[float]:
        # a round more, as the first one starts the actors
        timed = Timed(self.workload, self.arrays)
        strategy = DifferentialPrivacyServerSideFixedClipping(timed, noise, CLIP_NORM, self.workload.cohort)
        name = self.workload.name

        def server(context) -> ServerAppComponents:
            return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds + 1))

        run_simulation(
            ServerApp(server_fn=server),
            ClientApp(client_fn=lambda context: Client(name, int(context.node_config["partition-id"])).to_client()),
            num_supernodes=self.workload.clients,
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )
        self.arrays = timed.arrays
        return [later - earlier for earlier, later in pairwise(timed.times)]

    def weights(self) -> torch.Tensor:
        return torch.cat([torch.from_numpy(array).flatten() for array in self.arrays])


class Timed(FedAvg):
    """Notes when each round's average is there."""

    def __init__(self, workload: Workload, arrays: list) -> None:
        share = workload.cohort / workload.clients
        super().__init__(
            fraction_fit=share,
            fraction_evaluate=0.0,
            min_fit_clients=workload.cohort,
            min_available_clients=workload.clients,
            initial_parameters=ndarrays_to_parameters(arrays),
            evaluate_fn=self._note,
        )
        self.times, self.arrays = [], arrays

    def _note(self, server_round: int, parameters: list, config: dict) -> None:
        if server_round:
            self.times.append(time.perf_counter())
        self.arrays = parameters


class Client(NumPyClient):
    def __init__(self, name: str, client: int) -> None:
        self.workload, self.client = WORKLOADS[name], client

    def fit(self, parameters: list, config: dict) -> tuple:
        model, each = loaded(self.workload.name), self.workload.records
        with torch.no_grad():
            for parameter, array in zip(model.parameters(), parameters, strict=True):
                parameter.copy_(torch.from_numpy(array))
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
        x, y = (part[self.client * each :][:each] for part in data()[:2])
        for batch in torch.randperm(each).split(self.workload.batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
        return [p.detach().numpy().copy() for p in model.parameters()], each, {}


@cache
def loaded(name: str) -> nn.Module:
    """Returns the actor's own model, made once."""
    torch.set_num_threads(1)
    return WORKLOADS[name].model()
