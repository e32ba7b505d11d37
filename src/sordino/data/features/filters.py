"""Morlet wavelets and Gaussian low-passes on a periodic grid: the constants of the scattering transform.

**Reference**: Bruna and Mallat (2013), "Invariant scattering convolution networks", §2; constants as in kymatio 0.3
(Andreux et al. 2020), so that features can be compared: σ = 0.8·2^j, ξ = 3π/4·2^−j, slant 4/angles.
"""

from __future__ import annotations

import numpy as np

from sordino.types import FloatArray

_WIDTH, _PITCH, _SLANT = 0.8, 0.75 * np.pi, 4.0
_WRAPS = range(-2, 3)  # a Gaussian of this width is below 1e-12 two periods away


def morlet(shape: tuple[int, int], scale: int, angle: float, slant: float) -> FloatArray:
    """Returns the Fourier transform of one wavelet on the grid: real, and zero at frequency zero.

    Args:
        shape: rows and columns of the periodic grid.
        scale: j: the wavelet is 2^j times as wide as the finest one.
        angle: direction in which it oscillates, in radians.
        slant: how much longer it is across that direction (1: round).
    """
    wave = _gabor(shape, _WIDTH * 2**scale, angle, _PITCH / 2**scale, slant)
    envelope = _gabor(shape, _WIDTH * 2**scale, angle, 0.0, slant)
    centred = wave - wave.sum() / envelope.sum() * envelope
    return np.ascontiguousarray(np.fft.fft2(centred).real)


def wavelets(shape: tuple[int, int], scale: int, angles: int) -> FloatArray:
    """Returns all directions of one scale, `[angles, rows, columns]`, in the order of kymatio."""
    turns = [(angles - angles // 2 - 1 - k) * np.pi / angles for k in range(angles)]
    return np.stack([morlet(shape, scale, turn, _SLANT / angles) for turn in turns])


def low_pass(size: int, grid: int, scales: int) -> FloatArray:
    """Returns the matrix that blurs a line of the grid and keeps each 2^scales-th point, without the padding.

    Args:
        size: points of the padded line at full resolution.
        grid: r: the line that comes in has each 2^r-th of these points.
        scales: J: the Gaussian has width 0.8·2^(J−1).
    """
    width, step = _WIDTH * 2 ** (scales - 1), 2**grid
    out = np.arange(1, size // 2**scales - 1) * 2**scales
    gaps = out[:, None] - np.arange(0, size, step)[None, :]
    bells = sum(np.exp(-((gaps + wrap * size) ** 2) / (2 * width**2)) for wrap in _WRAPS)
    return np.asarray(step * bells / (np.sqrt(2 * np.pi) * width))


def folded(spectrum: FloatArray, grid: int) -> FloatArray:
    """Returns the spectrum of the same filter seen on each 2^grid-th point, scaled to keep its response."""
    rows, columns = spectrum.shape[-2] >> grid, spectrum.shape[-1] >> grid
    parts = spectrum.reshape(*spectrum.shape[:-2], 2**grid, rows, 2**grid, columns)
    return np.asarray(parts.sum((-4, -2)))


def _gabor(shape: tuple[int, int], width: float, angle: float, pitch: float, slant: float) -> np.ndarray:
    cos, sin = np.cos(angle), np.sin(angle)
    total = np.zeros(shape, np.complex128)
    for down in _WRAPS:
        for right in _WRAPS:
            y, x = np.mgrid[down * shape[0] : (down + 1) * shape[0], right * shape[1] : (right + 1) * shape[1]]
            along, across = y * cos + x * sin, y * sin - x * cos
            total += np.exp(-(along**2 + (slant * across) ** 2) / (2 * width**2) + 1j * pitch * along)
    return total * slant / (2 * np.pi * width**2)
