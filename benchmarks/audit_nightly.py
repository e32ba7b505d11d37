"""200 audits of certified mechanisms, with different seeds and parameters: none may find more than is certified.

    python benchmarks/audit_nightly.py [--audits 200] [--trials 200000] [--json FILE]

Prints one line an audit, and at the end how many false alarms there were. Exits with 1 if there was any.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from sordino.audit.finding import Finding
from sordino.audit.scene import stage
from sordino.audit.whitebox import audit, guarantees

# mechanism, settings, and whether its release is folded or played one by one (then with fewer trials)
FAMILIES: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("fed_ldp", (), 1),
    ("fed_ldp", ("mechanism.adjacency=replace", "run.rounds=3"), 1),
    ("laplace", (), 1),
    ("laplace", ("run.rounds=2", "mechanism.adjacency=replace"), 1),
    ("dp_fedavg", (), 1),
    ("dp_fedavg", ("run.rounds=3",), 1),
    ("dp_fedavg", ("select.kind=poisson", "select.rate=0.3"), 1),
    ("dp_fedavg_adaptive", (), 100),
    ("dp_sgd", (), 1),
    ("dp_sgd", ("mechanism.sampling_rate=0.3",), 1),
    ("dp_sgd", ("aggregate.kind=plain", "aggregate.tolerance=0.5"), 1),
    ("component_adaptive", ("run.rounds=3",), 1),
    ("component_adaptive", ("mechanism.trust=distributed", "run.rounds=2"), 1),
    ("dropout_robust", ("aggregate.kind=plain", "aggregate.tolerance=0.5"), 1),
    ("dropout_robust", ("aggregate.kind=secure", "aggregate.tolerance=0.25"), 100),
    ("a_dpfl", ("run.rounds=2",), 1),
    ("fed_cad", ("run.rounds=3",), 1),
    ("fed_cad", ("run.rounds=2", "mechanism.difference=0.2", "mechanism.adjacency=replace"), 1),
    ("geometric", ("run.rounds=3",), 1),
    ("geometric", ("run.rounds=3", "mechanism.theta=0.8", "mechanism.trust=central"), 1),
)


def one(number: int, trials: int) -> list[Finding]:
    """Plays one audit: the family by turns, ε, clip norm and seed by the number."""
    name, settings, slower = FAMILIES[number % len(FAMILIES)]
    rng = np.random.default_rng(number)
    epsilon, clip = float(np.exp(rng.uniform(np.log(0.5), np.log(8)))), float(rng.choice([0.1, 0.5, 1.0, 4.0]))
    drawn = (f"budget.epsilon={epsilon:.4f}", f"mechanism.clip_norm={clip}")
    scene = stage(name, "certified", (*drawn, *settings))
    # under local trust the server's, who sees messages one by one
    promises = [g for g in guarantees(scene) if scene.mechanism.trust != "local" or g.observer == "server"]
    return [audit(scene, promises[number // len(FAMILIES) % len(promises)], trials // slower, seed=number)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--trials", type=int, default=200_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    began, found = time.perf_counter(), list[Finding]()
    for number in range(arguments.audits):
        for finding in one(number, arguments.trials):
            found.append(finding)
            print(
                f"{number:3d} {finding.mechanism:20s} {finding.observer:8s} certified {finding.certified or 0:7.3f}  "
                f"at least {finding.lower_bound:6.3f}  fit {finding.gaussian_fit or 0:6.3f}  {finding.verdict}",
                flush=True,
            )
    above = [f for f in found if f.certified is not None and f.lower_bound > f.certified]
    alarms = [f for f in found if f.verdict != "consistent"]
    print(
        f"{len(found)} audits in {time.perf_counter() - began:.0f} s: {len(above)} lower bounds above the certified ε, "
        f"{len(alarms)} alarms in all (whole curve included)"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps([finding.to_json() for finding in found], indent=1))
    return int(bool(alarms))


if __name__ == "__main__":
    sys.exit(main())
