"""Work for all cores: for calls that let go of the interpreter, as ciphers, hashes and signatures do."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

CORES = min(os.cpu_count() or 1, 8)

_WORTH_THREADS = 16
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def on_all_cores(call: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """Returns what a call returns for each item, in their order; raises what it raised for one that failed."""
    if len(items) < _WORTH_THREADS or CORES == 1:
        return [call(item) for item in items]
    with ThreadPoolExecutor(CORES) as pool:
        parts = list(pool.map(lambda core: [call(item) for item in items[core::CORES]], range(CORES)))
    return [parts[number % CORES][number // CORES] for number in range(len(items))]
