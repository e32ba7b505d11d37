"""The plain rivals: what they leave out is left out, and what they promise is what the accountant prices."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from oracles import assert_normal
from played import bounded_of, cast, first_turn, play, summed_of
from sordino.account.accountants.accountant import epsilon
from sordino.errors import ProtocolError
from sordino.mechanisms import MECHANISMS
from sordino.perturb.steps import step_event
from sordino.select.fixed import Everyone
from sordino.server.view import reveals
from sordino.terms import Vanished

SHARED = ("aggregate.kind=plain", "aggregate.tolerance=0.5", "partition.clients=10")


@pytest.mark.parametrize("unit", ["client", "record"])
def test_shares_that_are_not_thinned_keep_the_worst_cases_noise(unit: str) -> None:
    mechanism = cast("mechanism.name=distributed_gaussian", f"mechanism.unit={unit}", *SHARED).mechanism
    width, turn = 20_000, first_turn(mechanism, 20_000, clients=10)
    z, weight = turn.knobs.noise_multiplier, mechanism.aggregator.denominator
    assert not reveals(mechanism.perturber), "survivors reveal nothing, and the certificate must not say so"
    for left in (10, 7):
        quiet = bounded_of(turn, torch.zeros(left, width))
        assert mechanism.perturber.shield(quiet, turn).kept is None
        released = mechanism.perturber.release(summed_of(mechanism.perturber, mechanism.aggregator, turn, quiet), turn)
        # shares are drawn for five survivors: n′/5 of the variance that is promised
        spread = z * turn.knobs.clip_norm * math.sqrt(left / 5) / weight
        assert_normal(released.mean.numpy(), spread)
        assert released.stddev == pytest.approx(spread, rel=1e-6)
        assert released.prices == mechanism.perturber.price(turn.knobs), "more noise is not credited"
    with pytest.raises(ProtocolError):
        summed_of(mechanism.perturber, mechanism.aggregator, turn, bounded_of(turn, torch.zeros(4, width)))


def test_thinned_noise_is_less_for_the_same_price() -> None:
    thinned, kept = (cast(f"mechanism.correction={how}", *SHARED).mechanism for how in ("thin", "keep"))
    assert thinned.perturber.thin and not kept.perturber.thin and reveals(thinned.perturber)
    turn = first_turn(thinned, 10_000, clients=10)
    spreads = [
        part.perturber.release(
            summed_of(part.perturber, part.aggregator, turn, bounded_of(turn, torch.zeros(9, 10_000))), turn
        ).stddev
        for part in (thinned, kept)
    ]
    assert spreads[1] / spreads[0] == pytest.approx(math.sqrt(9 / 5), rel=1e-6)
    assert thinned.adapter.start().noise_multiplier == kept.adapter.start().noise_multiplier


def test_a_round_that_loses_a_client_is_discarded_and_stays_paid_for(tmp_path) -> None:
    settings = ("mechanism.correction=discard", "aggregate.kind=plain", "dropout.rate=0.9")
    outcome = play(tmp_path / "run", *settings)
    assert torch.equal(outcome.weights, outcome.context.weights), "nothing was released"
    worst = max(entry.epsilon for entry in outcome.certificate.entries)
    assert worst == pytest.approx(8.0, abs=1e-3)
    mechanism = cast("mechanism.correction=discard", *SHARED).mechanism
    turn = first_turn(mechanism, 50, clients=10)
    summed_of(mechanism.perturber, mechanism.aggregator, turn, bounded_of(turn, torch.zeros(10, 50)))
    with pytest.raises(ProtocolError):
        lost = Vanished(upload=np.array([9]))
        summed_of(mechanism.perturber, mechanism.aggregator, turn, bounded_of(turn, torch.zeros(9, 50)), vanished=lost)


def test_plain_local_dp_sgd_is_a_dpfl_without_its_ideas() -> None:
    settings = ("train.batch_size=8", "train.steps=3", "budget.epsilon=4")
    plain = cast("mechanism.name=local_dp_sgd", *settings).mechanism
    bare = cast(
        "mechanism.name=a_dpfl", "mechanism.selection=uniform", "mechanism.schedule=constant", *settings
    ).mechanism
    assert plain.opening is None and bare.opening is None and not plain.adaptive and not bare.adaptive
    assert isinstance(bare.selector, Everyone)
    one, two = (m.adapter.start().noise_multiplier for m in (plain, bare))
    assert one == pytest.approx(two, rel=1e-6)
    rate, steps = plain.perturber.sampling_rate, plain.perturber.steps
    cost = epsilon({step_event(one, rate, steps): 5}, 1e-5)
    assert 4 - 1e-4 < cost <= 4


def test_schedules_that_look_at_nothing_pay_for_nothing_else() -> None:
    settings = ("mechanism.name=a_dpfl", "budget.epsilon=4", "train.steps=1")
    constant, falling = (
        cast(*settings, "mechanism.selection=uniform", f"mechanism.schedule={how}").mechanism
        for how in ("constant", "geometric")
    )
    first, last = (falling.adapter.planned(m).noise_multiplier for m in (1, 5))
    assert last / first == pytest.approx(0.7**2, rel=1e-6), "it ends where two decays would"
    steps = falling.perturber
    levels = [falling.adapter.planned(m).noise_multiplier for m in range(1, 6)]
    events = [step_event(z, steps.sampling_rate, steps.steps) for z in levels]
    assert 4 - 1e-4 < epsilon(dict.fromkeys(events, 1), 1e-5) <= 4
    assert last < constant.adapter.start().noise_multiplier < first
    ranked = cast(*settings, "mechanism.schedule=constant").mechanism
    assert (
        ranked.opening is not None
        and ranked.adapter.start().noise_multiplier > constant.adapter.start().noise_multiplier
    )


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_variant_can_be_composed_and_says_what_it_leaves_out(name: str) -> None:
    for variant in MECHANISMS[name].variants:
        assert variant.about and variant.label and "-" not in variant.label and "/" not in variant.label
        assert cast(f"mechanism.name={name}", *variant.settings).mechanism.mode == "certified"
