"""`sordino run` as a user meets it: selection, ledger, certificate, checkpoints and all."""

import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from serve import processor_seconds
from workloads import CLIP_NORM, LEARNING_RATE, Workload, data, flat

from sordino.data.federation import Federation
from sordino.recipe import Recipe
from sordino.runs.run import run


class Contender:
    prepared = False

    def __init__(self, workload: Workload, engine: str = "auto") -> None:
        x, y, test_x, test_y = data()
        owners = np.repeat(np.arange(workload.clients), workload.records)
        federation = Federation.of(x, y, owners, test=(test_x, test_y))
        self.federation = federation.declare(federation.proposed())
        self.workload, self.engine, self.model = workload, engine, workload.model()

    def play(self, rounds: int, noise: float) -> list[float]:
        recipe = Recipe.from_dict(
            {
                "mechanism": {"name": "dp_fedavg", "clip_norm": CLIP_NORM, "noise_multiplier": noise or 1e-9},
                "select": {"kind": "fixed", "size": self.workload.cohort},
                "train": {"learning_rate": LEARNING_RATE, "batch_size": self.workload.batch, "engine": self.engine},
                "server": {"learning_rate": 1.0},
                "budget": {"epsilon": None},
                # one round more to start the clock, and one to evaluate in, which is not measured
                "run": {"rounds": rounds + 2, "evaluate_every": 10**6},
            }
        )
        ends, busy = [], []

        def over(metrics: dict) -> None:
            if metrics["round"] in (1, rounds + 1):
                busy.append(processor_seconds())
            ends.append(time.perf_counter())

        with tempfile.TemporaryDirectory() as folder:
            outcome = run(
                recipe,
                model=self.model,
                federation=self.federation,
                out=Path(folder) / "run",
                watcher=over,
            )
        self.processor = (busy[1] - busy[0]) / rounds
        torch.nn.utils.vector_to_parameters(outcome.weights, self.model.parameters())
        return [later - earlier for earlier, later in pairwise(ends[:-1])]

    def weights(self) -> torch.Tensor:
        return flat(self.model)
