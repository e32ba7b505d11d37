"""A record that comes or goes moves others to other places in memory, and what becomes of them must not follow that."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from sordino.data.client_data import ClientData
from sordino.data.features.settings import FeatureSettings
from sordino.layout import Layout
from sordino.models.losses import cross_entropy
from sordino.opening.feature_map import FeatureMap
from sordino.products import FEW, THIN, filled, inner, shared, stacked, stacked_times, times, wide
from sordino.random.streams import Streams
from sordino.train import engine as engines
from sordino.train.alike import batch_alike, clients_alike
from sordino.train.functional import FunctionalGradients
from sordino.train.layered import LayeredGradients
from sordino.train.noisy import right_answers
from sordino.train.settings import LocalTraining
from sordino.train.trainer import Trainer

BOUND, RECORDS = 0.5, 48


def flat(model):
    return Layout.of(model).flatten({name: parameter.detach() for name, parameter in model.named_parameters()})


def undecided(across, count, seed=0):
    """Returns records whose product with a vector is zero within rounding."""
    x = torch.randn(count, len(across), generator=torch.Generator().manual_seed(seed)) * 0.3
    across = across.double()
    x[:, -1] = (-(x[:, :-1].double() @ across[:-1]) / across[-1]).float()
    return x


def one_client(x, y):
    return ClientData(np.array([0]), np.array([0, len(x)]), x, y)


def speaks(trainer, weights, x):
    """Returns, for each record, whether the first hidden unit speaks at each of four places of a batch."""
    layer, found = trainer.gradients.layers[0], torch.zeros(4, len(x), dtype=torch.bool)
    for first in range(0, len(x), RECORDS):
        for turn in range(4):
            some = x[first : first + RECORDS].roll(turn, 0)
            on = (layer.forward(weights[None], some[:, None])[0][:, 0, 0] > 0).roll(-turn)
            place = (torch.arange(RECORDS) + turn) % RECORDS % 4
            found[place, torch.arange(first, first + RECORDS)] = on
    return found


@pytest.mark.parametrize(("inputs", "hidden"), [(13, 10), (30, 10), (57, 5), (5, 10)])
def test_a_record_that_leaves_changes_nothing_that_others_contribute(inputs, hidden):
    """Units that are just off at one place were on at the next: all gradients changed, by 57 bounds together."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 2))
    with torch.no_grad():
        model[0].bias.fill_(-5.0)
        model[0].bias[0] = 0.0  # only the first unit ever speaks
        model[2].weight.mul_(100)
    trainer = Trainer(model, cross_entropy, LocalTraining(), record=torch.randn(inputs))
    x = undecided(model[0].weight[0].detach(), 50 * RECORDS)
    on, chosen = speaks(trainer, flat(model), x), []
    for place in range(RECORDS):
        moved = torch.argwhere(on[place % 4] & ~on[(place - 1) % 4])[:, 0]
        chosen.append(int(moved[place % len(moved)]) if len(moved) else place)
    x, y = x[chosen], torch.zeros(RECORDS, dtype=torch.int64)
    whole, without = (
        trainer.example_sum(flat(model), data, BOUND, None, Streams(0), 1)[0]
        for data in (one_client(x, y), one_client(x[1:].clone(), y[1:]))
    )
    assert float((whole - without).norm()) <= BOUND


