"""What an outsider sees of local noise: the sum's, and when nothing of it may be credited."""

import math

import pytest

from sordino.account.accountants import exact as gaussian
from sordino.account.accountants.accountant import price
from sordino.account.accountants.calibrate import noise_multiplier_for
from sordino.account.accountants.outsider import within_sum
from sordino.errors import AccountingError, UnknownEvent
from sordino.events import (
    ComposedDpEvent,
    CorrelatedGaussian,
    DiscreteGaussian,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    Skellam,
)


def test_the_numbers_of_the_review():
    z = noise_multiplier_for(1.0, 1e-5, lambda noise: {GaussianDpEvent(noise): 1}, "exact", "zero_out")
    for noises, told in [(1, 1.0), (100, 0.081), (1437, 0.0185)]:
        event = within_sum(GaussianDpEvent(z), noises, "zero_out")
        assert price(event, "exact", "zero_out").epsilon(1e-5) == pytest.approx(told, rel=0.02)


def test_noises_add_up_and_messages_do_not():
    assert within_sum(GaussianDpEvent(2.0), 9, "replace") == GaussianDpEvent(6.0)
    assert within_sum(Skellam(4.0, 2.0, 3.0), 9, "zero_out") == Skellam(36.0, 2.0, 3.0)
    assert within_sum(DiscreteGaussian(8.0, 2.0), 9, "zero_out") == DiscreteGaussian(24.0, 2.0, 9)
    twice = SelfComposedDpEvent(ComposedDpEvent((GaussianDpEvent(1.0), LaplaceDpEvent(3.0))), 2)
    inner = within_sum(twice, 4, "zero_out").event.events
    assert inner == (GaussianDpEvent(2.0), LaplaceDpEvent(3.0))


@pytest.mark.parametrize(
    ("event", "adjacency"),
    [
        (GaussianDpEvent(1.0), "add_remove"),
        (CorrelatedGaussian(1.0), "zero_out"),
        (LaplaceDpEvent(1.0), "zero_out"),
        (PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0)), "zero_out"),
    ],
)
def test_nothing_is_credited_where_nothing_is_proved(event, adjacency):
    assert within_sum(event, 100, adjacency) == event


def test_grids_too_coarse_to_add_up_are_refused():
    with pytest.raises(UnknownEvent, match="Skellam"):
        price(within_sum(DiscreteGaussian(3.0, 2.0), 9, "zero_out"))
    with pytest.raises(AccountingError, match="at least"):
        within_sum(GaussianDpEvent(1.0), 0, "zero_out")


def test_absence_shows_in_the_noise():
    """Why add_remove earns nothing: without the client the noise is smaller, and many coordinates show by how much."""
    noises, coordinates = 50, 100_000
    ratio = noises / (noises - 1)
    spread = math.sqrt(2 / coordinates)  # of the mean square of the noise, relative to itself
    assert (ratio - 1) / spread > 4
    assert gaussian.epsilon_of(1 / (10 * math.sqrt(noises)), 1e-5) < 0.1
