"""One unit moves a sum, *as it was computed*, by at most the bound: no tolerance anywhere in this file."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from sordino.bound.l2 import clip_rows
from sordino.data.client_data import ClientData
from sordino.errors import SordinoError
from sordino.models.losses import cross_entropy
from sordino.products import stacked
from sordino.random.streams import Streams
from sordino.train import LocalTraining, Trainer
from sordino.train import engine as engines
from sordino.train.alike import batch_alike
from sordino.train.batches import padded, rectangles
from sordino.train.gradients import MARGIN, MOST, SINGLE, held, summed_clients, summed_examples
from sordino.train.layered import _own
from sordino.train.layers.layer import PIECE, Component
from sordino.train.layers.linear import Linear, _gram
from sordino.train.shard import Shard
from train.cohorts import Gated, cnn, mlp, weights

BOUND = 0.37


def linear():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(784, 10))


def sequences():
    torch.manual_seed(6)
    return nn.Sequential(nn.Linear(4, 3), nn.Flatten(), nn.Linear(3 * 30, 4))


MODELS = {
    "linear": (linear, (784,), 10),
    "mlp": (mlp, (6,), 4),
    "cnn": (cnn, (2, 9, 9), 4),
    "sequences": (sequences, (30, 4), 4),
}
KINDS = ("alike", "cancelling", "mixed scales")


def records(kind, count, shape, classes, seed):
    """Records whose gradients all point one way, cancel in pairs, or are of very different sizes (clipped or not)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, *shape, generator=generator)
    y = torch.randint(0, classes, (count,), generator=generator)
    if kind == "alike":
        x, y = x[:1] + x * 1e-4, y[:1].expand(count).clone()
    elif kind == "cancelling":
        x = x[: (count + 1) // 2].repeat_interleave(2, 0)[:count]
        y = torch.arange(count) % 2
    else:
        x = x * 10.0 ** torch.randint(-3, 4, (count, *[1] * len(shape)), generator=generator)
    return x * 3, y


def summed(gradients, rows, x, y, order=None):
    order = torch.arange(len(x)) if order is None else order
    sums, _ = gradients.clipped_examples(rows, x[order][None], y[order][None], torch.ones(1, len(order)), BOUND)
    return sums[0].double()


@pytest.mark.parametrize("engine", ["layers", "vmap", "loop"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_a_record_moves_the_computed_sum_by_at_most_the_bound(name, kind, engine):
    make, shape, classes = MODELS[name]
    model = make()
    gradients, rows = engines.gradients(model, cross_entropy, engine), weights(model)[None]
    longest = (2, 9, 31, 32, 33, 34, 150) if engine == "layers" else (9, 33)
    for count in longest:
        x, y = records(kind, count, shape, classes, seed=count)
        both = summed(gradients, rows, x, y)
        shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(1))
        for left_out in (0, count // 2, count - 1):
            for order in (torch.arange(count), shuffled):
                without = summed(gradients, rows, x, y, order[order != left_out])
                assert float((both - without).norm()) <= BOUND


def test_what_is_added_is_close_to_the_bound_and_in_double_precision():
    """The margin is small, and the sum's own last digits are not those of single precision."""
    model = linear()
    gradients, rows = engines.gradients(model, cross_entropy, "layers"), weights(model)[None]
    x, y = records("alike", 400, (784,), 10, 0)
    total, one = summed(gradients, rows, x, y), summed(gradients, rows, x[:1], y[:1])
    assert total.dtype == torch.float64
    assert BOUND * (1 - 2 * MARGIN) < float(one.norm()) <= BOUND
    assert float(total.norm()) > 390 * BOUND
    exact = sum(summed(gradients, rows, x[j : j + 1], y[j : j + 1]) for j in range(400))
    assert float((total - exact).norm()) < 1e-3 * BOUND  # in single precision: more than the bound's 0.4 %


@pytest.mark.parametrize("parts", [1, 5])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_a_record_moves_the_computed_sum_over_all_clients_by_at_most_the_bound(name, kind, parts, monkeypatch):
    """Records of all clients lie side by side there: all that follow the one that leaves move up, some over a cut."""
    make, shape, classes = MODELS[name]
    model, sizes = make(), np.array([33, 5, 80, 1, 200])
    trainer = Trainer(model, cross_entropy, LocalTraining(), record=torch.zeros(shape))
    numbers = trainer.gradients.footprint(shape)
    monkeypatch.setattr("sordino.train.batches.CACHED", 2**40 if parts == 1 else 64 * numbers)
    x, y = records(kind, int(sizes.sum()), shape, classes, seed=9)
    everybody = ClientData(np.arange(5), np.concatenate([[0], np.cumsum(sizes)]), x, y)
    total, counts, clipped = trainer.example_sum(weights(model), everybody, BOUND, None, Streams(0), 1)
    each, _, alone = trainer.example_sum(weights(model), everybody, BOUND, None, Streams(0), 1, per_client=True)
    assert total.dtype == torch.float64 and (counts == sizes).all() and (clipped == alone).all()
    torch.testing.assert_close(total, each.double().sum(0), rtol=1e-5, atol=1e-5)
    for client, one in ((0, 0), (1, 36), (2, 90), (4, 318)):
        fewer = sizes - (np.arange(5) == client)
        kept = np.delete(np.arange(len(x)), one)
        others = ClientData(np.arange(5), np.concatenate([[0], np.cumsum(fewer)]), x[kept], y[kept])
        without, *_ = trainer.example_sum(weights(model), others, BOUND, None, Streams(0), 1)
        assert float((total - without).norm()) <= BOUND


@pytest.fixture(params=["gradients in memory", "gradients never in memory"])
def either_way(request, monkeypatch):
    """Sums of single steps as small models have them, and as large ones."""
    if request.param == "gradients never in memory":
        monkeypatch.setattr("sordino.train.layered.NARROW", 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", [1, 3, None])
@pytest.mark.usefixtures("either_way")
def test_a_client_moves_the_computed_sum_over_clients_by_at_most_the_bound(kind, chunk):
    model = mlp()
    x, y = records(kind, 400, (6,), 4, 7)
    offsets = np.arange(0, 401, 5)
    trainer = Trainer(model, cross_entropy, LocalTraining("sgd", 0.5, steps=1, epochs=None), chunk=chunk)
    everybody = ClientData(np.arange(80), offsets, x, y)
    total, _ = trainer.clipped_sum(weights(model), everybody, BOUND, Streams(0), 1)
    for one in (0, 40, 79):
        kept = torch.ones(400, dtype=torch.bool)
        kept[5 * one : 5 * one + 5] = False
        others = ClientData(np.delete(np.arange(80), one), offsets[:-1], x[kept], y[kept])
        without, _ = trainer.clipped_sum(weights(model), others, BOUND, Streams(0), 1)
        assert float((total - without).norm()) <= BOUND


def cancelling_clients(others, size, extra, mismatch):
    """Clients whose records cancel but for a small share, and one of `extra` records that points the same way."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(size // 2, 64, generator=generator).repeat_interleave(2, 0), torch.arange(size) % 2
    x[1::2] *= 1 + mismatch
    sizes = [size] * others + [extra]
    mine = torch.cat([x, x])[:extra], torch.cat([y, y])[:extra]
    everything = torch.cat([x.repeat(others, 1), mine[0]]), torch.cat([y.repeat(others), mine[1]])
    return ClientData(np.arange(others + 1), np.concatenate([[0], np.cumsum(sizes)]), *everything)


def balanced():
    """A model that is undecided between its two classes, whatever it is shown."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 28), nn.Linear(28, 2))
    for zero in (model[0].weight, model[0].bias, model[1].bias):
        nn.init.zeros_(zero)
    return model


@pytest.mark.parametrize(
    ("extra", "batch_size", "mismatch"),
    [(20, None, 0.05), (18, 16, 0.001), (17, 16, 0.001)],
    ids=["a longer batch", "two steps", "two steps, the second of a single record"],
)
@pytest.mark.usefixtures("either_way")
def test_a_client_does_not_change_what_others_add(extra, batch_size, mismatch):
    """Its longer batch, or its second step, had everybody's norm rounded up otherwise: 3 to 60 bounds moved."""
    model, others = balanced(), 60
    trainer = Trainer(model, cross_entropy, LocalTraining("sgd", 1.0, batch_size=batch_size, epochs=1))
    everybody = cancelling_clients(others, 16, extra, mismatch)
    bound = 1e-4
    total, norms = trainer.clipped_sum(weights(model), everybody, bound, Streams(0), 1)
    theirs = everybody.some(np.arange(others + 1) < others)
    without, alone = trainer.clipped_sum(weights(model), theirs, bound, Streams(0), 1)
    assert float((total - without).norm()) <= bound
    assert torch.equal(norms[:others], alone)


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize(
    ("make", "size"),
    [
        *((lambda: mlp(inputs=6), size) for size in (1, 2, 3, 5, 8, 45, 300)),
        *((lambda: nn.Sequential(nn.Linear(6, 10)), size) for size in (1, 2, 3, 5)),
        *((Gated, size) for size in (8, 45, 300)),
        *((linear, size) for size in (3, 20)),
    ],
)
def test_a_client_changes_no_bit_of_anothers_update(make, steps, size):
    """Rounding, which local steps can make as large as they like, followed the longest batch, the place, and company.

    Beside one of 400 records a client's five steps came out by a hundredth otherwise, and so did everybody's.
    """
    model, shape = make(), MODELS["linear"][1] if make is linear else (6,)
    settings = LocalTraining("sgd", 0.3, steps=steps, epochs=None)
    trainer = Trainer(model, cross_entropy, settings, record=torch.zeros(shape))
    x, y = records("mixed scales", 4 * size + size + size // 3, shape, 4, 3)
    everybody = ClientData(np.arange(5), np.array([*range(0, 4 * size + 1, size), len(x)]), x, y)
    found = trainer.train(weights(model), everybody, Streams(0), 1).rows
    for chosen in ([0, 1, 2, 3], [1, 2, 4], [0, 3], [2], [4]):
        some = everybody.some(np.isin(np.arange(5), chosen))
        assert torch.equal(trainer.train(weights(model), some, Streams(0), 1).rows, found[chosen])


def test_a_client_alone_is_computed_by_the_product_that_it_has_beside_others(monkeypatch):
    """The product of shared weights gives the same bits on some processors, and other ones on others."""
    model, asked = linear(), list[int]()

    def watched(x, *more):
        asked.append(len(x))
        return stacked(x, *more)

    monkeypatch.setattr("sordino.train.layers.linear.stacked", watched)
    x, y = records("mixed scales", 9, (784,), 10, 3)
    trainer = Trainer(model, cross_entropy, LocalTraining("sgd", 0.3, steps=2, epochs=None), "batched")
    trainer.gradients.footprint((784,))  # looks at the layers once, too
    for clients in (1, 3):
        asked.clear()
        cohort = ClientData(np.arange(clients), np.arange(clients + 1) * 3, x[: 3 * clients], y[: 3 * clients])
        trainer.train(weights(model), cohort, Streams(0), 1)
        assert sum(asked) == 2 * clients


def test_a_record_changes_no_bit_of_another_clients_sum():
    model = mlp()
    x, y = records("mixed scales", 120, (6,), 4, 3)
    trainer = Trainer(model, cross_entropy, LocalTraining())
    before = ClientData(np.arange(4), np.array([0, 40, 60, 79, 120]), x, y)
    after = ClientData(np.arange(4), np.array([0, 25, 45, 64, 105]), x[15:], y[15:])
    first, second = (
        trainer.example_sum(weights(model), data, BOUND, None, Streams(0), 1, per_client=True)[0]
        for data in (before, after)
    )
    assert torch.equal(first[1:], second[1:]) and not torch.equal(first[0], second[0])


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_records_gradient_is_the_same_to_the_bit_in_any_company(name, own):
    make, shape, classes = MODELS[name]
    model = make()
    x, y = records("mixed scales", 100, shape, classes, 11)
    assert batch_alike(engines.gradients(model, cross_entropy, "layers"), weights(model), x, y, own)


def test_company_that_matters_is_found():
    class Leaning(engines.LayeredGradients):
        def clipped_examples(self, rows, x, y, mask, bound):
            sums, norms = super().clipped_examples(rows, x, y, mask, bound)
            return sums * (1 + 2.0**-20 * x.shape[1]), norms

    model = mlp()
    found = engines.gradients(model, cross_entropy, "layers")
    x, y = records("mixed scales", 100, (6,), 4, 11)
    assert not batch_alike(Leaning(found.layers, found.loss, found.width), weights(model), x, y)


def test_the_rounding_that_is_set_aside_covers_what_is_proved():
    single = 2 * (SINGLE + 3) * 2.0**-24 * SINGLE * (1 + 1e-4)
    double = 2 * MOST * (1 + 1e-9) * 2.0**-53
    assert single + 1e-5 < MARGIN and double + 1e-5 < MARGIN
    held(10_000, 10_000)
    with pytest.raises(SordinoError, match="smaller batches"):
        held(10**6, 10**6)


def test_padding_follows_from_a_clients_own_batch():
    assert [padded(n) for n in (1, 5, 8, 9, 10, 11, 16, 17, 32, 33, 200, 600)] == [
        4,
        6,
        8,
        12,
        12,
        12,
        16,
        24,
        32,
        48,
        208,
        608,
    ]
    lengths = np.random.default_rng(0).integers(0, 70, 300)
    starts = np.cumsum(lengths) - lengths
    seen = {}
    for rectangle in rectangles(np.arange(lengths.sum()), np.arange(300), starts, lengths):
        for row, length in zip(rectangle.rows, rectangle.lengths, strict=True):
            assert length == lengths[row] and rectangle.index.shape[1] == padded(int(length))
            seen[int(row)] = rectangle
    assert sorted(seen) == np.flatnonzero(lengths).tolist()


def test_parts_of_a_rectangle_that_are_padding_alone_are_left_out():
    (whole,) = rectangles(np.arange(2060), np.array([0]), np.array([0]), np.array([2060]))
    assert whole.index.shape[1] == padded(2060) > 2060
    parts = list(whole.narrower(2**40, 32))
    assert len(parts) > 2 and all(len(part.rows) for part in parts)
    assert sum(int(part.lengths.sum()) for part in parts) == 2060


def spread_out(kind, rows, entries):
    """Vectors whose squares are alike, or whose sizes lie so far apart that most of them are lost beside the others."""
    draws = torch.Generator().manual_seed(entries)
    x = torch.randn(rows, entries, generator=draws)
    if kind == "one large entry":
        x[:, 0] = 1e6
    elif kind == "far apart":
        x = x * 2.0 ** torch.randint(-60, 40, (rows, entries), generator=draws)
    elif kind == "just above what is lost":  # 1 + 2^−24 is a tie, which goes to 1: every square but the first is lost
        x = torch.full((rows, entries), 2.0**-12)
        x[:, 0] = 1
    elif kind == "denormal":
        x = x * 2.0**-135
    return x


SPREADS = ("alike", "one large entry", "far apart", "just above what is lost", "denormal")


@pytest.mark.parametrize("entries", [1, 127, 128, 129, 1024, 8197])
@pytest.mark.parametrize("kind", SPREADS)
def test_the_norm_of_a_gradient_in_memory_is_never_understated_and_hardly_overstated(kind, entries):
    each = spread_out(kind, 6, entries)
    squares, norms = _own(each.view(2, 3, entries))
    for row, square, norm in zip(each.double().numpy(), squares.double().numpy(), norms.double().numpy(), strict=True):
        exact = math.fsum(row * row)  # squares of single precision are exact in double, and `fsum` rounds once
        assert exact <= square <= exact * (1 + 5e-5) + entries * 2.0**-125
        assert math.sqrt(exact) * (1 - 2.0**-23) <= norm


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e30])
def test_the_norm_of_a_gradient_that_is_no_number_is_not_finite(bad):
    each = torch.ones(1, 3, 300)
    each[0, 1, 299] = bad
    _, norms = _own(each)
    assert torch.isfinite(norms).tolist() == [True, False, True]


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("kind", ["plain", "cancelling", *SPREADS])
def test_squared_norms_of_many_clients_are_those_of_each_alone(kind, biased):
    """A client's company changes no bit of its norm, which is never understated, and what cancels is rounded up."""
    inputs, outputs, count = 784, 32, 12
    layer = Linear(Component(0, (outputs, inputs)), Component(inputs * outputs, (outputs,)) if biased else None)
    draws = torch.Generator().manual_seed(2)
    x, error = torch.rand(60, count, inputs, generator=draws), torch.randn(60, count, outputs, generator=draws)
    if kind == "cancelling":
        x[:, 1::2], error[:, 1::2] = x[:, ::2], -error[:, ::2]
        error[:, 0] *= 1 + 2.0**-10
    elif kind != "plain":
        x = spread_out(kind, 60 * count, inputs).view_as(x)
    squares, lengths = layer.squared_norms(x, error)
    for place in (0, 12, 13, 59):
        one, other = layer.squared_norms(x[place : place + 1], error[place : place + 1])
        assert torch.equal(squares[place], one[0]) and torch.equal(lengths[place], other[0])
        wide = torch.cat([x[place], torch.full((count, 1), float(biased))], 1).double().numpy().astype(np.longdouble)
        exact = ((error[place].double().numpy().astype(np.longdouble).T @ wide) ** 2).sum()
        allowed = float(lengths[place]) ** 2 * (PIECE + 8) * 2.0**-22  # what rounding was, and as much set aside
        assert float(exact) * (1 - 2.0**-23) <= float(squares[place]) <= float(exact) * (1 + 2.0**-22) + allowed


@pytest.mark.parametrize("entries", [1, 32, 127, 128, 129, 784])
@pytest.mark.parametrize("kind", SPREADS)
def test_inner_products_are_off_by_no_more_than_is_set_aside(kind, entries):
    rows = spread_out(kind, 10, entries).view(2, 5, entries)
    for one, found in zip(rows.double().numpy(), _gram(rows).numpy(), strict=True):
        lengths = np.sqrt([math.fsum(row * row) for row in one])
        for i, j in np.ndindex(5, 5):
            allowed = 129 * 2.0**-24 * lengths[i] * lengths[j] + entries * 2.0**-126
            assert abs(found[i, j] - math.fsum(one[i] * one[j])) <= allowed


def test_stretches_of_a_cohort_share_its_tensors():
    x, y = records("alike", 30, (6,), 4, 1)
    data = ClientData(np.array([4, 7, 9]), np.array([0, 5, 25, 30]), x, y)
    shard = Shard.of(data, slice(1, 3))
    assert shard.x is data.x and shard.y is data.y
    found = [
        shard.records[start : start + size].tolist() for start, size in zip(shard.starts, shard.sizes, strict=True)
    ]
    assert found == [list(range(5, 25)), list(range(25, 30))] and shard.clients.tolist() == [7, 9]


@pytest.mark.parametrize("bound", [1.0, 1e-2, 1e-4, 1e-6, 1e-8, 1e-12])
def test_gradients_near_the_largest_numbers_keep_the_bound(bound):
    """The factor that clips them has few digits in single precision: up to 1.9 bounds were added for one record."""
    generator = torch.Generator().manual_seed(0)
    for size in torch.linspace(20, 38.4, 200).tolist():
        one = torch.randn(1, 1, 20, generator=generator, dtype=torch.float64)
        one = (one / one.norm() * 10.0**size).clamp(-3e38, 3e38).float()
        for sums, _ in (summed_examples(one, torch.ones(1, 1), bound), summed_clients(one[0], bound)):
            assert float(sums.norm()) <= bound
        rows, _ = clip_rows(one[0], bound)
        assert float(torch.linalg.vector_norm(rows.double())) <= bound


@pytest.mark.parametrize("bound", [1e-16, 1e-18, 1e-20, 1e-24, 1e-26])
def test_small_bounds_beside_large_inputs_are_kept(bound):
    """Scaled errors fell below the normal numbers, and long inputs made much of their rounding: 1.5 bounds."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    with torch.no_grad():
        model[0].weight.mul_(1e-18)
        model[1].weight.mul_(1e-10)
    gradients, rows = engines.gradients(model, cross_entropy, "layers"), weights(model)[None]
    for seed in range(50):
        draws = torch.Generator().manual_seed(seed)
        x = torch.randn(1, 4, 4, generator=draws) * 1e18 * 10 ** torch.rand(1, generator=draws)
        y, mask = torch.zeros(1, 4, dtype=torch.int64), torch.tensor([[1.0, 0, 0, 0]])
        assert float(gradients.clipped_examples(rows, x, y, mask, bound)[0].double().norm()) <= bound


@pytest.mark.parametrize("bound", [1.0, 1e-12, 1e-21, 1e-25, 1e-29])
def test_factors_of_few_digits_add_nothing(bound):
    """Engines of known layers scale errors in single precision, where a factor below 10⁻³⁷ has few digits."""
    gradients = engines.choose(nn.Sequential(nn.Linear(20, 2, bias=False)), cross_entropy, "batched").gradients
    generator, weights = torch.Generator().manual_seed(0), torch.zeros(1, 40)
    for size in torch.linspace(0, 18.5, 60).tolist():
        x = torch.randn(1, 4, 20, generator=generator) * 10.0**size
        x[0, 1:] = 0.0
        y = torch.zeros(1, 4, dtype=torch.int64)
        sums, _ = gradients.clipped_examples(weights, x, y, torch.ones(1, 4), bound)
        assert float(torch.linalg.vector_norm(sums.double())) <= bound
        gradients._narrow = not gradients._narrow
        total, _ = gradients.clipped_clients(weights, x, y, torch.ones(1, 4), bound)
        assert float(torch.linalg.vector_norm(total.double())) <= bound


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("name", [*MODELS, "own forward"])
def test_a_client_that_is_not_finite_adds_nothing_also_alone_in_its_rectangle(name, count):
    """Its leaving left nobody to compute, which ended the run."""
    make, shape, classes = MODELS.get(name, (Gated, (6,), 4))
    model = make()
    sizes = np.array([5] * 6 + [count])
    x, y = records("alike", int(sizes.sum()), shape, classes, 3)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    data = ClientData(np.arange(7), ends, x, y)
    trainer = Trainer(model, cross_entropy, LocalTraining("sgd", 0.3, steps=1, epochs=None), record=torch.zeros(shape))
    without, _ = trainer.clipped_sum(weights(model), data.some(np.arange(7) < 6), BOUND, Streams(0), 1)
    x[ends[6]] = torch.inf
    total, norms = trainer.clipped_sum(weights(model), data, BOUND, Streams(0), 1)
    torch.testing.assert_close(total, without, atol=1e-12, rtol=0)
    assert not torch.isfinite(norms[6])
