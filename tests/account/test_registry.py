"""Events from outside: registered once, written and read back, priced by every accountant that was told how."""

import attrs
import numpy as np
import pytest

from sordino.account.accountants import pld, profile, rdp, renyi
from sordino.account.accountants.accountant import price
from sordino.account.accountants.registry import register_event
from sordino.account.accountants.running import RunningCost
from sordino.errors import UnknownEvent
from sordino.events import _KNOWN, DpEvent, GaussianDpEvent, PoissonSampledDpEvent, decode, describe, encode


@attrs.frozen
class Gauss(DpEvent):
    """A Gaussian under another name: its price is known."""

    z: float


@attrs.frozen
class Quiet(DpEvent):
    z: float


@pytest.fixture(autouse=True, scope="module")
def registered():
    register_event(
        Gauss, lambda event, orders, _: renyi.gaussian(event.z, orders), lambda event, _: profile.gaussian(1 / event.z)
    )
    register_event(Quiet, lambda event, orders, _: renyi.gaussian(event.z, orders))
    yield
    for kind in (Gauss, Quiet):
        _KNOWN.pop(kind.__name__)


def test_written_and_read_back():
    event = PoissonSampledDpEvent(0.1, Gauss(2.0))
    assert decode(encode(event)) == event
    assert describe(event) == "PoissonSampled(0.1, Gauss(2))"


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: PoissonSampledDpEvent(0.05, e)])
def test_loss_distributions_are_those_of_the_same_gaussian(wrap):
    ours = price({wrap(Gauss(1.5)): 20})
    assert ours.accountant == "pld"
    assert ours.epsilon(1e-5) == pytest.approx(price({wrap(GaussianDpEvent(1.5)): 20}).epsilon(1e-5), rel=1e-4)
    assert RunningCost().add(wrap(Gauss(1.5)), 20).epsilon(1e-5) == pytest.approx(ours.epsilon(1e-5), abs=1e-4)


def test_composition_law_and_the_general_sampling_bound():
    event = PoissonSampledDpEvent(0.05, Quiet(2.0))
    assert price({event: 6}).epsilon(1e-5) == price([event] * 6).epsilon(1e-5)
    assert price({event: 6}).accountant == "rdp"
    assert price({event: 6}).epsilon(1e-5) >= price(
        {PoissonSampledDpEvent(0.05, GaussianDpEvent(2.0)): 6}, "rdp"
    ).epsilon(1e-5)


def test_a_kind_has_one_price():
    with pytest.raises(UnknownEvent, match="already"):
        register_event(Gauss, lambda event, orders, _: orders)
    with pytest.raises(UnknownEvent, match="already"):
        register_event(GaussianDpEvent, lambda event, orders, _: 0 * orders)


def test_what_cannot_be_written_is_not_registered():
    class Loose(DpEvent):
        pass

    taken = attrs.frozen(type("Skellam", (DpEvent,), {"__annotations__": {"z": float}}))
    for kind in (Loose, taken):
        with pytest.raises(UnknownEvent, match="cannot be registered"):
            register_event(kind, lambda event, orders, _: orders)
        assert kind not in rdp.event_cost.registry
        assert kind not in pld.profile_of.registry


def test_nonsense_readings_are_refused():
    @attrs.frozen
    class Odd(DpEvent):
        z: float

    register_event(Odd, lambda event, orders, _: -np.ones_like(orders))
    with pytest.raises(UnknownEvent, match="at least 0"):
        price(Odd(1.0), "rdp")
    _KNOWN.pop("Odd")
