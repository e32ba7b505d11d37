"""What features by patterns share: images a few at a time, and patterns' responses averaged over regions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d


def by_blocks(block: Callable[[Tensor], Tensor], x: Tensor, rows: int, shape: tuple[int, ...]) -> Tensor:
    """Returns the features of each image, float32, made of `rows` images at once; `shape` is that of one's features."""
    found = [block(some.to(torch.float32)) for some in x.split(rows)] if len(x) else []
    return torch.cat(found) if found else torch.empty((0, *shape))


def pooled(seen: Tensor, threshold: float, cells: int) -> Tensor:
    """Returns max(h − threshold, 0) and max(−h − threshold, 0) of responses h, averaged over cells × cells regions."""
    strong = torch.cat([(seen - threshold).relu_(), (-seen - threshold).relu_()], 1)
    return adaptive_avg_pool2d(strong, cells)
