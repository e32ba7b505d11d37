"""Pictures as arrays: how alike two of them are, and a grid of many as a PNG file."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from sordino.files import PRIVATE, replace_file
from sordino.types import FloatArray


def psnr(original: FloatArray, found: FloatArray) -> float:
    """Returns the peak signal-to-noise ratio in decibels, for values in [0, 1] (∞ for equal pictures)."""
    error = float(np.mean(np.square(original - found)))
    return math.inf if error == 0 else -10 * math.log10(error)


def ssim(original: FloatArray, found: FloatArray, sigma: float = 1.5) -> float:
    """Returns the structural similarity of two pictures `[channels, height, width]` with values in [0, 1].

    **Reference**: Wang, Bovik, Sheikh, Simoncelli (2004), "Image Quality Assessment: From Error Visibility to
    Structural Similarity", Eq. (13), Gaussian windows of standard deviation 1.5, K1 = 0.01, K2 = 0.03.
    """
    x, y = np.asarray(original, np.float64), np.asarray(found, np.float64)

    def mean(values: FloatArray) -> FloatArray:
        return np.asarray(gaussian_filter(values, (0, sigma, sigma), truncate=3.5))

    mx, my = mean(x), mean(y)
    vx, vy, shared = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
    light, contrast = 0.01**2, 0.03**2
    index = ((2 * mx * my + light) * (2 * shared + contrast)) / ((mx**2 + my**2 + light) * (vx + vy + contrast))
    return float(index.mean())


def save_grid(path: Path, titles: Sequence[str], rows: Sequence[Sequence[FloatArray]]) -> Path:
    """Writes rows of pictures `[channels, height, width]`, grey or in colour, under column titles, as one PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.25 * len(titles), 1.15 * len(rows) + 0.55), layout="constrained")
    FigureCanvasAgg(figure)
    for r, row in enumerate(rows):
        for c, picture in enumerate(row):
            axes = figure.add_subplot(len(rows), len(titles), r * len(titles) + c + 1)
            axes.imshow(np.clip(picture, 0, 1).transpose(1, 2, 0), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes.set_axis_off()
            if r == 0:
                axes.set_title(titles[c], fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    made = io.BytesIO()
    figure.savefig(made, format="png", dpi=120, facecolor="white")
    replace_file(path, made.getvalue(), PRIVATE)  # it may show what clients hold
    return path
