"""Small made cohorts, models and an independent oracle: one client after the other with torch.optim."""

import copy

import numpy as np
import torch
from torch import nn

from sordino.data.client_data import ClientData
from sordino.layout import Layout


def cohort(sizes, shape=(6,), classes=4, seed=0, first_client=10):
    generator = torch.Generator().manual_seed(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    x = torch.randn(int(offsets[-1]), *shape, generator=generator)
    y = torch.randint(0, classes, (int(offsets[-1]),), generator=generator)
    return ClientData(np.arange(len(sizes)) + first_client, offsets, x, y)


def mlp(seed=1, inputs=6, classes=4):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, 5), nn.ReLU(), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, classes, bias=False))


def cnn(seed=1, classes=4):
    """Input [2, 9, 9]."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, bias=False), nn.ReLU(), nn.MaxPool2d(3)),
        nn.Flatten(),
        nn.Linear(4, classes),
    )


class Gated(nn.Module):
    """A module that no hand-written layer covers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b, self.scale = nn.Linear(6, 4), nn.Linear(6, 4), nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.a(x) * torch.sigmoid(self.b(x)) * self.scale


def weights(model):
    return Layout.of(model).flatten({name: p.detach() for name, p in model.named_parameters()}).clone()


def filled(model, row):
    """Returns a copy of the model that holds the row of weights."""
    model = copy.deepcopy(model)
    parts = Layout.of(model).unflatten(row)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(parts[name])
    return model


def gradient(model, loss, row, x, y):
    """Returns the gradient of the mean loss, by plain autograd on a copy of the model."""
    model = filled(model, row)
    loss(model(x), y).mean().backward()
    return Layout.of(model).flatten({name: p.grad for name, p in model.named_parameters()})


def clients(data):
    """Yields (x, y) of each client."""
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        yield data.x[start:end], data.y[start:end]
