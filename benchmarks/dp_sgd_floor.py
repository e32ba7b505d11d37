"""Measures what layers of W4 and W5 take at least, on one core: `python benchmarks/dp_sgd_floor.py [--write]`.

A step of W5 multiplies 6,000 records of 784 numbers by 32 × 784 weights, and their errors by the records; one of W4
passes them through two convolutions, and multiplies patches by errors for every record by itself. Whatever else a step
does comes on top. Least processor seconds of several turns, so that others on the machine hardly matter. Rows in half
precision and in bytes say what this machine could do, not what the step does.
"""

import argparse
import time
from collections.abc import Callable

import torch
from results import machine, put
from torch.nn import functional

from sordino.train.layers.conv import Conv2d
from sordino.train.layers.layer import Component
from sordino.train.layers.pool import MaxPool2d

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
    left, halves = bytes_[1].mT.contiguous(), [each.bfloat16() for each in (x, weights, error)]
    return [
        ("outputs, in single precision", least(lambda: x @ weights.mT)),
        ("outputs, in half precision (bfloat16, records kept in it)", least(lambda: halves[0] @ halves[1].mT)),
        ("norms of the records", least(lambda: torch.linalg.vector_norm(x, dim=1))),
        ("gathering the records of a batch", least(lambda: x.index_select(0, order))),
        ("sum, in single precision (its rounding has no proof)", least(lambda: error.mT @ x)),
        ("sum, in single precision by 120 records, and those in double", least(lambda: blocks(x, error))),
        ("sum, in half precision (its rounding has no proof)", least(lambda: halves[2].mT @ halves[0])),
        ("sum, in double precision (what we do)", least(lambda: doubles(x, error))),
        ("sum, as exact integers of two bytes: the bytes", least(lambda: digits(x))),
        ("sum, as exact integers of two bytes: the product", least(lambda: torch._int_mm(left, bytes_[0]))),
    ]


SHAPES = {
    "images": (600, 1, 28, 28),
    "first": (16, 1, 8, 8),
    "wide": (600, 16, 14, 14),
    "inner": (600, 16, 13, 13),
    "second": (32, 16, 4, 4),
    "wrong": (600, 32, 5, 5),
    "patches": (600, 196, 64),
    "errors": (600, 196, 16),
    "inner_patches": (600, 25, 256),
    "inner_errors": (600, 25, 32),
}
"""What W4's layers work on, a tenth of the records."""
POOL = MaxPool2d((2, 2), (1, 1), (0, 0), (1, 1), False, rectified=True)
SECOND = Conv2d(Component(0, (32, 16, 4, 4)), None, (2, 2), (0, 0))


def patches(images: torch.Tensor) -> None:
    """Lays out what the first kernel sees: strips, and patches from those, of as many images as stay in a cache."""
    for some in images.split(20):
        strips = some.unfold(3, 8, 2).permute(0, 3, 2, 4, 1).contiguous()
        strips.unfold(2, 8, 2).permute(0, 2, 1, 5, 3, 4).contiguous()


def convolutions(dtype: torch.dtype) -> list[tuple[str, float]]:
    """Returns rows of W4, for all records in tenths."""
    draws = torch.Generator().manual_seed(0)
    of = {name: torch.rand(shape, generator=draws).to(dtype) for name, shape in SHAPES.items()}
    for name in ("first", "wide", "inner", "second", "wrong"):
        of[name] = of[name].to(memory_format=torch.channels_last)
    padded, rows = functional.pad(of["images"], (3, 3, 3, 3)), of["second"].contiguous().view(1, -1)
    wide, inner, wrong = (of[name].unsqueeze(0) for name in ("wide", "inner", "wrong"))
    _, places = POOL.forward(rows, wide)
    parts = {
        "first convolution": lambda: functional.conv2d(of["images"], of["first"], stride=2, padding=3),
        "second convolution": lambda: functional.conv2d(of["inner"], of["second"], stride=2),
        "its error at the inputs": lambda: SECOND.backward(rows, inner, wrong),
        "first pool and ReLU": lambda: POOL.forward(rows, wide),
        "first pool and ReLU, back": lambda: POOL.backward(rows, places, inner),
        "patches, first": lambda: patches(padded),
        "patches, second": lambda: of["inner"].unfold(2, 4, 2).unfold(3, 4, 2).permute(0, 2, 3, 4, 5, 1).contiguous(),
        "gradients of single records, first": lambda: torch.bmm(of["errors"].mT, of["patches"]),
        "gradients of single records, second": lambda: torch.bmm(of["inner_errors"].mT, of["inner_patches"]),
    }
    return [(part, 10 * least(work)) for part, work in parts.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table into RESULTS.md")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.empty(31 * 2**20, dtype=torch.uint8)  # from here on freed memory is kept, as in training
    single, half = (convolutions(dtype) for dtype in (torch.float32, torch.bfloat16))
    pairs = zip([*single, _total(single)], [*half, _total(half)], strict=True)
    lines = [f"{machine()}.", "", "| part, 6,000 records | ms on one core | in half precision |", "|---|---:|---:|"]
    four = "\n".join([*lines, *(f"| {name} | {ours:.0f} | {other:.0f} |" for (name, ours), (_, other) in pairs)])
    lines = [f"{machine()}.", "", "| part, 6,000 records | ms on one core |", "|---|---:|"]
    five = "\n".join([*lines, *(f"| {name} | {taken:.2f} |" for name, taken in rows())])
    for title, text in (("W4: what its convolutions take", four), ("W5: what its largest layer takes", five)):
        print(f"{title} at least\n{text}\n")
        if chosen.write:
            put("Seconds a step of DP-SGD", f"{title} at least", text)


def _total(found: list[tuple[str, float]]) -> tuple[str, float]:
    return "together", sum(taken for _, taken in found)


if __name__ == "__main__":
    main()
