"""Runs one contender in a process of its own, and lets the driver say when it plays.

    python serve.py CONTENDER WORKLOAD [OPTION]

Commands arrive on standard input, one a line; answers leave as one JSON object a line. A contender is a module with a
class `Contender(workload, option)` that offers `play(rounds, noise) → seconds of each round` and `weights()`.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path


def peak_mebibytes(process: int) -> float:
    """Returns the largest resident memory that a process and its children have had, added up."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(status["VmHWM"].split()[0]) / 1024 + sum(peak_mebibytes(int(child)) for child in children)


def main() -> None:
    began = time.perf_counter()
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a framework prints goes to standard error
    name, workload_name, *option = sys.argv[1:]
    imported = importlib.import_module(name)
    libraries = time.perf_counter() - began
    from workloads import WORKLOADS, accuracy, data

    data()
    workload = WORKLOADS[workload_name]
    began = time.perf_counter()
    contender = imported.Contender(workload, *option)
    start_up = time.perf_counter() - began
    print(json.dumps({"libraries": libraries, "start_up": start_up}), file=answers)
    for line in sys.stdin:
        command, *words = line.split()
        if command == "play":
            print(json.dumps(contender.play(int(words[0]), float(words[1]))), file=answers)
        elif command == "learn":
            contender = imported.Contender(workload, *option)
            contender.play(int(words[0]), 0.0)
            print(json.dumps(accuracy(workload, contender.weights())), file=answers)
        elif command == "memory":
            print(json.dumps(peak_mebibytes(os.getpid())), file=answers)


if __name__ == "__main__":
    main()
