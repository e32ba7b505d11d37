"""Convolutions: the library's kernels, client by client, on channels-last images."""

from __future__ import annotations

import math
from collections.abc import Iterator
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
        whole = all(size % step == 0 for size, step in zip(self.weight.shape[2:], self.stride, strict=True))
        if whole and self.stride != (1, 1):
            return self._by_phases(rows, saved, error)
        images, errors, weights = _owned(saved, rows), _owned(error, rows), self._weights(rows)
        inputs = [self._backward(*each, (True, False, False))[0] for each in zip(images, errors, weights, strict=True)]
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
        count = max(1, _PATCHES // (errors.shape[1] * by_weight.shape[2]))
        some = self._patches(strips, count), errors.split(count), by_weight.split(count)
        for patches, wrong, out in zip(*some, strict=True):
            outer(wrong, patches, out)
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

    def _by_phases(self, rows: Tensor, images: Tensor, error: Tensor) -> Tensor:
        """Returns the error at the inputs from convolutions without a stride, of which each phase is a channel.

        An input that lies s·m + a places down was seen with the rows s·p + a of the kernel, and so it gets
        Σ_p weight[s·p + a]·error[m − p]: the library is faster at that than at its own way back where strides are more
        than one. For kernels that take a whole number of strides.
        """
        (down, across), (top, left) = self.stride, self.padding
        kernels, owned, channels = self._phases(rows), _owned(error, rows), images.shape[2]
        height, width = images.shape[3] + 2 * top, images.shape[4] + 2 * left
        steps = kernels.shape[3], kernels.shape[4]
        end = [(size + more - 1) * step for size, more, step in zip(error.shape[3:], steps, self.stride, strict=True)]
        found = images.new_empty(images.shape[:2].numel(), height, width, channels)
        found[:, end[0] :].zero_()  # which no kernel saw
        found[:, :, end[1] :].zero_()
        inner = found[:, : end[0], : end[1]].unflatten(2, (-1, across)).unflatten(1, (-1, down))
        count = max(1, _PATCHES // (kernels.shape[1] * error.shape[3] * error.shape[4]))
        for kernel, errors, outs in zip(kernels, owned, inner.split(len(owned[0])), strict=True):
            for some, out in zip(errors.split(count), outs.split(count), strict=True):
                phases = functional.conv2d(some, kernel, None, 1, (steps[0] - 1, steps[1] - 1)).permute(0, 2, 3, 1)
                out.copy_(phases.unflatten(3, (down, across, channels)).permute(0, 1, 3, 2, 4, 5))
        seen = found[:, top : height - top, left : width - left].contiguous()
        return seen.permute(0, 3, 1, 2).view(images.shape)

    def _phases(self, rows: Tensor) -> Tensor:
        """Returns kernels for the way back, `[rows, down · across · channels, outputs, …]` with channels last."""
        down, across = self.stride
        split: Tensor = self.weight.of(rows).unflatten(4, (-1, across)).unflatten(3, (-1, down)).flip(3, 5)
        return split.permute(0, 4, 6, 2, 3, 5, 1).flatten(1, 3).permute(0, 1, 4, 2, 3)

    def _strips(self, images: Tensor) -> Tensor:
        """Returns a view of the columns that the kernel sees: `[images, across, rows, width, channels]`."""
        if any(self.padding):
            images = functional.pad(images, (self.padding[1], self.padding[1], self.padding[0], self.padding[0]))
        return images.unfold(3, self.weight.shape[3], self.stride[1]).permute(0, 3, 2, 4, 1)

    def _patches(self, strips: Tensor, count: int) -> Iterator[Tensor]:
        """Yields what the kernel sees at each place, `[images, down · across, height · width · channels]`.

        Of so many images at a time, whose patches the next ones overwrite.
        """
        narrow = strips.shape[3] * strips.shape[4] < _RUN
        parts = (strips if narrow else self._windows(strips)).split(count)
        copied = _like(parts[0])
        windows = self._windows(copied) if narrow else copied
        patches = _like(windows) if narrow else copied
        for some in parts:
            if len(some) < len(copied):
                copied, windows, patches = (each[: len(some)] for each in (copied, windows, patches))
            copied.copy_(some)
            if narrow:
                patches.copy_(windows)
            yield patches.flatten(3).flatten(1, 2)

    def _windows(self, strips: Tensor) -> Tensor:
        """Returns a view of the strips by places: `[images, down, across, height, width, channels]`."""
        return strips.unfold(2, self.weight.shape[2], self.stride[0]).permute(0, 2, 1, 5, 3, 4)


def _like(part: Tensor) -> Tensor:
    return torch.empty_like(part, memory_format=torch.contiguous_format)


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
