"""Random features: a fixed random layer, drawn from a public seed, in front of a linear model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d

from sordino.data.features.pooled import by_blocks, pooled
from sordino.errors import DataError
from sordino.products import few_or_many
from sordino.random.streams import Streams

_ROWS_AT_ONCE = 256
_IMAGE = 3


@dataclass(frozen=True)
class RandomFourier:
    """Random Fourier features of flat records: `count` frequencies make 2·count features, and every row has norm 1.

    φ(x) = (cos ω₁ᵀx, sin ω₁ᵀx, …)/√count with ω ~ N(0, 1/width²): φ(x)ᵀφ(x′) tends to exp(−‖x − x′‖²/(2·width²)).

    **Formal guarantees**: the features of a record depend on that record and on the public seed alone, so unit,
    adjacency and sensitivity are untouched. Rows have norm 1 whatever the record.
    **Edge cases**: images are flattened. An empty batch is no error.
    **Reference**: Rahimi and Recht (2007), "Random features for large-scale kernel machines".
    """

    count: int = 1000
    width: float = 1.0
    seed: int = 0

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of the features of one record."""
        return (2 * self.count,)

    def __call__(self, x: Tensor) -> Tensor:
        """Returns the features of each record, float32."""
        flat = x.to(torch.float32).flatten(1)
        turns = few_or_many(flat, _normals(self.seed, "frequencies", (flat.shape[1], self.count)).T) / self.width
        return torch.cat([turns.cos(), turns.sin()], 1) / math.sqrt(self.count)


@dataclass(frozen=True)
class RandomPatches:
    """How strongly random patterns appear in each region of an image: `[n, c, h, w]` → `[n, 2·count, cells, cells]`.

    Each patch of `size` × `size` pixels loses its mean and is divided by its own standard deviation (`contrast` is
    added to the variance); then h = ωᵀpatch/√length for `count` Gaussian patterns ω, max(h − threshold, 0) and
    max(−h − threshold, 0), averaged over cells × cells regions.

    **Formal guarantees**: the features of a record depend on that record and on the public seed alone, so unit,
    adjacency and sensitivity are untouched.
    **Edge cases**: an image smaller than a patch, or with fewer patches a side than cells, is a DataError. A flat image
    has zero features.
    **Reference**: Coates and Ng (2011), "The importance of encoding versus training", with random patterns.
    """

    count: int = 200
    size: int = 5
    cells: int = 4
    threshold: float = 0.25
    contrast: float = 0.01
    seed: int = 0

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of the features of one record."""
        least = self.size + self.cells - 1
        if len(record) != _IMAGE or min(record[1:]) < least:
            raise DataError(
                f"data.features is 'random' with patches of {self.size} pixels in {self.cells} cells a side, but a "
                f"record has the shape {record}: use images of channels × rows × columns of at least {least} pixels."
            )
        return 2 * self.count, self.cells, self.cells

    def __call__(self, x: Tensor) -> Tensor:
        """Returns the features of each image, float32."""
        return by_blocks(self._block, x, _ROWS_AT_ONCE, self.shape(tuple(x.shape[1:])))

    def _block(self, x: Tensor) -> Tensor:
        length = x.shape[1] * self.size**2
        patterns = _normals(self.seed, "patterns", (self.count, x.shape[1], self.size, self.size))
        patterns = patterns - patterns.mean((1, 2, 3), keepdim=True)  # so that a patch's mean is lost by itself
        mean = avg_pool2d(x.mean(1, keepdim=True), self.size, stride=1)
        variance = avg_pool2d(x.pow(2).mean(1, keepdim=True), self.size, stride=1) - mean**2
        seen = conv2d(x, patterns) / (variance.clamp_min(0) + self.contrast).sqrt() / math.sqrt(length)
        return pooled(seen, self.threshold, self.cells)


@lru_cache(maxsize=8)
def _normals(seed: int, purpose: str, shape: tuple[int, ...]) -> Tensor:
    """Returns N(0, 1) draws that depend on the seed, the purpose and the shape alone."""
    return torch.from_numpy(Streams(seed).generator(f"random features {purpose}").standard_normal(shape, "float32"))
