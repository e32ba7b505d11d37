"""Batches: every record once an epoch, fair coins, keyed by client, little padding."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.random.streams import Entropy, Streams
from sordino.train.batches import EpochBatches, PoissonBatches, padded, rectangles
from sordino.train.shard import Shard
from train.cohorts import cohort

sizes_lists = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def shard(sizes, **options):
    data = cohort(sizes, **options)
    return Shard.of(data, slice(0, len(sizes)))


def drawn(batches, clients):
    """Returns {client id: records} of one step."""
    found = {}
    for batch in batches:
        for row, index, length in zip(batch.rows, batch.index, batch.lengths, strict=True):
            found[int(clients[row])] = list(index[:length])
    return found


@given(sizes_lists, st.integers(1, 15))
def test_an_epoch_uses_every_record_once_in_batches_of_the_right_size(sizes, batch_size):
    part = shard(sizes)
    batches = EpochBatches(part, batch_size, Streams(1), 3)
    seen = {int(client): [] for client in part.clients}
    per_epoch = -(-part.sizes // np.minimum(batch_size, part.sizes))
    for step in range(int(per_epoch.max())):
        count = int((per_epoch > step).sum())
        for client, records in drawn(batches.step(step, count), part.clients).items():
            seen[client].append(records)
    for client, start, size in zip(part.clients, part.starts, part.sizes, strict=True):
        batches_of = seen[int(client)]
        assert sorted(chain(*batches_of)) == list(range(start, start + size))
        assert all(len(batch) == min(batch_size, size) for batch in batches_of[:-1])
        assert len(batches_of[-1]) == (size - 1) % min(batch_size, size) + 1


def test_epochs_are_shuffled_afresh_and_steps_cycle_through_them():
    part = shard([10])
    batches = EpochBatches(part, 5, Streams(1), 0)
    steps = [drawn(batches.step(step, 1), part.clients)[10] for step in range(6)]
    epochs = [steps[0] + steps[1], steps[2] + steps[3], steps[4] + steps[5]]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_batches_depend_on_seed_round_and_client_but_not_on_company():
    def first(sizes, seed, round_, first_client=10):
        part = shard(sizes, first_client=first_client)
        batch = drawn(EpochBatches(part, 4, Streams(seed), round_).step(0, len(sizes)), part.clients)
        return {
            client: [record - start for record in batch[int(client)]]
            for client, start in zip(part.clients, part.starts, strict=True)
        }

    together = first([20, 20, 31], seed=1, round_=2)
    assert together[11] == first([20, 31], seed=1, round_=2, first_client=11)[11]
    assert together[10] != together[11]
    assert together != first([20, 20, 31], seed=2, round_=2) and together != first([20, 20, 31], seed=1, round_=3)


@given(sizes_lists)
def test_rectangles_hold_every_record_once_with_little_padding(lengths):
    lengths = np.array(lengths)
    lengths[::3] = 0
    ends = np.cumsum(lengths)
    records = np.arange(ends[-1])[::-1].copy()
    found = {}
    for part in rectangles(records, np.arange(len(lengths)), ends - lengths, lengths):
        assert all(padded(int(length)) == part.index.shape[1] <= max(4, 1.5 * length) for length in part.lengths)
        own = part.mask(None).bool().numpy()
        for row, index, mask in zip(part.rows, part.index, own, strict=True):
            found[row] = index[mask]
            assert set(index) == set(index[mask])
    for row, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        assert list(found.get(row, [])) == list(records[end - length : end])


@given(st.integers(1, 70), st.integers(1, 5), st.sampled_from([None, 3, 12, 64]))
def test_clients_alike_have_the_same_rows_beside_one_who_is_not(length, count, full):
    records, rows = np.arange(10 * 90)[::-1].copy(), np.arange(count)
    alike, starts = np.full(count, length), np.arange(count) * 90
    (one,) = rectangles(records, rows, starts, alike, full)
    others = rectangles(records, np.arange(count + 1), np.arange(count + 1) * 90, np.append(alike, 90), full)
    found = {row: index for part in others for row, index in zip(part.rows, part.index, strict=True)}
    for row, index in zip(one.rows, one.index, strict=True):
        assert np.array_equal(found[row], index)


@given(sizes_lists, st.integers(1, 15))
def test_full_batches_of_four_or_more_have_no_padding_and_others_what_their_own_length_asks_for(sizes, batch_size):
    for batch in EpochBatches(shard(sizes), batch_size, Streams(1), 3).step(0, len(sizes)):
        for length in batch.lengths:
            assert batch.index.shape[1] == max(4, min(batch_size, padded(int(length))))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_poisson_coins_are_independent_and_fair(rate):
    part = shard([400, 1, 300])
    batches = PoissonBatches(part, rate, Streams(5), 1)
    counts = np.array([batches.step(step)[1] for step in range(300)])
    for size, column in zip(part.sizes, counts.T, strict=True):
        deviation = np.sqrt(size * rate * (1 - rate) / 300)
        assert abs(column.mean() - size * rate) < 4 * deviation
    # a variance, unlike the mean, shows whether coins are independent
    ratio = counts[:, 0].var() / (400 * rate * (1 - rate))
    assert 2 / 3 < ratio < 3 / 2
    assert abs(np.corrcoef(counts[:, 0], counts[:, 1])[0, 1]) < 0.25


def test_poisson_batches_hold_the_clients_own_records():
    part = shard([30, 20, 25])
    batches, counts = PoissonBatches(part, 0.5, Streams(5), 1).step(0)
    found = drawn(batches, part.clients)
    for client, start, size, count in zip(part.clients, part.starts, part.sizes, counts, strict=True):
        own = found[int(client)]
        assert len(own) == count == len(set(own)) and all(start <= record < start + size for record in own)
    everything, counts = PoissonBatches(part, 1.0, Streams(5), 1).step(0)
    found = drawn(everything, part.clients)
    assert (counts == part.sizes).all() and sorted(chain(*found.values())) == list(range(75))


def test_orders_are_uniform_over_all_permutations():
    draws = Streams(3).orders("test", 0, np.arange(6000), np.full(6000, 3)).reshape(-1, 3)
    counts = np.unique(draws @ [9, 3, 1], return_counts=True)[1]
    assert len(counts) == 6 and abs(counts - 1000).max() < 5 * np.sqrt(1000)


@pytest.mark.parametrize("source", [Streams(3), Entropy()])
def test_orders_are_permutations_and_uniforms_lie_in_range(source):
    sizes = np.array([5, 0, 1, 7])
    order = source.orders("test", 0, np.arange(4), sizes)
    assert [sorted(part) for part in np.split(order, np.cumsum(sizes)[:-1])] == [list(range(size)) for size in sizes]
    draws = source.uniforms("test", 0, np.arange(4), sizes)
    assert len(draws) == 13 and ((draws >= 0) & (draws < 1)).all()


def test_streams_differ_by_every_part_of_their_name():
    def draw(seed=1, purpose="a", round_=0, client=0, turn=0):
        return tuple(Streams(seed).uniforms(purpose, round_, np.array([client]), np.array([3]), turn))

    others = [draw(seed=2), draw(purpose="b"), draw(round_=1), draw(client=1), draw(client=-1), draw(turn=1)]
    assert len({draw(), *others}) == 7


def test_threefry_matches_the_published_answers():
    from sordino.random import threefry

    # known answers of Random123 for threefry2x64-20: counter and key of zeros, of ones, and of the digits of π
    cases = [
        ((0, 0), (0, 0), (0xC2B6E3A8C2C69865, 0x6F81ED42F350084D)),
        ((2**64 - 1,) * 2, (2**64 - 1,) * 2, (0xE02CB7C4D95D277A, 0xD06633D0893B8B68)),
        (
            (0x243F6A8885A308D3, 0x13198A2E03707344),
            (0xA4093822299F31D0, 0x082EFA98EC4E6C89),
            (0x263C7D30BB0F0AF1, 0x56BE8361D3311526),
        ),
    ]
    for counter, key, answer in cases:
        high, low = (np.array([word], np.uint64) for word in counter)
        x, y = threefry.blocks(np.array(key, np.uint64), high, low)
        assert (int(x[0]), int(y[0])) == answer
