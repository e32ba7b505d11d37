"""Other views of an image, before features are taken: colours by contrast, and the mirror image. No data are used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.data.features.norms import UnitRows
from sordino.errors import DataError
from sordino.products import matrices

_COLOURS, _IMAGES = 3, 4
_OPPONENT = ((1.0, 1.0, 1.0), (1.0, -1.0, 0.0), (1.0, 1.0, -2.0))


@dataclass(frozen=True)
class Opponent:
    """Turns red, green and blue into brightness, red against green, and yellow against blue.

    A wavelet's modulus of each of three nearly equal planes says nearly the same thing thrice; contrasts do not.

    **Formal guarantees**: acts on each pixel by itself with a fixed orthonormal matrix, so lengths are kept.
    **Edge cases**: images without three planes are a DataError that names the field.
    **Reference**: Oyallon and Mallat (2015), "Deep roto-translation scattering", take scattering of YUV planes.
    """

    def __call__(self, x: Tensor) -> Tensor:
        if x.dim() != _IMAGES or x.shape[1] != _COLOURS:
            raise DataError(
                f"data.feature_colours is 'opponent', but a record has the shape {tuple(x.shape[1:])}: use images of "
                "three planes (red, green, blue), or 'plain'."
            )
        turn = torch.nn.functional.normalize(torch.tensor(_OPPONENT, dtype=x.dtype), dim=1)
        return matrices(turn, x.flatten(2)).reshape(x.shape)


@dataclass(frozen=True)
class Mirrored:
    """Adds the features of an image to those of its mirror image, and scales rows to norm 1.

    A linear model of the sum says the same of both: half of what it could learn is known beforehand.

    **Formal guarantees**: a function of the record by itself; rows have norm at most 1 (within rounding).
    **Edge cases**: records that are not images are a DataError that names the field.
    """

    features: tuple[Callable[[Tensor], Tensor], ...]

    def __call__(self, x: Tensor) -> Tensor:
        if x.dim() != _IMAGES:
            raise DataError(
                f"data.feature_mirror is on, but a record has the shape {tuple(x.shape[1:])}: use images, or unset it."
            )
        seen, turned = x, x.flip(-1)
        for part in self.features:
            seen, turned = part(seen), part(turned)
        return UnitRows()(seen + turned)