@pytest.mark.parametrize("size", [5, 7, 23])
def test_a_client_that_leaves_changes_no_bit_of_anothers_update(size):
    """Of batches of five records the last digits followed their place among other clients'."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(13, 10), nn.ReLU(), nn.Linear(10, 3))
    settings = LocalTraining("sgd", 0.3, batch_size=5, steps=3, epochs=None)
    trainer = Trainer(model, cross_entropy, settings, record=torch.randn(13))
    x, y = torch.randn(7 * size, 13), torch.randint(0, 3, (7 * size,))
    everybody = ClientData(np.arange(7), np.arange(0, 7 * size + 1, size), x, y)
    others = ClientData(np.arange(1, 7), np.arange(0, 6 * size + 1, size), x[size:].clone(), y[size:])
    found, left = (trainer.train(flat(model), data, Streams(0), 1).rows for data in (everybody, others))
    assert torch.equal(found[1:], left)


@pytest.mark.parametrize(("inputs", "hidden"), [(17, 64), (105, 20)])
def test_a_client_that_leaves_changes_no_bit_of_anothers_norm(inputs, hidden):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 3))
    trainer = Trainer(model, cross_entropy, LocalTraining("sgd", 0.3), record=torch.randn(inputs))
    x, y, size = torch.randn(600, inputs), torch.randint(0, 3, (600,)), 6
    everybody = ClientData(np.arange(100), np.arange(0, 601, size), x, y)
    others = ClientData(np.arange(1, 100), np.arange(0, 595, size), x[size:].clone(), y[size:])
    found, left = (trainer.clipped_sum(flat(model), data, 1e-3, Streams(0), 1)[1] for data in (everybody, others))
    assert torch.equal(found[1:], left)


@pytest.mark.parametrize("inputs", [5, 13, 64])
def test_a_record_changes_a_count_of_right_answers_by_one(inputs):
    """Among fewer than four records scores that tie were rounded otherwise: three right answers became none."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(inputs, 2, bias=False))
    trainer, weights = Trainer(model, cross_entropy, LocalTraining(), record=torch.randn(inputs)), flat(model)
    rows = model[0].weight.detach()
    for record in undecided(rows[0] - rows[1], 400):
        for label in (0, 1):
            others = record.expand(3, -1).clone()
            wrong = (rows[1 - label] - rows[label]) * 9
            labels = torch.full((4,), label)
            before, after = (
                right_answers(trainer, weights, one_client(x, labels[: len(x)])).item()
                for x in (others, torch.cat([others, wrong[None]]))
            )
            assert abs(before - after) <= 1


class Guarded(nn.Module):
    """Turns bytes into numbers up to 1, where its batch has any: one record of them changes all others."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(20, 32), nn.Linear(32, 2)

    def forward(self, x):
        return self.last(torch.relu(self.first(torch.where(x.abs().max() > 50, x / 255, x))))


def test_a_record_changes_a_count_by_one_also_where_a_model_looks_at_its_batch():
    """Made-up records are no bytes, so that the model passed every check; of 400 right answers one took 78 away."""
    torch.manual_seed(0)
    model, x = Guarded(), torch.randn(400, 20)
    x[-1] = 60.0
    trainer = Trainer(model, cross_entropy, LocalTraining(), record=torch.zeros(20))
    assert trainer.choice.engine == "taps"
    alone = torch.cat([model(record[None]) for record in x]).argmax(1)
    counts = [right_answers(trainer, flat(model), one_client(x[:n], alone[:n])).item() for n in (400, 399)]
    assert counts == [400, 399]
    mapped = FunctionalGradients(model, cross_entropy).outputs(flat(model)[None], x[None])[0]
    assert torch.equal(mapped.argmax(1), alone)


def test_products_are_of_wide_matrices_with_even_rows(monkeypatch):
    """Whether a processor needs them differs: on some no attack tells whether they are there."""
    seen, product = [], torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda left, right: seen.append(left.shape) or product(left, right))
    assert inner(torch.ones(1, 5, 3)).shape == (1, 5, 5)
    assert seen == [(1, 8, 3)]
    assert wide(torch.zeros(3, 5), 2).shape == (THIN, THIN)


@pytest.mark.parametrize("sizes", [(784, 10), (784, 64, 10), (300, 20, 3)])
def test_few_rows_are_computed_as_many_are(sizes):
    """Some processors add up 784 products otherwise for 15 rows than for 16: no fast engine passed on them."""
    torch.manual_seed(0)
    steps = [part for pair in pairwise(sizes) for part in (nn.Linear(*pair), nn.ReLU())]
    model = nn.Sequential(*steps[:-1])
    trainer = Trainer(model, cross_entropy, LocalTraining(), record=torch.randn(sizes[0]))
    assert len(filled(torch.zeros(1, sizes[0]))) == len(filled(torch.zeros(FEW, sizes[0]))) == FEW
    assert trainer.choice.engine == "layers"
    taps = engines.gradients(model, cross_entropy, "taps", torch.randn(sizes[0]))
    x = torch.randn(48, sizes[0])
    for found in (trainer.gradients, taps):
        everybody = found.outputs(flat(model)[None], x[None])[0]
        assert all(torch.equal(found.outputs(flat(model)[None], x[None, :n])[0], everybody[:n]) for n in (4, 15, 17))


@pytest.mark.parametrize("inputs", [1, 3, 5, 7, 13, 30])
def test_what_a_map_makes_of_a_record_follows_from_that_record(inputs):
    """With five features a record that came first changed the last digits of 1,551 of 2,500 others."""
    draws = torch.Generator().manual_seed(inputs)
    x = torch.randn(2501, inputs, generator=draws)
    shown = FeatureMap(torch.randn(inputs, generator=draws), torch.randn(inputs, inputs, generator=draws))
    random = FeatureSettings("random", count=7)
    for made in (shown, random):
        everybody = made(x)
        assert torch.equal(made(x[1:].clone()), everybody[1:])
        for count in (1, 2, 3, 9, 2049):
            assert torch.equal(made(x[:count].clone()), everybody[:count])


@pytest.mark.parametrize("threads", [1, 2])
def test_features_of_an_image_alone_are_those_among_others(threads):
    x = torch.rand(34, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for made in (FeatureSettings("scattering", colours="opponent"), FeatureSettings("random", count=5)):
            everybody = made(x)
            assert all(torch.equal(made(x[start:].clone()), everybody[start:]) for start in (1, 31, 33))
    finally:
        torch.set_num_threads(before)


PRODUCTS = {
    "one matrix": shared,
    "one matrix, backwards": lambda x, w, b: times(x, w.mT.contiguous()),
    "several matrices": lambda x, w, b: stacked(x.expand(2, -1, -1), w.expand(2, -1, -1), b.expand(2, -1))[1],
    "several, backwards": lambda x, w, b: stacked_times(x.expand(2, -1, -1), w.mT.contiguous().expand(2, -1, -1))[1],
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(("inputs", "outputs"), [(784, 32), (784, 200), (1000, 256), (200, 112), (512, 10), (64, 16)])
def test_a_row_is_multiplied_alike_beside_any_number_of_others(inputs, outputs, name):
    """With AVX-512 all rows changed where 15 became 16, and in large matrices where 191 became 192."""
    draws = torch.Generator().manual_seed(inputs)
    weight, bias = torch.randn(outputs, inputs, generator=draws), torch.randn(outputs, generator=draws)
    x = torch.randn(inputs, generator=draws).expand(700, -1).contiguous()
    wanted = PRODUCTS[name](x[:4], weight, bias)[0]
    for count in (4, 6, 12, 15, 16, 17, 48, 127, 128, 129, 176, 184, 191, 192, 193, 256, 257, 608, 700):
        found = PRODUCTS[name](x[:count], weight, bias)
        assert torch.equal(found, wanted.expand(count, -1)), count
    apart = x[:12].view(4, 3, -1).transpose(0, 1)
    assert torch.equal(shared(apart, weight, bias), shared(x[:12], weight, bias).view(3, 4, -1))
    assert torch.equal(shared(x[None, :6].transpose(0, 1), weight, bias)[:, 0], shared(x[:6], weight, bias))


class Leaning(LayeredGradients):
    """Gradients whose last digits follow a record's place."""

    def clipped_examples(self, rows, x, y, mask, bound):
        sums, norms = super().clipped_examples(rows, x, y, mask, bound)
        return sums * (1 + 2.0**-20 * mask.argmax(1, keepdim=True)), norms


