"""Layers of images that work on a few images at a time, against the library's, with cuts anywhere."""

import pytest
import torch
from torch import nn

from sordino.train.layers import pool
from sordino.train.layers.known import layers_of


@pytest.mark.parametrize("before", [[nn.ReLU()], []])
@pytest.mark.parametrize("numbers", [1, 700, 2**18])
@pytest.mark.parametrize("shape", [(4, 11, 8), (1, 2, 2), (16, 5, 6)])
def test_maxima_of_neighbours_are_the_librarys_with_the_same_ties(monkeypatch, before, numbers, shape):
    monkeypatch.setattr(pool, "_IMAGES", numbers)
    generator = torch.Generator().manual_seed(0)
    # few distinct values of both signs, so that windows are full of ties; whole errors, so that sums are exact
    x = torch.randint(-3, 3, (2, 5, *shape), generator=generator).float()
    modules = nn.Sequential(*before, nn.MaxPool2d(2, 1))
    (layer,) = layers_of(modules)
    leaf = x.flatten(0, 1).clone().requires_grad_()
    expected = modules(leaf)
    y, saved = layer.forward(x, x)
    assert torch.equal(y.flatten(0, 1), expected)
    error = torch.randint(-9, 9, y.shape, generator=generator).float()
    expected.backward(error.flatten(0, 1))
    assert torch.equal(layer.backward(x, saved, error).flatten(0, 1), leaf.grad)


def test_maxima_that_are_no_numbers_stay_none():
    """A record whose gradient is no number is left out, so that none may be lost on the way."""
    x = torch.randn(1, 3, 2, 4, 4)
    x[0, 1, 1, 2, 2] = torch.nan
    (layer,) = layers_of(nn.Sequential(nn.MaxPool2d(2, 1), nn.ReLU()))
    y, saved = layer.forward(x, x)
    assert y.isnan().sum((0, 2, 3, 4)).tolist() == [0, 4, 0]
    error = torch.zeros_like(y)
    error[0, 2, 0, 0, 0] = torch.inf
    found = layer.backward(x, saved, error)
    assert torch.isfinite(found).all((2, 3, 4))[0].tolist() == [True, True, y[0, 2, 0, 0, 0].item() <= 0]
