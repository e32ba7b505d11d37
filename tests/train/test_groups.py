"""Sums in single precision by groups of clients: what one client changes, and how far rounding goes."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from sordino.data.client_data import ClientData
from sordino.models.losses import cross_entropy
from sordino.random.streams import Streams
from sordino.train import LocalTraining, Trainer
from sordino.train import engine as engines
from sordino.train.engine import stretches
from sordino.train.gradients import MARGIN, SINGLE
from sordino.train.groups import FEWEST_GROUPED, MOST_TOGETHER, dealt, grouped
from sordino.train.rows import _lengths
from train.cohorts import weights
from train.test_rounding import SPREADS, spread_out

BOUND = 0.37


def halves(numbers, most, low=0, high=2**62):
    """The definition, by halving intervals until they hold few enough."""
    if len(numbers) <= most:
        return [numbers] if numbers else []
    middle = (low + high) // 2
    below, above = ([n for n in numbers if (n < middle) == side] for side in (True, False))
    return halves(below, most, low, middle) + halves(above, most, middle, high)


@pytest.mark.parametrize("seed", range(60))
def test_groups_are_the_widest_intervals_that_hold_few_enough(seed):
    draws = np.random.default_rng(seed)
    most, top = int(draws.integers(1, 34)), 2 ** int(draws.integers(9, 61))
    numbers = np.unique(draws.integers(0, top, int(draws.integers(1, 300))))
    found = [part.tolist() for part in np.split(numbers, dealt(numbers, most)[1:])]
    assert found == halves(numbers.tolist(), most)


def groups_of(clients, lengths):
    """Returns the groups as sets of clients."""
    order, groups = grouped(clients, lengths, Streams(3), 1)
    assert sorted(order.tolist()) == list(range(len(clients))) and (np.diff(groups) >= 0).all()
    return {frozenset(clients[order[groups == group]].tolist()) for group in range(groups[-1] + 1)}


@pytest.mark.parametrize("lengths", ["alike", "mixed"])
@pytest.mark.parametrize("count", [FEWEST_GROUPED + 1, 200, 700])
def test_a_client_who_leaves_changes_the_sums_of_few_others(count, lengths):
    clients, draws = np.arange(count) * 3, np.random.default_rng(count)
    sizes = np.full(count, 12) if lengths == "alike" else draws.integers(1, 40, count)
    before = groups_of(clients, sizes)
    assert max(map(len, before)) <= MOST_TOGETHER
    for one in range(0, count, 7):
        after = groups_of(np.delete(clients, one), np.delete(sizes, one))
        gone, new = before - after, after - before
        assert clients[one] in set().union(*gone) and len(gone) <= 2
        assert sum(map(len, gone)) <= SINGLE and sum(map(len, new)) <= SINGLE


def test_few_clients_are_not_grouped():
    few = np.arange(FEWEST_GROUPED - 1)
    assert grouped(few, few + 1, Streams(0), 1) is None


def test_groups_are_drawn_afresh_each_round():
    clients, lengths = np.arange(200), np.full(200, 5)
    first, again, second = (grouped(clients, lengths, Streams(0), round_)[0] for round_ in (1, 1, 2))
    assert (first == again).all() and (first != second).any()


@pytest.mark.parametrize("pieces", [2, 8])
def test_no_stretch_of_a_cohort_divides_a_group_and_halves_are_alike(pieces):
    clients, lengths = np.arange(900), np.random.default_rng(0).integers(1, 40, 900)
    order, groups = grouped(clients, lengths, Streams(0), 1)
    work = lengths[order]
    memory = np.full(900, 2**26 * (pieces - 0.5) / 900 if pieces > 2 else 1)
    cuts = stretches(work, memory, None, groups)
    assert len(cuts) == pieces and cuts[0].start == 0 and cuts[-1].stop == 900
    for before, after in pairwise(cuts):
        assert before.stop == after.start and groups[after.start] != groups[after.start - 1]
    first = sum(work[cut].sum() for cut in cuts[: pieces // 2])
    assert abs(first / work.sum() - 0.5) < 0.02


def test_the_rounding_of_groups_is_within_what_is_set_aside():
    unit = 2.0**-24 * (1 + 1e-4)
    set_aside = 2 * (SINGLE + 3) * unit * SINGLE  # what `gradients.py` takes from the margin
    one_leaves = (MOST_TOGETHER + 3) * unit * (SINGLE + MOST_TOGETHER)
    all_give_way = (MOST_TOGETHER + 3) * unit * FEWEST_GROUPED
    assert max(one_leaves, all_give_way) <= set_aside < MARGIN - 1e-5


def model():
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(200, 16), nn.ReLU(), nn.Linear(16, 4))


def cohort(kind, count, each=3):
    """Clients whose gradients all point one way, cancel within each client, or are of very different sizes."""
    draws = torch.Generator().manual_seed(count)
    x, y = torch.randn(count * each, 200, generator=draws), torch.randint(0, 4, (count * each,), generator=draws)
    if kind == "alike":
        x, y = x[:1] + 1e-4 * x, y[:1].expand(len(y)).clone()
    elif kind == "cancelling":
        x, y = x[::each].repeat_interleave(each, 0)[: len(y)], torch.arange(len(y)) % 4
    else:
        x = x * (10.0 ** torch.randint(-3, 4, (count,), generator=draws)).repeat_interleave(each)[:, None]
    return ClientData(np.arange(count), np.arange(0, count * each + 1, each), 3 * x, y)


def summed(data, trainer):
    return trainer.clipped_sum(weights(model()), data, BOUND, Streams(0), 1)[0]


@pytest.mark.parametrize("count", [FEWEST_GROUPED, 300])
@pytest.mark.parametrize("kind", ["alike", "cancelling", "mixed scales"])
def test_a_client_moves_a_sum_by_groups_by_at_most_the_bound(kind, count):
    """No tolerance: also where one less than so many clients are added up in double precision."""
    data = cohort(kind, count)
    trainer = Trainer(model(), cross_entropy, LocalTraining("sgd", 0.5, steps=1, epochs=None))
    total = summed(data, trainer)
    for one in range(0, count, count // 12):
        assert float((total - summed(data.some(np.arange(count) != one), trainer)).norm()) <= BOUND


def exact_sum(vectors, bound):
    """Returns the sum of clipped vectors as `fsum` has it, coordinate by coordinate."""
    norms = [math.sqrt(math.fsum(row * row)) for row in vectors]
    factors = [min(1.0, bound * (1 - MARGIN) / norm) for norm in norms]
    scaled = vectors * np.array(factors)[:, None]
    return np.array([math.fsum(column) for column in scaled.T])


@pytest.mark.parametrize("kind", ["alike", "mixed scales"])
def test_sums_by_groups_are_as_close_to_exact_ones_as_proved_and_others_closer(kind):
    data, network = cohort(kind, 120, each=4), model()
    gradients, row = engines.gradients(network, cross_entropy, "layers"), weights(network)[None]
    x, y = data.x.view(120, 4, 200), data.y.view(120, 4)
    shares = torch.full((120, 4), 0.25)
    vectors = gradients.gradients(row, x, y, shares).double().numpy()
    exact = exact_sum(vectors, BOUND)
    by_groups, whole = (gradients.clipped_clients(row, x, y, shares, BOUND, groups) for groups in ([30] * 4, None))
    rounded_up = 120 * BOUND * 2e-5  # what norms are put up by
    for total, norms in (by_groups, whole):
        np.testing.assert_allclose(norms, np.linalg.norm(vectors, axis=1), rtol=5e-5)
        assert float(np.linalg.norm(total.numpy() - exact)) <= rounded_up + 33 * 2.0**-24 * 120 * BOUND
    assert float(np.linalg.norm(whole[0].numpy() - exact)) <= rounded_up
    assert 0 < float((by_groups[0] - whole[0]).norm()) <= 33 * 2.0**-24 * 120 * BOUND


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_clients_that_are_not_finite_add_nothing_to_a_sum_by_groups(bad):
    data = cohort("mixed scales", 100)
    trainer = Trainer(model(), cross_entropy, LocalTraining("sgd", 0.5, steps=1, epochs=None))
    without = summed(data.some(~np.isin(np.arange(100), [7, 50])), trainer)
    data.x[[7 * 3, 50 * 3 + 1]] = bad
    total, norms = trainer.clipped_sum(weights(model()), data, BOUND, Streams(0), 1)
    assert np.flatnonzero(~torch.isfinite(norms).numpy()).tolist() == [7, 50]
    torch.testing.assert_close(total, without, atol=100 * BOUND * 34 * 2.0**-24, rtol=0)


@pytest.mark.parametrize("kind", SPREADS)
@pytest.mark.parametrize("entries", [128, 1024])
def test_lengths_of_rows_are_never_understated_and_hardly_overstated(kind, entries):
    rows = spread_out(kind, 6, entries)
    for row, length in zip(rows.double().numpy(), _lengths(rows).numpy(), strict=True):
        exact = math.sqrt(math.fsum(row * row))
        assert exact <= length <= exact * (1 + 5e-5) + 2 * math.sqrt(entries * 2.0**-126)


def test_clients_in_another_order_keep_their_records():
    data = cohort("mixed scales", 6, each=2)
    for source, order in ((data, [4, 0, 5, 2, 1, 3]), (data.some(np.arange(6) != 1), [4, 0, 2, 1, 3])):
        found = source.ordered(np.array(order))
        assert found.clients.tolist() == source.clients[order].tolist()
        for client, first, last in zip(found.clients, found.offsets[:-1], found.offsets[1:], strict=True):
            assert torch.equal(found.x[first:last], data.x[2 * client : 2 * client + 2])
            assert torch.equal(found.y[first:last], data.y[2 * client : 2 * client + 2])


def test_one_client_with_another_length_changes_no_group_of_the_rest():
    clients, alike = np.arange(200) * 3, np.full(200, 12)
    odd = np.append(clients, 601), np.append(alike, 30)
    assert groups_of(*odd) == groups_of(clients, alike) | {frozenset([601])}
