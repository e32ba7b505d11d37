"""Layers of images that work on a few images at a time, against the library's, with cuts anywhere."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from sordino.models.losses import cross_entropy
from sordino.train import engine as engines
from sordino.train.layers import conv, pool
from sordino.train.layers.known import layers_of
from train.cohorts import weights


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


SHAPES = [
    ((4, 4), (2, 2), (0, 0), (13, 13)),
    ((4, 6), (2, 3), (1, 2), (11, 14)),
    ((2, 3), (1, 3), (0, 1), (7, 9)),
    ((2, 2), (2, 2), (0, 0), (9, 8)),
    ((3, 4), (2, 2), (1, 1), (8, 8)),
]
"""Kernels, strides, paddings and images; the last kernel takes no whole number of strides."""


@pytest.mark.parametrize("numbers", [1, 2**11, 2**18])
@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize(("kernel", "stride", "padding", "size"), SHAPES)
def test_a_convolution_sends_back_what_autograd_does(monkeypatch, kernel, stride, padding, size, clients, numbers):
    monkeypatch.setattr(conv, "_PATCHES", numbers)
    torch.manual_seed(0)
    module = nn.Conv2d(3, 5, kernel, stride, padding)
    (layer,) = layers_of(nn.Sequential(module))
    rows = weights(module) + 0.1 * torch.randn(clients, len(weights(module)))
    x = torch.randn(clients, 7, 3, *size)
    y, saved = layer.forward(rows, x)
    error = torch.randn(y.shape)
    found, (each, _) = layer.backward(rows, saved, error), layer.examples(x, error)
    for client in range(clients):
        weight = layer.weight.of(rows)[client].clone().requires_grad_()
        leaf = x[client].clone().requires_grad_()
        out = functional.conv2d(leaf, weight, layer.bias.of(rows)[client], stride, padding)
        torch.testing.assert_close(y[client], out.detach())
        (sent,) = torch.autograd.grad(out, leaf, error[client], retain_graph=True)
        torch.testing.assert_close(found[client], sent)
        for image in range(7):
            (own,) = torch.autograd.grad(out[image], weight, error[client, image], retain_graph=True)
            torch.testing.assert_close(each[client, image], own.permute(0, 2, 3, 1).flatten(), rtol=1e-4, atol=1e-5)


def test_an_images_gradient_is_the_same_to_the_bit_wherever_batches_are_cut():
    """Beside images of the same and of shorter parts, first and last in one, and in batches of several lengths."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)),
        *(nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 10)),
    )
    x, y = torch.randn(601, 1, 28, 28), torch.randint(0, 10, (601,))
    gradients, seen = engines.gradients(model, cross_entropy, "layers"), []
    for length, places in ((601, (0, 1, 39, 40, 82, 83, 162, 163, 600)), (165, (0, 162, 163, 164)), (48, (0, 47))):
        for place in places:
            own = (torch.arange(length) == place).float()
            images, labels = x[:length].roll(place, 0), y[:length].roll(place)
            seen.append(
                gradients.clipped_examples(weights(model)[None], images[None], labels[None], own[None], 1e-3)[0]
            )
    assert all(torch.equal(seen[0], other) for other in seen)
