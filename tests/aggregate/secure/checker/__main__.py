"""The checker's long form: `make checker`, or `python -m tests.aggregate.secure.checker` (`--quick`: as in the suite).

`--write docs/secure-aggregation.md` puts the table there, between its two marks.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from .defects import DEFECTS, terms_below_the_floor, worlds
from .lies import Report, Search
from .wide import search

BEGIN, END = "<!-- checker: begin -->", "<!-- checker: end -->"
HEAD = (
    "| world | states | lies | answers of real clients | sums opened, by honest inputs | "
    "of too few, or with too little noise |\n|---|---|---|---|---|---|"
)


def reports(quick: bool, seconds: float) -> Iterator[Report]:
    """All searches: the code as it is, then with one finding after the other put back."""
    for name, world, floor in worlds(not quick):
        yield Search(world, name, floor, seconds).run()
    yield terms_below_the_floor("terms below the floors", 60)
    yield search("48 to 200 clients on sparse graphs, at random", 20 if quick else 60)
    for name, (defect, find) in DEFECTS.items():
        with defect():
            yield find()
            if name == "S1":
                yield search("S1 put back, sparse graphs at random", 60)


def row(report: Report) -> str:
    """One line of the table in the docs."""
    sizes = ", ".join(f"{count} of {size}" for size, count in sorted(report.sums.items()))
    if len(report.sums) > 8:
        sizes = f"{sum(report.sums.values())}, of {min(report.sums)} to {max(report.sums)}"
    found = "none" if report.finished else "none, stopped by the clock"
    if report.attacks:
        found = "**found**: " + report.attacks[0].removeprefix("ATTACK: ").split(": ")[0]
    numbers = " | ".join(f"{number:,}" for number in (report.states, report.lies, report.asked))
    return f"| {report.name} | {numbers} | {sizes or 'none'} | {found} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=900.0, help="most processor seconds for each world")
    parser.add_argument("--write", type=Path, help="page to write the table to")
    arguments = parser.parse_args()
    rows = []
    for each in reports(arguments.quick, arguments.seconds):
        print(each, flush=True)
        rows.append(row(each))
    if arguments.write:
        before, _, rest = arguments.write.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        arguments.write.write_text("\n".join([before + BEGIN, HEAD, *rows, END]) + after)
