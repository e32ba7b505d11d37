"""Algorithm 3 of Baek et al. through the secure sum: the same sums as without it, and a run from end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import sordino
from played import bounded_of, summed_of
from sordino.aggregate.plain import PlainSum
from sordino.aggregate.printed_sum import PrintedSecureSum
from sordino.perturb.printed import PrintedShares
from sordino.perturb.printed_integers import PrintedIntegerShares
from sordino.recipe import Recipe
from sordino.terms import Vanished

WEIGHTS = torch.tensor([1.0, 0.5, 0.25, 1.0, 1.0, 0.25])
NONE = np.empty(0, np.int64)


@pytest.mark.parametrize("fidelity", ["exact", "full"])
@pytest.mark.parametrize("form", ["uncalibrated", "plain", "extended"])
def test_the_protocol_releases_what_a_plain_sum_does(form, fidelity, make_turn):
    turn = make_turn(1, width=50, cohort=6, clip_norm=0.5, noise_multiplier=2.0)
    gone = np.array([3])
    senders = np.setdiff1d(np.arange(6), gone)
    rows = torch.linspace(-0.05, 0.05, 50).repeat(len(senders), 1) * WEIGHTS[senders][:, None]
    group, vanished = bounded_of(turn, rows, senders, weights=WEIGHTS[senders]), Vanished(NONE, gone, NONE)
    plain, printed = (kind(form, WEIGHTS, 2.5, 0.4) for kind in (PrintedShares, PrintedIntegerShares))
    expected = plain.release(summed_of(plain, PlainSum(None), turn, group, vanished=vanished), turn)
    secure = PrintedSecureSum(1.0, 0.4, printed.modulus_bits, fidelity)
    found = printed.release(summed_of(printed, secure, turn, group, vanished=vanished), turn)
    assert torch.allclose(found.mean, expected.mean, atol=2e-6)
    assert found.stddev == pytest.approx(expected.stddev) and found.prices == expected.prices


def test_a_printed_run_goes_through_the_whole_protocol(tmp_path: Path) -> None:
    recipe = Recipe.from_dict(
        {
            "data": {"name": "digits"},
            "partition": {"clients": 12},
            "public": {"sizes": True},
            "mechanism": {"name": "dropout_robust", "mode": "faithful", "noise_multiplier": 1.0},
            "aggregate": {"kind": "secure", "fidelity": "full", "tolerance": 0.4},
            "dropout": {"rate": 0.1},
            "budget": {"epsilon": 1e9},
            "run": {"rounds": 2},
        }
    )
    outcome = sordino.run(recipe, out=tmp_path / "run")
    assert outcome.certificate.entry("client", "server").epsilon is not None
