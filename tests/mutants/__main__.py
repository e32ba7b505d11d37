"""Plants every mutant, one at a time, and requires that its test fails: `python -m tests.mutants`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .catalogue import MUTANTS
from .table import PAGE, page
from .workshop import Workshop


def main() -> int:
    """Plays the chosen mutants; returns how many were not killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="play those whose file, story or test has it in it")
    parser.add_argument("--write", action="store_true", help="write docs/mutants.md, if all were played and killed")
    chosen = parser.parse_args()
    played = [m for m in MUTANTS if not chosen.names or any(n in f"{m.file} {m.story} {m.test}" for n in chosen.names)]
    if not played:
        parser.error(f"no mutant has {' or '.join(chosen.names)} in its file, story or test")
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder))
        tests = list(dict.fromkeys(mutant.test for mutant in played))
        print(f"{len(tests)} tests on the clean copy …", flush=True)
        if (clean := workshop.clean(tests)).code != 0:
            print(clean.told)
            return 1
        alive = 0
        for place, mutant in enumerate(played, 1):
            verdict = workshop.planted(mutant)
            alive += not verdict.killed
            fate = "killed" if verdict.killed else "ALIVE " if verdict.code == 0 else "BROKEN"
            print(f"{place:4}/{len(played)} {fate} {mutant.file}: {mutant.story}  [{verdict.reason[:100]}]", flush=True)
    print(f"{len(played) - alive} of {len(played)} mutants killed")
    if chosen.write and not alive and len(played) == len(MUTANTS):
        PAGE.write_text(page(MUTANTS), encoding="utf-8")
    return alive


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
