"""The scattering transform: features of an image that nobody's data were needed for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from sordino.data.features.filters import folded, low_pass, wavelets
from sordino.errors import DataError

_ROWS_AT_ONCE = 32


@dataclass(frozen=True)
class Scattering:
    """Averages of wavelet moduli, of order 0, 1 and 2: `[n, c, h, w]` → `[n, c·channels, h/2^scales, w/2^scales]`.

    With U_j = |x ∗ ψ_j,θ| and U_jk = |U_j ∗ ψ_k,θ′| for j < k, the features are x, U_j and U_jk, each blurred by a
    Gaussian and sampled at every 2^scales-th point. Two scales and eight angles make 1 + 16 + 64 = 81 channels: 28 × 28
    pixels become 81 × 7 × 7 numbers, 3 × 32 × 32 become 243 × 8 × 8.

    **Formal guarantees**: the features of a record depend on that record and on public constants alone (the wavelets;
    nothing is fitted, nothing is drawn). So unit, adjacency and every sensitivity of what is computed from features are
    those of what is computed from records: a change of one record changes the features of that record only.
    **Edge cases**: images are mirrored at their edges by 2^scales pixels; rows and columns must be multiples of
    2^scales and more than that, else a DataError names the remedy. An empty batch is no error.
    **Reference**: Bruna and Mallat (2013); Tramèr and Boneh (2021) train private models on it. Where we differ from
    kymatio: a filter on a coarser grid is the same Gaussian sampled there, not a spectrum cut to its low half.
    """

    scales: int = 2
    angles: int = 8

    def __call__(self, x: Tensor) -> Tensor:
        """Returns the features of each image, float32."""
        shape = self.shape(tuple(x.shape[1:]))
        out = torch.empty((len(x), *shape), dtype=torch.float32)
        for start in range(0, len(x), _ROWS_AT_ONCE):
            rows, place = x[start : start + _ROWS_AT_ONCE], out[start : start + _ROWS_AT_ONCE]
            place.copy_(self._block(rows.to(torch.float32).flatten(0, 1)).reshape(place.shape))
        return out

    def shape(self, record: tuple[int, ...]) -> tuple[int, int, int]:
        """Returns the shape of the features of one record."""
        if len(record) != 3 or any(size % 2**self.scales or size <= 2**self.scales for size in record[1:]):
            raise DataError(
                f"data.features is 'scattering' with {self.scales} scales, but a record has the shape {record}: use "
                f"images of channels × rows × columns whose sides are multiples of {2**self.scales}, above that, or "
                "fewer scales."
            )
        return record[0] * self.channels, record[1] >> self.scales, record[2] >> self.scales

    @property
    def channels(self) -> int:
        """Number of features at each point of one plane."""
        pairs = self.scales * (self.scales - 1) // 2
        return 1 + self.scales * self.angles + pairs * self.angles**2

    def _block(self, planes: Tensor) -> Tensor:
        """Returns the features `[planes, channels, rows, columns]` of a few planes."""
        margin = 2**self.scales
        padded = pad(planes[:, None], (margin, margin, margin, margin), mode="reflect")
        size = (padded.shape[-2], padded.shape[-1])
        spectrum = torch.fft.fft2(padded)
        first, second = [], []
        for j in range(self.scales):
            moduli = self._moduli(spectrum, size, j, 0)
            first.append(self._blurred(moduli, size, j))
            if j + 1 < self.scales:
                spectra = torch.fft.fft2(moduli)
                finer = [self._blurred(self._moduli(spectra, size, k, j), size, k) for k in range(j + 1, self.scales)]
                # in the order of kymatio: first wavelet, then the second's scale, then the second's angle
                second.append(torch.cat([part.unflatten(1, (self.angles, -1)) for part in finer], 2).flatten(1, 2))
        return torch.cat([self._blurred(padded, size, 0), *first, *second], 1)

    def _moduli(self, spectrum: Tensor, size: tuple[int, int], scale: int, grid: int) -> Tensor:
        """Returns |u ∗ ψ| for all directions of a scale, on the grid of that scale, from u's spectrum on `grid`."""
        bank = _bank(size, scale, grid, self.angles)
        step = 2 ** (scale - grid)
        rows, columns = spectrum.shape[-2] // step, spectrum.shape[-1] // step
        # sampling each step-th point in space adds up the step² parts of the spectrum
        parts = spectrum.unflatten(-2, (step, rows)).unflatten(-1, (step, columns))[:, :, None]
        filters = bank.unflatten(-2, (step, rows)).unflatten(-1, (step, columns))
        low = torch.zeros(1)
        for p in range(step):
            for q in range(step):
                term = parts[..., p, :, q, :] * filters[..., p, :, q, :]
                low = term if p == q == 0 else low.add_(term)
        moduli: Tensor = torch.fft.ifft2(low).abs().flatten(1, 2)
        return moduli

    def _blurred(self, moduli: Tensor, size: tuple[int, int], grid: int) -> Tensor:
        down, across = _blur(size[0], grid, self.scales), _blur(size[1], grid, self.scales)
        return down @ moduli @ across.T


@lru_cache(maxsize=64)
def _bank(size: tuple[int, int], scale: int, grid: int, angles: int) -> Tensor:
    """Returns the wavelets of one scale on a grid; divided by what sampling adds up in the spectrum."""
    spectra = folded(wavelets(size, scale, angles), grid)
    return torch.from_numpy(spectra / 4 ** (scale - grid)).to(torch.float32)


@lru_cache(maxsize=64)
def _blur(size: int, grid: int, scales: int) -> Tensor:
    return torch.from_numpy(low_pass(size, grid, scales)).to(torch.float32)
