"""Runs one contender in a process of its own, and lets the driver say when it plays.

    python serve.py CONTENDER WORKLOAD [OPTION]

Commands arrive on standard input, one a line; answers leave as one JSON object a line. A contender is a module with a
class `Contender(workload, option)` that offers `play(rounds, noise) → seconds of each round`, `weights()`, and whether
it is `prepared`: all of `play` is rounds. One that is not may say itself what `processor` seconds a round took.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path


def family(process: int) -> list[int]:
    """Returns a process and all that it has started, and they in turn."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *(member for child in children for member in family(int(child)))]


def peak_mebibytes() -> float:
    """Returns the largest resident memory of each of our processes, added up."""
    statuses = [Path(f"/proc/{process}/status").read_text() for process in family(os.getpid())]
    return sum(int(status.split("VmHWM:")[1].split()[0]) / 1024 for status in statuses)


def processor_seconds() -> float:
    """Returns the time that all our processes have computed."""
    stats = [Path(f"/proc/{process}/stat").read_text().rsplit(")")[1].split() for process in family(os.getpid())]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    began = time.perf_counter()
    here = Path(__file__).resolve()
    sys.path[:0] = [str(here.parent), str(here.parents[1])]  # contenders first: flower.py is in both folders
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
            began, rounds = processor_seconds(), contender.play(int(words[0]), float(words[1]))
            busy = (processor_seconds() - began) / int(words[0]) if contender.prepared else None
            busy = getattr(contender, "processor", busy)
            answer = {"rounds": rounds, "processor": busy}
            print(json.dumps(answer), file=answers)
        elif command == "learn":
            contender = imported.Contender(workload, *option)
            contender.play(int(words[0]), 0.0)
            print(json.dumps(accuracy(workload, contender.weights())), file=answers)
        elif command == "memory":
            print(json.dumps(peak_mebibytes()), file=answers)


if __name__ == "__main__":
    main()
