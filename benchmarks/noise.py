"""What exact noise on a grid costs, against single-precision noise: both ways by turns, on one core.

    python benchmarks/noise.py [--times 15] [--json FILE]

Prints, for each shape of rows, the best processor time of both and their ratio. A million coordinates each.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from sordino.random.float_grid import FloatGrid
from sordino.random.keystream import named_key
from sordino.random.noise import add_gaussian, add_laplace
from sordino.random.streams import Streams

SHAPES = ((1, 1_000_000), (10, 100_000), (100, 10_000), (1000, 1000))
MULTIPLIERS = (0.5, 4.0, 100.0)


def float_path(rows: torch.Tensor, stddev: float, streams: Streams) -> torch.Tensor:
    noise = streams.normals("shield", 0, np.arange(len(rows)), rows.shape[1])
    return rows + noise.mul_(stddev)


def grid_path(rows: torch.Tensor, stddev: float, streams: Streams) -> torch.Tensor:
    grid = FloatGrid.fitting(rows.shape[1], 1.0, stddev)
    keys = [named_key(f"{streams.seed}/shield/0/{client}") for client in range(len(rows))]
    integers = grid.to_integers(rows, grid.dtype(stddev))
    return torch.from_numpy(add_gaussian(integers, grid.in_steps(stddev), keys))


def float_laplace(rows: torch.Tensor, scale: float, streams: Streams) -> torch.Tensor:
    draws = [streams.generator("shield", 0, k).laplace(0, scale, rows.shape[1]) for k in range(len(rows))]
    return rows + torch.from_numpy(np.stack(draws)).float()


def grid_laplace(rows: torch.Tensor, scale: float, streams: Streams) -> torch.Tensor:
    grid = FloatGrid.fitting(rows.shape[1], 1.0, scale, order=1)
    keys = [named_key(f"{streams.seed}/shield/0/{client}") for client in range(len(rows))]
    integers = grid.to_integers(rows, grid.dtype(scale))
    return torch.from_numpy(add_laplace(integers, grid.in_steps(scale), keys))


def by_turns(ways: tuple[Callable[[], object], ...], times: int) -> list[float]:
    best = [float("inf")] * len(ways)
    for _ in range(times):
        for index, way in enumerate(ways):
            began = time.thread_time()
            way()
            best[index] = min(best[index], time.thread_time() - began)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = list[dict[str, float | str]]()
    for law, old, new in (("gaussian", float_path, grid_path), ("laplace", float_laplace, grid_laplace)):
        for shape in SHAPES:
            rows = torch.nn.functional.normalize(torch.randn(shape, generator=torch.Generator().manual_seed(1)))
            rows = rows if law == "gaussian" else torch.nn.functional.normalize(rows, p=1)
            for z in MULTIPLIERS:
                streams = Streams(1)
                ways = tuple(partial(way, rows, z, streams) for way in (old, new))
                before, after = by_turns(ways, arguments.times)
                line = {"law": law, "clients": shape[0], "width": shape[1], "multiplier": z}
                found.append({**line, "float_ms": before * 1e3, "grid_ms": after * 1e3, "ratio": after / before})
                print(
                    f"{law:9s} {shape[0]:5d} × {shape[1]:<8d} z = {z:<5} float {before * 1e3:7.2f} ms  "
                    f"grid {after * 1e3:7.2f} ms  ratio {after / before:.2f}",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
