"""Every certified mechanism over Flower, under each trust that it has: it runs, and costs what a simulation says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from federation.village import played_and_made
from sordino.account.certificate.certificate import Certificate
from sordino.account.certificate.document import CertificateDocument
from sordino.account.ledger.ledger import Ledger
from sordino.runs.folder import RunFolder

SMALL = (
    "partition.clients=6",
    "run.rounds=2",
    "budget.epsilon=50",
    "aggregate.tolerance=0.2",
    "data.public_fraction=0.1",
    "train.batch_size=16",
)
VARIANTS = (
    "dropout_robust",
    "dp_sgd",
    "dp_sgd mechanism.sampling_rate=0.5",
    "dp_sgd mechanism.trust=central",
    "dp_fedavg",
    "dp_fedavg_adaptive",
    "fed_ldp",
    "laplace",
    "fed_cad",
    "fed_cad mechanism.obsolete=0.4",
    "geometric",
    "geometric mechanism.trust=distributed mechanism.unit=record",
    "geometric mechanism.trust=central",
    "geometric mechanism.refine=true",
    "component_adaptive",
    "component_adaptive mechanism.trust=distributed",
    "component_adaptive mechanism.trust=central",
    "banded mechanism.groups=2",
    "local_dp_sgd",
    "distributed_gaussian",
    "auto",
    "a_dpfl",
    "a_dpfl mechanism.validation=clients mechanism.adjust_every=1",
)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_mechanism_gives_over_flower_what_it_gives_in_a_simulation(variant: str, tmp_path: Path) -> None:
    outcome, made = played_and_made(tmp_path, variant, *SMALL)
    name, last = made.recipe.mechanism.name, made.deployment().play()

    scale = max(1.0, float(outcome.weights.abs().max()))
    assert float((last.here.weights - outcome.weights).abs().max()) <= 1e-5 * scale
    assert last.here.round_ == outcome.rounds
    told = CertificateDocument.from_json(RunFolder(made.folder.run_dir).certificate_file.read_text())
    for one, other in zip(told.promises, outcome.document.promises, strict=True):
        assert (one.unit, one.observer, one.adjacency) == (other.unit, other.observer, other.adjacency)
        assert one.epsilon == pytest.approx(other.epsilon)
    for node in made.nodes:  # each has paid for every message of its own, without any amplification
        with node.ledger(write=False) as ledger:
            assert len(ledger.entries) == 2 + (name == "a_dpfl") - (name == "banded")  # whose groups take turns
            if not outcome.context.mechanism.adaptive:  # else the certificate quotes its filter, which is the budget
                _pays_no_less(ledger, outcome.certificate)
    assert torch.isfinite(last.here.weights).all()


def _pays_no_less(ledger: Ledger, certificate: Certificate) -> None:
    paid = {(g.unit, g.observer): float(ledger.book(g).prices(1e-5).epsilon.max()) for g in ledger.guarantees}
    for entry in certificate.entries:
        if entry.epsilon is not None and (entry.unit, entry.observer) in paid:
            assert paid[entry.unit, entry.observer] >= entry.epsilon * (1 - 1e-6)
