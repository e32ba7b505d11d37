"""Measures what the largest layer of W5 takes at least, on one core: `python benchmarks/dp_sgd_floor.py [--write]`.

A step of W5 multiplies 6,000 records of 784 numbers by 32 × 784 weights, and their errors by the records. Whatever else
a step does comes on top. Least processor seconds of several turns, so that others on the machine hardly matter.
"""

import argparse
import time
from collections.abc import Callable

import torch
from results import machine, put

RECORDS, INPUTS, OUTPUTS, BLOCK = 6000, 784, 32, 160
TURNS = 15


def least(work: Callable[[], object]) -> float:
    """Returns the least milliseconds of processor time."""
    work()
    taken = []
    for _ in range(TURNS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return 1000 * min(taken)


def doubles(x: torch.Tensor, error: torch.Tensor) -> None:
    total = torch.zeros(OUTPUTS, INPUTS, dtype=torch.float64)
    for some, wrong in zip(x.split(BLOCK), error.split(BLOCK), strict=True):
        total.addmm_(wrong.mT.double(), some.double())


def blocks(x: torch.Tensor, error: torch.Tensor) -> None:
    total = torch.zeros(OUTPUTS, INPUTS, dtype=torch.float64)
    for some, wrong in zip(x.split(120), error.split(120), strict=True):
        total.add_(wrong.mT @ some)


def digits(x: torch.Tensor) -> list[torch.Tensor]:
    """Returns numbers of 16 bits, each as two signed bytes side by side: 256·(v + 128 >> 8) + the low byte of v."""
    return [(some * 32000).to(torch.int16).add_(128).bitwise_xor_(128).view(torch.int8) for some in x.split(BLOCK)]


def rows() -> list[tuple[str, float]]:
    draws = torch.Generator().manual_seed(0)
    x, weights = torch.rand(RECORDS, INPUTS, generator=draws), torch.randn(OUTPUTS, INPUTS, generator=draws)
    error, order = torch.rand(RECORDS, OUTPUTS, generator=draws), torch.randperm(RECORDS, generator=draws)
    bytes_ = torch.cat(digits(x)), torch.cat(digits(error))
    left = bytes_[1].mT.contiguous()
    return [
        ("outputs, in single precision", least(lambda: x @ weights.mT)),
        ("norms of the records", least(lambda: torch.linalg.vector_norm(x, dim=1))),
        ("gathering the records of a batch", least(lambda: x.index_select(0, order))),
        ("sum, in single precision (its rounding has no proof)", least(lambda: error.mT @ x)),
        ("sum, in single precision by 120 records, and those in double", least(lambda: blocks(x, error))),
        ("sum, in double precision (what we do)", least(lambda: doubles(x, error))),
        ("sum, as exact integers of two bytes: the bytes", least(lambda: digits(x))),
        ("sum, as exact integers of two bytes: the product", least(lambda: torch._int_mm(left, bytes_[0]))),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table into RESULTS.md")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.empty(31 * 2**20, dtype=torch.uint8)  # from here on freed memory is kept, as in training
    lines = [f"{machine()}.", "", "| part of W5's largest layer | ms on one core |", "|---|---:|"]
    text = "\n".join([*lines, *(f"| {name} | {taken:.2f} |" for name, taken in rows())])
    print(text)
    if chosen.write:
        put("Seconds a step of DP-SGD", "W5: what its largest layer takes at least", text)


if __name__ == "__main__":
    main()