class Crowded(LayeredGradients):
    """Gradients of clients whose last digits follow how many there are."""

    def gradients(self, rows, x, y, weights):
        return super().gradients(rows, x, y, weights) * (1 + 2.0**-20 * (len(x) > 2))


def test_an_engine_that_follows_company_is_found_and_not_used(monkeypatch):
    model = nn.Sequential(nn.Linear(6, 4))
    x, y = torch.randn(96, 6), torch.zeros(96, dtype=torch.int64)
    found = engines.gradients(model, cross_entropy, "layers")
    assert clients_alike(found, flat(model), x, y)
    assert not clients_alike(Crowded(found.layers, found.loss, found.width), flat(model), x, y)
    monkeypatch.setattr(engines, "LayeredGradients", Crowded)
    assert engines.choose(model, cross_entropy, record=x[0]).engine == "taps"


def test_an_engine_that_follows_places_is_found_and_not_used(monkeypatch):
    model = nn.Sequential(nn.Linear(6, 4))
    x, y = torch.randn(96, 6), torch.zeros(96, dtype=torch.int64)
    found = engines.gradients(model, cross_entropy, "layers")
    assert batch_alike(found, flat(model), x, y)
    assert not batch_alike(Leaning(found.layers, found.loss, found.width), flat(model), x, y)
    monkeypatch.setattr(engines, "LayeredGradients", Leaning)
    assert engines.choose(model, cross_entropy, record=x[0]).engine == "taps"
    monkeypatch.setattr(engines, "TappedGradients", lambda *_: Leaning(found.layers, found.loss, found.width))
    assert engines.choose(model, cross_entropy, record=x[0]).engine == "loop"
