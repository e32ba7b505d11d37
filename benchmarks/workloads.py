"""What is measured: three federations on Fashion-MNIST, and what everybody needs to play them.

Only numpy and torch here, so that frameworks can run in an environment of their own.
"""

import gzip
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import nn

CLIP_NORM, NOISE_MULTIPLIER, LEARNING_RATE = 1.0, 0.5, 0.1


@dataclass(frozen=True)
class Workload:
    name: str
    about: str
    clients: int
    records: int
    cohort: int
    batch: int

    def model(self) -> nn.Sequential:
        torch.manual_seed(0)
        if self.name != "W2":
            return nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
        return nn.Sequential(
            nn.Conv2d(1, 16, 8, stride=2, padding=3),
            nn.ReLU(),
            nn.MaxPool2d(2, 1),
            nn.Conv2d(16, 32, 4, stride=2),
            nn.ReLU(),
            nn.MaxPool2d(2, 1),
            nn.Flatten(),
            nn.Linear(512, 32),
            nn.ReLU(),
            nn.Linear(32, 10),
        )

    def cohort_of(self, round_: int) -> np.ndarray:
        """Returns who takes part in a round: the same clients for every contender."""
        return np.sort(np.random.default_rng(round_).choice(self.clients, self.cohort, replace=False))


WORKLOADS = {
    "W1": Workload("W1", "MLP 784-32-10, 100 clients × 600, 10 a round, one epoch, batch 60", 100, 600, 10, 60),
    "W2": Workload("W2", "CNN of 26,010 weights, 100 clients × 600, 10 a round, one epoch, batch 60", 100, 600, 10, 60),
    "W3": Workload("W3", "MLP 784-32-10, 5,000 clients × 12, 500 a round, one step, batch 12", 5000, 12, 500, 12),
}


def data_folder() -> Path | None:
    """Returns the folder that holds Fashion-MNIST's four files, if there is one."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SORDINO_DATA", beside)) / "fashion-mnist"
    return folder if folder.is_dir() else None


@cache
def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns training images and labels, shuffled once so that consecutive records are IID, and test ones."""
    folder = data_folder()
    if folder is None:
        return _synthetic()
    x, y, test_x, test_y = (
        _read(folder / name)
        for name in (
            "train-images-idx3-ubyte.gz",
            "train-labels-idx1-ubyte.gz",
            "t10k-images-idx3-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz",
        )
    )
    order = np.random.default_rng(0).permutation(len(x))
    return _images(x[order]), _labels(y[order]), _images(test_x), _labels(test_y)


def _read(path: Path) -> np.ndarray:
    raw = gzip.decompress(path.read_bytes())
    dimensions = raw[3]
    shape = np.frombuffer(raw, ">u4", dimensions, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _images(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x.astype(np.float32) / 255).unsqueeze(1)


def _labels(y: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(y.astype(np.int64))


def _synthetic() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns noisy prototypes of the same shapes, for machines without the data."""
    generator = torch.Generator().manual_seed(0)
    prototypes = torch.rand(10, 1, 28, 28, generator=generator)

    def draw(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.randint(0, 10, (count,), generator=generator)
        return (prototypes[y] + torch.rand(count, 1, 28, 28, generator=generator)) / 2, y

    return *draw(60_000), *draw(10_000)


def flat(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def accuracy(workload: Workload, weights: torch.Tensor) -> float:
    """Returns the test accuracy of a model with the given weights."""
    model = workload.model()
    nn.utils.vector_to_parameters(weights, model.parameters())
    _, _, x, y = data()
    with torch.no_grad():
        return float((torch.cat([model(part) for part in x.split(1000)]).argmax(1) == y).double().mean())
