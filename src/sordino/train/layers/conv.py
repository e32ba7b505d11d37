"""Convolutions: the library's kernels, client by client, on channels-last images."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sordino.products import added, outer
from sordino.train.layers.layer import Component, IntPair

_PATCHES = 2**18
"""Numbers of patches that are laid out at once, so that they stay in a core's own cache."""

_RUN = 64
"""Numbers side by side from which copies are fast: narrower strips are laid out first, so that a patch is one run."""


@dataclass(frozen=True)
class Conv2d:
    """A two-dimensional convolution with zero padding."""

    weight: Component
    bias: Component | None
    stride: IntPair
    padding: IntPair

    def forward(self, rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        biases = [None] * rows.shape[0] if self.bias is None else list(self.bias.of(rows))
        outputs = [
            functional.conv2d(images, weight, bias, self.stride, self.padding)
            for images, weight, bias in zip(_owned(x, rows), self._weights(rows), biases, strict=True)
        ]
        return _joined(outputs, x), x

    def backward(self, rows: Tensor, saved: Tensor, error: Tensor) -> Tensor:
        inputs = [
            self._backward(images, errors, weight, (True, False, False))[0]
            for images, errors, weight in zip(
                _owned(saved, rows), _owned(error, rows), self._weights(rows), strict=True
            )
        ]
        return _joined(inputs, error)

    def gradient(self, x: Tensor, error: Tensor, out: Tensor) -> None:
        if out.dtype != error.dtype:
            self.place(tuple(each.sum(1) for each in self.examples(x.double(), error.double())), out)
            return
        weights, like = self.weight.of(out), _channels_last(self.weight.of(out)[0])
        biases = [None] * len(out) if self.bias is None else list(self.bias.of(out))
        for image, err, weight, bias in zip(x, error, weights, biases, strict=True):
            _, by_weight, by_bias = self._backward(image, err, like, (False, True, bias is not None))
            weight.copy_(by_weight)
            if bias is not None:
                bias.copy_(by_bias)

    def examples(self, x: Tensor, error: Tensor) -> tuple[Tensor, ...]:
        """Returns each image's gradient: the weights in the order of the patches, and the bias."""
        strips, errors = self._strips(x.flatten(0, 1)), error.flatten(0, 1).permute(0, 2, 3, 1).flatten(1, 2)
        by_weight = strips.new_empty(len(strips), errors.shape[2], math.prod(self.weight.shape[1:]))
        images = max(1, _PATCHES // (errors.shape[1] * by_weight.shape[2]))
        for some, wrong, out in zip(strips.split(images), errors.split(images), by_weight.split(images), strict=True):
            outer(wrong, self._patches(some), out)
        parts = (by_weight,) if self.bias is None else (by_weight, added(errors))
        return tuple(part.view(*error.shape[:2], -1) for part in parts)

    def place(self, sums: tuple[Tensor, ...], out: Tensor) -> None:
        count, channels, height, width = self.weight.shape
        by_weight = sums[0].view(len(out), count, height, width, channels)
        self.weight.of(out).copy_(by_weight.permute(0, 1, 4, 2, 3))
        if self.bias is not None:
            self.bias.of(out).copy_(sums[1])

    def squared_norms(self, x: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        # in double precision: where examples cancel, rounding is relative to what cancelled
        each = torch.cat(self.examples(x.double(), error.double()), 2)
        lengths = torch.linalg.vector_norm(each, dim=2).sum(1)
        return each.sum(1).square().sum(1).to(x.dtype), lengths.to(x.dtype)

    def _weights(self, rows: Tensor) -> list[Tensor]:
        return [_channels_last(weight) for weight in self.weight.of(rows)]

    def _backward(
        self, image: Tensor, error: Tensor, weight: Tensor, wanted: tuple[bool, bool, bool]
    ) -> tuple[Tensor, Tensor, Tensor]:
        bias = [weight.shape[0]] if self.bias is not None else None
        found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
            error, image, weight, bias, self.stride, self.padding, (1, 1), False, (0, 0), 1, wanted
        )
        return found

    def _strips(self, images: Tensor) -> Tensor:
        """Returns a view of the columns that the kernel sees: `[images, across, rows, width, channels]`."""
        if any(self.padding):
            images = functional.pad(images, (self.padding[1], self.padding[1], self.padding[0], self.padding[0]))
        return images.unfold(3, self.weight.shape[3], self.stride[1]).permute(0, 3, 2, 4, 1)

    def _patches(self, strips: Tensor) -> Tensor:
        """Returns what the kernel sees at each place: `[images, down · across, height · width · channels]`."""
        if strips.shape[3] * strips.shape[4] < _RUN:
            strips = strips.contiguous()
        windows = strips.unfold(2, self.weight.shape[2], self.stride[0]).permute(0, 2, 1, 5, 3, 4)
        return windows.flatten(3).flatten(1, 2)


def _channels_last(weight: Tensor) -> Tensor:
    # not `contiguous`, which leaves a single channel's strides as they are and so lets the kernel choose another order
    return weight.to(memory_format=torch.channels_last)


def _owned(images: Tensor, rows: Tensor) -> list[Tensor]:
    """Returns the images of each row of weights: all of them where there is only one row."""
    return list(images) if rows.shape[0] > 1 else [images.flatten(0, 1)]


def _joined(images: list[Tensor], like: Tensor) -> Tensor:
    """Returns `[clients, examples, …]` from the images of each row of weights."""
    flat = images[0] if len(images) == 1 else torch.cat(images)
    return flat.view(*like.shape[:2], *flat.shape[1:])
