"""Whitened random patterns: how strongly each appears in each region of an image. No data are used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from sordino.data.features.pooled import by_blocks, pooled
from sordino.errors import DataError
from sordino.random.streams import Streams
from sordino.types import FloatArray

_ROWS_AT_ONCE = 4
"""Images whose patterns are laid out at once: 1 MB each, so that they stay in a core's caches."""
_IMAGE, _PLANES = 3, (1, 3)


@dataclass(frozen=True)
class WhitenedPatches:
    """Random patterns that natural images show equally often: `[n, c, h, w]` → `[n, 2·count, cells, cells]`.

    Neighbouring pixels of any photograph are nearly equal: the spread of frequency f falls like 1/f, and colours differ
    less than brightness (`chroma`). A Gaussian pattern therefore sees little but brightness. Here each of a pattern's
    cosine coefficients is divided by the spread that this public law foresees (`floor` is added, in squares), so that
    all of them count alike: a patch is whitened without a look at anybody's images. What `count` patterns see in a
    patch of `size` × `size` pixels is divided by its own root mean square (`contrast` is added, in squares), and
    max(h − threshold, 0) and max(−h − threshold, 0) are averaged over cells × cells regions. Images are reflected at
    their edges, so that every pixel is the middle of one patch.

    **Formal guarantees**: the features of a record depend on that record and on the public seed alone, so unit,
    adjacency and sensitivity are untouched.
    **Edge cases**: one plane (grey), or three of which the first is brightness (`data.feature_colours = "opponent"`
    makes them so); other records, and images with fewer pixels a side than a patch or than cells, are a DataError. A
    flat grey image has zero features. 1,000 images of 32 × 32 with 256 patterns take about 1.6 s of one core.
    **Reference**: Coates and Ng (2011), "The importance of encoding versus training with sparse coding and vector
    quantization", whose patches are whitened with their own covariance; Field (1987) for the law 1/f.
    """

    count: int = 512
    size: int = 6
    cells: int = 4
    threshold: float = 0.5
    contrast: float = 0.01
    floor: float = 0.1
    chroma: float = 0.15
    seed: int = 0

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of the features of one record."""
        least = max(self.size, self.cells)
        if len(record) != _IMAGE or record[0] not in _PLANES or min(record[1:]) < least:
            raise DataError(
                f"data.features is 'patches', but a record has the shape {record}: use images of one or three planes "
                f"× rows × columns, of at least {least} pixels a side."
            )
        return 2 * self.count, self.cells, self.cells

    def __call__(self, x: Tensor) -> Tensor:
        """Returns the features of each image, float32."""
        return by_blocks(self._block, x, _ROWS_AT_ONCE, self.shape(tuple(x.shape[1:])))

    def _block(self, x: Tensor) -> Tensor:
        before, after = self.size // 2, (self.size - 1) // 2
        patterns = _patterns(self.seed, self.count, x.shape[1], self.size, self.floor, self.chroma)
        seen = conv2d(pad(x, (before, after, before, after), mode="reflect"), patterns)
        seen /= (seen.pow(2).mean(1, keepdim=True) + self.contrast**2).sqrt()
        return pooled(seen, self.threshold, self.cells)


def foreseen(size: int, planes: int, chroma: float) -> FloatArray:
    """Returns the spread of each cosine coefficient of a patch, `[planes, size, size]`, over that of f = 1.

    Frequency 0 counts as 1/2; its brightness is 0, since a patch's mean is lost.
    """
    rows, columns = np.mgrid[:size, :size]
    law = 1 / np.maximum(np.hypot(rows, columns), 0.5)
    spread = np.stack([law, *[chroma * law] * (planes - 1)])
    spread[0, 0, 0] = 0.0
    return np.asarray(spread)


def cosines(size: int) -> FloatArray:
    """Returns the orthonormal cosine transform of a line, one frequency a row."""
    place = (np.arange(size) + 0.5) / size
    basis = np.sqrt(2 / size) * np.cos(np.pi * np.arange(size)[:, None] * place[None, :])
    basis[0] /= math.sqrt(2)
    return np.asarray(basis)


@lru_cache(maxsize=8)
def _patterns(seed: int, count: int, planes: int, size: int, floor: float, chroma: float) -> Tensor:
    """Returns whitened patterns whose response to a patch of variance 1 has variance 1 where the law holds."""
    spread, basis = foreseen(size, planes, chroma), cosines(size)
    weights = np.where(spread > 0, 1 / np.hypot(spread, floor), 0.0)
    draws = Streams(seed).generator("whitened patterns").standard_normal((count, planes, size, size))
    expected = math.sqrt(spread.size * np.square(weights * spread).sum() / np.square(spread).sum())
    patterns = np.einsum("kcij,iy,jx->kcyx", draws * weights / expected, basis, basis)
    return torch.from_numpy(patterns.astype(np.float32))
