"""Noise that remembers, over clients that take turns."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from oracles import assert_normal
from played import SMALL, bounded_of, cast, charged, play, summed_of
from sordino.account.accountants.accountant import epsilon
from sordino.account.accountants.banded import coefficients, matrix
from sordino.aggregate.plain import PlainSum
from sordino.errors import CompositionError, RecipeError
from sordino.events import CorrelatedGaussian, GaussianDpEvent
from sordino.perturb.banded import BandedNoise
from sordino.perturb.gaussian import CentralGaussian
from sordino.random.streams import Streams
from sordino.recipe import Recipe
from sordino.runs.run import run
from sordino.select.fixed import Everyone
from sordino.select.separated import Separated
from sordino.stages import Released
from sordino.terms import Knobs, Terms, Turn

BANDED = ("mechanism.name=banded", "mechanism.groups=4", "run.rounds=10")


def stream(part: BandedNoise, totals: torch.Tensor, z: float = 1.0, skip: tuple[int, ...] = ()) -> list[Released]:
    """Returns what a server releases of these sums, one row a round; rounds to skip are aborted."""
    memory, out = {}, list[Released]()
    for round_, total in enumerate(totals, 1):
        if round_ in skip:
            continue
        turn = Turn(Terms(round_, torch.zeros(len(total)), Knobs(1.0, z), np.arange(1)), Streams(7), memory)
        summed = summed_of(part, PlainSum(1.0), turn, bounded_of(turn, total[None]))
        out.append(part.release(summed, turn))
        memory = dict(out[-1].memory)
    return out


def test_the_noise_of_every_round_is_that_of_the_inverse_matrix() -> None:
    bands, rounds, width = coefficients(4, 8), 8, 40_000
    released = stream(BandedNoise(bands), torch.zeros(rounds, width), 2.0)
    rows = np.stack([one.mean.double().numpy() for one in released])
    inverse = np.linalg.inv(matrix(np.array(bands), rounds))
    for t in range(rounds):
        spread = 2.0 * float(np.linalg.norm(inverse[t]))
        assert_normal(rows[t], spread)
        assert released[t].stddev == pytest.approx(spread, rel=1e-9)
    # and once unmixed it is fresh: what costs is C·Y, whose rows are independent
    fresh = matrix(np.array(bands), rounds) @ rows
    for row in fresh:
        assert_normal(row, 2.0)
    assert abs(np.corrcoef(fresh) - np.eye(rounds)).max() < 5 / math.sqrt(width)


def test_sums_come_through_whatever_the_noise_and_whichever_rounds_failed() -> None:
    bands, width = coefficients(3, 6), 2_000
    totals = torch.linspace(-3, 3, 6)[:, None].expand(6, width).contiguous()
    quiet = stream(BandedNoise(bands), torch.zeros(6, width), 0.5, skip=(3,))
    told = stream(BandedNoise(bands), totals, 0.5, skip=(3,))
    for place, (with_data, without) in enumerate(zip(told, quiet, strict=True)):
        round_ = place + (2 if place >= 2 else 1)
        assert torch.allclose(with_data.mean - without.mean, totals[round_ - 1], atol=1e-4)


@pytest.mark.parametrize(("rounds", "separated"), [((0, 4, 8), True), ((0, 1, 2), False)])
def test_the_best_attack_on_a_whole_stream_sees_one_gaussian_a_participation(rounds, separated) -> None:
    """Every coordinate is a trial: its unit adds 1 in these rounds or not; the likelihood ratio looks at all rounds."""
    bands, z, trials, total = coefficients(4, 12), 3.0, 20_000, 12
    there = torch.zeros(total, trials)
    there[list(rounds)] = 1.0
    mixer = matrix(np.array(bands), total)
    scores = []
    for contributions in (torch.zeros(total, trials), there):
        seen = np.stack([one.mean.double().numpy() for one in stream(BandedNoise(bands), contributions, z)])
        scores.append((mixer @ there[:, 0].numpy()) @ (mixer @ seen))
    separation = (scores[1].mean() - scores[0].mean()) / scores[0].std()
    promised = math.sqrt(len(rounds)) / z
    if separated:
        assert separation == pytest.approx(promised, rel=0.03), "neither more than is charged, nor less than could be"
    else:
        assert separation > 1.3 * promised, "participations that are too close would be undercharged: hence the rota"


def test_banded_noise_takes_back_what_it_did_to_the_model() -> None:
    rounds, width = 20, 20_000
    sums = {
        b: torch.stack([one.mean for one in stream(BandedNoise(coefficients(b, rounds)), torch.zeros(rounds, width))])
        for b in (1, 10)
    }
    independent, banded = (float(sums[b].double().sum(0).square().mean()) for b in (1, 10))
    assert independent == pytest.approx(rounds, rel=0.05)
    from sordino.account.accountants.banded import last_error

    assert banded == pytest.approx(last_error(np.array(coefficients(10, rounds)), rounds), rel=0.05)
    assert banded < independent / 3


def test_one_band_is_plain_central_noise_at_the_same_price() -> None:
    turn = Turn(Terms(1, torch.zeros(50_000), Knobs(1.0, 3.0), np.arange(1)), Streams(3))
    plain, banded = CentralGaussian(), BandedNoise((1.0,))
    for part in (plain, banded):
        summed = summed_of(part, PlainSum(1.0), turn, bounded_of(turn, torch.zeros(1, 50_000)))
        assert_normal(part.release(summed, turn).mean.numpy(), 3.0)
    costs = [
        {type(e).__name__: getattr(e, "noise_multiplier", None) for _, e in p.price(turn.knobs)}
        for p in (plain, banded)
    ]
    assert costs[0]["GaussianDpEvent"] == costs[1]["CorrelatedGaussian"] == 3.0


def test_two_participations_are_as_far_apart_as_there_are_groups(tmp_path) -> None:
    play(tmp_path / "run", *BANDED, "dropout.rate=0.3", "dropout.late=0.3", "dropout.late_round=6")
    with charged(tmp_path / "run") as ledger:
        rounds = {client: [] for client in range(24)}
        for entry in ledger.entries:
            for client in entry.participants.ids().tolist():
                rounds[client].append(entry.round_)
    assert sum(map(len, rounds.values())) > 24
    for client, mine in rounds.items():
        assert all(b - a >= 4 for a, b in pairwise(mine))
        assert all((round_ - 1) % 4 == client % 4 for round_ in mine)


def test_a_client_pays_one_gaussian_a_participation(tmp_path) -> None:
    outcome = play(tmp_path / "run", *BANDED)
    z = outcome.context.mechanism.adapter.start().noise_multiplier
    entry = next(e for e in outcome.certificate.entries if e.observer == "outsider")
    assert entry.epsilon == pytest.approx(epsilon({GaussianDpEvent(z): 3}, 1e-5), rel=1e-6)  # rounds 1, 5, 9
    assert entry.epsilon == pytest.approx(8.0, abs=1e-4) and entry.epsilon <= 8.0
    assert next(e for e in outcome.certificate.entries if e.observer == "server").epsilon is None
    with charged(tmp_path / "run") as ledger:
        assert {c.event for e in ledger.entries for c in e.charges if c.guarantee.observer == "outsider"} == {
            CorrelatedGaussian(z)
        }


def test_more_bands_than_separation_are_refused() -> None:
    with pytest.raises(RecipeError, match="at most as many rounds"):
        cast(*BANDED, "mechanism.bands=5")
    with pytest.raises(RecipeError, match="rota of its own"):
        cast(*BANDED, "select.kind=poisson", "select.rate=0.5")
    mechanism = cast(*BANDED).mechanism
    for selector in (Everyone(), Separated(3)):
        with pytest.raises(CompositionError, match="4 rounds apart"):
            replace(mechanism, selector=selector)
    replace(mechanism, selector=Separated(9))


def test_a_run_that_is_resumed_remembers_its_noise(tmp_path) -> None:
    whole = play(tmp_path / "whole", *BANDED)
    recipe = Recipe.load(None, [*SMALL, *BANDED])

    class Stop(Exception):
        pass

    def stop(metrics) -> None:
        if metrics["round"] == 6:
            raise Stop

    with pytest.raises(Stop):
        run(recipe, out=tmp_path / "cut", watcher=stop)
    resumed = run(recipe, out=tmp_path / "cut", resume=True)
    assert torch.equal(resumed.weights, whole.weights)


def test_what_is_remembered_is_not_published(tmp_path) -> None:
    play(tmp_path / "run", *BANDED)
    public = b"".join(path.read_bytes() for path in (tmp_path / "run" / "public").rglob("*") if path.is_file())
    assert b"banded_sums" not in public
