"""What the size of a cohort, an aborted round, or a place that nobody holds tells an outsider, and what it costs."""

import json

import numpy as np
import pytest

from sordino import run
from sordino.data.federation import Federation
from sordino.data.public import PublicCounts
from sordino.random.streams import Streams
from sordino.select.fixed import FixedSize
from sordino.terms import Knobs, Terms, Turn


def federation(clients, declared=None):
    rng = np.random.default_rng(clients)
    x, declared = rng.normal(size=(clients, 40)).astype(np.float32), declared or clients
    counts = PublicCounts(declared, declared, 2)
    return Federation.of(x, (x[:, 0] > 0).astype(int), np.arange(clients), None, 2, public=counts)


def played(folder, data, **sections):
    """The certified ε against the outsider with its adjacency, and the metrics of all rounds."""
    sections = {"budget": {"epsilon": "none"}, "run": {"rounds": 3}} | sections
    outcome = run(federation=data, out=folder, progress=False, **sections)
    told = [one for one in outcome.certificate.entries if one.observer == "outsider"]
    lines = (folder / "private" / "metrics.jsonl").read_text().splitlines()
    return told, [json.loads(line) for line in lines]


def test_places_that_nobody_holds_are_drawn_as_often_as_they_are_priced():
    """40 clients where 80 are declared: each is drawn at the rate of 20 in 80, and not of 20 in 40."""
    part, everybody = FixedSize(20, 80), np.ones(40, bool)
    turn = Turn(Terms(1, np.zeros(1), Knobs(1.0, 1.0)), Streams(0))
    drawn = [part.select(turn.but(round_=m), everybody) for m in range(1, 401)]
    times = np.bincount(np.concatenate(drawn), minlength=40)
    assert times.mean() == pytest.approx(100, abs=4) and max(map(len, drawn)) <= 20  # five standard errors
    assert [len(FixedSize(20, 40).select(turn.but(round_=m), everybody)) for m in (1, 2)] == [20, 20]


@pytest.mark.parametrize("clients", [2, 3])
def test_noise_does_not_tell_how_many_shared_it_out(tmp_path, clients):
    """With a share that may be corrupt, noise grew with the cohort: by half from two clients to three."""
    (told,), rounds = played(
        tmp_path / "run",
        federation(clients, 3),
        mechanism={"name": "dropout_robust", "noise_multiplier": 2.0},
        aggregate={"corrupt": 0.34},
    )
    assert told.adjacency == "add_remove"
    assert [line["noise_stddev"] for line in rounds] == pytest.approx([2.0 / 3 * 0.5 * 0.66**-0.5] * 3, rel=1e-9)


def test_the_noise_of_an_empty_cohort_is_that_of_all_others(tmp_path):
    _, rounds = played(
        tmp_path / "run",
        federation(4),
        mechanism={"name": "dropout_robust", "noise_multiplier": 2.0},
        aggregate={"corrupt": 0.34},
        select={"kind": "poisson", "rate": 0.2},
        run={"rounds": 16},
    )
    assert {0, 1} < {line["cohort"] for line in rounds}
    assert len({round(line["noise_stddev"], 9) for line in rounds}) == 1


@pytest.mark.parametrize("how", [{"mechanism": {"correction": "discard"}}, {"aggregate": {"tolerance": 0.0}}])
def test_rounds_that_every_dropout_aborts_earn_nothing_from_coins(tmp_path, how):
    """Who vanished was among those that were drawn, and an aborted round is seen by everybody."""
    settings = {"name": "dropout_robust", "noise_multiplier": 2.0} | how.get("mechanism", {})
    sections = {"select": {"kind": "poisson", "rate": 0.3}, "run": {"rounds": 6}} | how | {"mechanism": settings}
    (lossy,), rounds = played(tmp_path / "lossy", federation(20), dropout={"rate": 0.2}, **sections)
    assert any("aborted" in line for line in rounds)
    assert lossy.adjacency == "zero_out"
    (whole,), _ = played(tmp_path / "whole", federation(20), **sections)
    assert whole.adjacency == "add_remove" and whole.epsilon < lossy.epsilon
