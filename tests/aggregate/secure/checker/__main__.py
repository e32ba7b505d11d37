"""The checker's long form: `python -m tests.aggregate.secure.checker` (`--quick`: what the test-suite runs)."""

from __future__ import annotations

import argparse

from .defects import DEFECTS, terms_below_the_floor, worlds
from .lies import Search
from .wide import search

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=900.0, help="most seconds for each world")
    arguments = parser.parse_args()
    print("as it is")
    for name, world, floor in worlds(not arguments.quick):
        print(" ", Search(world, name, floor, arguments.seconds).run(), flush=True)
    print(" ", terms_below_the_floor("terms below the floors", 60), flush=True)
    print(" ", search("48 to 200 clients on sparse graphs, at random", 20 if arguments.quick else 300), flush=True)
    print("with one finding put back")
    for name, (defect, find) in DEFECTS.items():
        with defect():
            print(" ", find(), flush=True)
            if name == "S1":
                print(" ", search("S1 put back, sparse graphs at random", 60), flush=True)
