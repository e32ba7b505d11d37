"""pfl-research 0.6 in one process, with its own clipping and Gaussian noise."""

import time
from itertools import pairwise

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism
from torch import nn
from workloads import CLIP_NORM, LEARNING_RATE, Workload, data, flat


class Contender:
    """Option: number of threads."""

    prepared = True

    def __init__(self, workload: Workload, threads: str = "1") -> None:
        torch.set_num_threads(int(threads))
        self.workload = workload
        self.module = Scored(workload.model())
        x, y = data()[:2]
        each, rounds = workload.records, iter(range(1, 10**9))

        def users():
            for round_ in rounds:
                yield from workload.cohort_of(round_).tolist()

        self.users = users()
        self.population = FederatedDataset(
            lambda user: Dataset([x[user * each :][:each], y[user * each :][:each]]), lambda: next(self.users)
        )

    def play(self, rounds: int, noise: float) -> list[float]:
        central = torch.optim.SGD(self.module.parameters(), lr=1.0)
        model = PyTorchModel(self.module, torch.optim.SGD, central)
        privacy = CentrallyAppliedPrivacyMechanism(GaussianMechanism(CLIP_NORM, noise))
        backend = SimulatedBackend(self.population, self.population, [privacy])
        ticks = Ticks()
        FederatedAveraging().run(
            NNAlgorithmParams(rounds, 10**9, self.workload.cohort, None),
            backend,
            model,
            NNTrainHyperParams(self.workload.batch, 1, LEARNING_RATE),
            NNEvalHyperParams(1000),
            [ticks],
            send_metrics_to_platform=False,
        )
        return [later - earlier for earlier, later in pairwise(ticks.times)]

    def weights(self) -> torch.Tensor:
        return flat(self.module)


class Scored(nn.Module):
    """A model with the methods that pfl asks for."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def loss(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> torch.Tensor:
        return nn.functional.cross_entropy(self.model(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> dict:
        return {}


class Ticks(TrainingProcessCallback):
    """Notes when each round ends."""

    def __init__(self) -> None:
        self.times = []

    def on_train_begin(self, *, model) -> Metrics:
        self.times.append(time.perf_counter())
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration) -> tuple[bool, Metrics]:
        self.times.append(time.perf_counter())
        return False, Metrics()
