"""sordino: cohort from the federation, local training, clip, Gaussian noise, average."""

import time

import numpy as np
import torch
from workloads import CLIP_NORM, LEARNING_RATE, Workload, data, flat

from sordino.data.client_data import Borrowed
from sordino.models.losses import cross_entropy
from sordino.random.streams import SERVER, Streams
from sordino.train import LocalTraining, Trainer


class Contender:
    prepared = True

    def __init__(self, workload: Workload, engine: str = "auto") -> None:
        self.workload, self.randomness, self.round = workload, Streams(0), 0
        settings = LocalTraining("sgd", LEARNING_RATE, batch_size=workload.batch)
        model = workload.model()
        self.trainer, self.w = Trainer(model, cross_entropy, settings, engine), flat(model)

    def play(self, rounds: int, noise: float) -> list[float]:
        return [self._round(noise) for _ in range(rounds)]

    def weights(self) -> torch.Tensor:
        return self.w

    def _round(self, noise: float) -> float:
        began = time.perf_counter()
        self.round += 1
        cohort, x, y = self.workload.cohort_of(self.round), *data()[:2]
        each = self.workload.records
        records = (cohort[:, None] * each + np.arange(each)).ravel()
        lent = Borrowed(cohort, np.arange(len(cohort) + 1) * each, records, x, y)
        total, _ = self.trainer.clipped_sum(self.w, lent, CLIP_NORM, self.randomness, self.round)
        drawn = self.randomness.normals("noise", self.round, np.array([SERVER]), len(self.w))[0]
        self.w = self.w + ((total + drawn * (noise * CLIP_NORM)) / len(cohort)).to(self.w.dtype)
        return time.perf_counter() - began
