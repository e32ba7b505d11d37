"""The user's own model and data: nothing here knows about privacy."""

from __future__ import annotations

from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TEST = 297
"""The last images are set aside, and count as public."""


def network() -> nn.Module:
    """Returns an untrained network, the same for everybody."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


@cache
def images() -> TensorDataset:
    """Returns scikit-learn's digits, pixels from −1 to 1."""
    digits = load_digits()
    return TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 8 - 1, torch.tensor(digits.target))


def loader(node: int, nodes: int) -> DataLoader:
    """Returns the images of one node."""
    everything = images()
    x, y = everything[node : len(everything) - TEST : nodes]
    return DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)


def train(model: nn.Module, data: DataLoader, epochs: int, learning_rate: float) -> None:
    """Trains a model in place."""
    optimizer, loss = torch.optim.SGD(model.parameters(), learning_rate), nn.CrossEntropyLoss()
    for _ in range(epochs):
        for x, y in data:
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()


def accuracy(model: nn.Module) -> float:
    """Returns the accuracy on the public images."""
    x, y = images()[-TEST:]
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())
