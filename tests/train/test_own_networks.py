"""Networks with a forward pass of their own: which engine takes them, and that its gradients are each example's own."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from sordino.data.client_data import ClientData
from sordino.errors import ModelError
from sordino.layout import Layout
from sordino.models.checks import check
from sordino.models.losses import cross_entropy, mse
from sordino.random.streams import Streams
from sordino.train import engine as engines
from sordino.train.alike import batch_alike
from sordino.train.layers.known import layers_of
from sordino.train.layers.plain import Flatten
from sordino.train.looped import LoopedGradients
from sordino.train.settings import LocalTraining
from sordino.train.trainer import Trainer
from train.cohorts import weights
from train.networks import Chained, Forked, Residual, Text, Transformer, Twice

NETWORKS = {
    "residual": (Residual, (1, 8, 8)),
    "twice": (Twice, (5,)),
    "gru": (lambda: Text(nn.GRU, batch_first=True), None),
    "gru, two layers, both ways, time first": (lambda: Text(nn.GRU, 2, both=True), None),
    "lstm without bias": (lambda: Text(nn.LSTM, bias=False, batch_first=True), None),
    "lstm, two layers, both ways": (lambda: Text(nn.LSTM, 2, both=True, batch_first=True), None),
    "transformer": (Transformer, None),
    "transformer, time first": (lambda: Transformer(batch_first=False), None),
}
BOUND = 0.37


def batch(name, clients=2, examples=5):
    make, shape = NETWORKS[name]
    torch.manual_seed(3)
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    count = (clients, examples)
    x = torch.randint(0, 20, (*count, 7)) if shape is None else torch.randn(*count, *shape)
    return model, x, torch.randint(0, 4, count)


def tapped(model, x):
    found = engines.choose(model, cross_entropy, record=x[0, 0])
    assert found.engine == "taps", found.why
    return found.gradients


def near(found, expected):
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("shared", [True, False])
def test_clipped_sums_are_those_of_one_example_after_the_other(name, shared):
    model, x, y = batch(name)
    oracle, found = LoopedGradients(model, cross_entropy), tapped(model, x)
    rows = weights(model)[None] if shared else weights(model) + 0.05 * torch.randn(2, len(weights(model)))
    mask = torch.ones(y.shape)
    mask[1, 4] = 0
    bound = float(oracle.clipped_examples(rows, x, y, mask, 1.0)[1].median())
    expected, ours = (each.clipped_examples(rows, x, y, mask, bound) for each in (oracle, found))
    near(ours[0], expected[0])
    near(ours[1], expected[1])
    near(found.gradients(rows, x, y, mask / 5), oracle.gradients(rows, x, y, mask / 5))
    near(found.outputs(rows, x), oracle.outputs(rows, x))


@pytest.mark.parametrize("name", NETWORKS)
def test_sums_over_clients_are_those_of_the_loop(name):
    model, x, y = batch(name)
    rows, shares = weights(model)[None], torch.full(y.shape, 1 / 5)
    expected = LoopedGradients(model, cross_entropy).clipped_clients(rows, x, y, shares, BOUND)
    found = tapped(model, x).clipped_clients(rows, x, y, shares, BOUND)
    near(found[0], expected[0])
    near(found[1], expected[1])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_record_moves_the_computed_sum_by_at_most_the_bound(name):
    model, x, y = batch(name, 1, 40)
    gradients, rows = tapped(model, x), weights(model)[None] * 3
    for count in (9, 33, 40):
        whole, _ = gradients.clipped_examples(rows, x[:, :count], y[:, :count], torch.ones(1, count), BOUND)
        for left_out in (0, count - 1):
            kept = torch.arange(count) != left_out
            part = x[:, :count][:, kept], y[:, :count][:, kept]
            without, _ = gradients.clipped_examples(rows, *part, torch.ones(1, count - 1), BOUND)
            assert float((whole.double() - without.double()).norm()) <= BOUND


@pytest.mark.parametrize("name", NETWORKS)
def test_a_records_gradient_is_the_same_to_the_bit_in_any_company(name):
    model, x, y = batch(name, 1, 100)
    assert batch_alike(tapped(model, x), weights(model), x[0], y[0])


def test_a_weight_that_is_used_outside_its_layer_is_not_tapped():
    # tapped as a table alone, the gradient of its second use would be missing, and norms would be too small
    model, x, _ = batch("transformer")
    assert tapped(model, x).sites.rest == ("places", "table.weight")
    model, x, _ = batch("gru")
    assert tapped(model, x).sites.rest == ()


def test_attention_by_the_librarys_function_is_batched():
    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 4)

        def forward(self, x):
            parts = self.qkv(x).unflatten(2, (2, -1)).transpose(1, 2).chunk(3, 3)
            seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
            return self.out(seen.transpose(1, 2).flatten(2)[:, -1])

    torch.manual_seed(0)
    model, x, y = Attending(), torch.randn(1, 6, 3, 4), torch.randint(0, 4, (1, 6))
    row, mask = weights(model)[None], torch.ones(1, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the library warns where it goes through records one by one
        found = tapped(model, x).clipped_examples(row, x, y, mask, 0.1)
    near(found[0], LoopedGradients(model, cross_entropy).clipped_examples(row, x, y, mask, 0.1)[0])


def test_shared_frozen_and_unused_weights():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.unused = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(2, 2)
            self.b.weight, self.out = self.a.weight, nn.Linear(5, 4)
            self.out.weight.requires_grad_(False)

        def forward(self, x):
            return self.out(torch.tanh(self.b(self.a(x))))

    torch.manual_seed(0)
    model, x, y = Odd(), torch.randn(1, 6, 5), torch.randint(0, 4, (1, 6))
    row = torch.cat([p.detach().flatten() for p in model.parameters() if p.requires_grad])[None]
    expected = LoopedGradients(model, cross_entropy).clipped_examples(row, x, y, torch.ones(1, 6), 0.1)
    found = tapped(model, x).clipped_examples(row, x, y, torch.ones(1, 6), 0.1)
    near(found[0], expected[0])
    near(found[1], expected[1])


def test_a_record_that_is_not_finite_is_left_out():
    model, x, y = batch("residual", 1, 5)
    gradients, rows = tapped(model, x), weights(model)[None]
    mask = torch.ones(1, 5)
    clean, _ = gradients.clipped_examples(rows, x[:, :4], y[:, :4], mask[:, :4], BOUND)
    x[0, 4, 0, 0, 0] = torch.inf
    sums, norms = gradients.clipped_examples(rows, x, y, mask, BOUND)
    assert not torch.isfinite(norms[0, 4])
    torch.testing.assert_close(sums, clean)


def test_a_chain_of_layers_is_found_behind_a_forward_pass():
    torch.manual_seed(0)
    model, x, y = Chained(), torch.randn(2, 5, 1, 12, 12), torch.randint(0, 4, (2, 5))
    found = engines.choose(model, cross_entropy)
    assert found.engine == "layers" and "chain of known layers" in str(found)
    rows, mask = weights(model)[None], torch.ones(2, 5)
    torch.testing.assert_close(found.gradients.outputs(rows, x)[0], model(x[0]))
    expected = LoopedGradients(model, cross_entropy).clipped_examples(rows, x, y, mask, 0.1)
    near(found.gradients.clipped_examples(rows, x, y, mask, 0.1)[0], expected[0])
    assert pickle.loads(pickle.dumps(found.gradients)).width == found.gradients.width


def test_a_view_of_so_many_numbers_is_a_flattening_of_records_that_have_as_many():
    class Viewed(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(12, 4)

        def forward(self, x):
            return self.fc(x.view(-1, 12))

    layers = layers_of(Viewed())
    assert layers[0] == Flatten(12)
    with pytest.raises(ModelError, match="mix records"):
        layers[0].forward(torch.zeros(1, 1), torch.zeros(1, 3, 24))


def made(forward, **layers):
    class Made(nn.Module):
        def __init__(self):
            super().__init__()
            for name, layer in layers.items():
                setattr(self, name, layer)

    Made.forward = forward
    return Made()


@pytest.mark.parametrize(
    "forward, reason",
    [
        (lambda self, x: self.a(x) + x, "add"),
        (lambda self, x: self.a(self.a(x)), "more than once"),
        (lambda self, x: self.a(x[:, :5]), "getitem"),
        (lambda self, x: functional.linear(x, self.a.weight), "a.weight"),
        (lambda self, x: self.a(x.flatten()), "flatten"),
        (lambda self, x: functional.log_softmax(self.a(x), dim=0), "log_softmax"),
        (lambda self, x: (functional.relu(x, inplace=True), self.a(x))[1], "a"),
        (lambda self, x: self.a(x) if x.sum() > 0 else x, "cannot be traced"),
        (lambda self, x: x.relu(), "not at all"),
    ],
)
def test_what_is_no_chain_is_said(forward, reason):
    found = layers_of(made(forward, a=nn.Linear(5, 5)))
    assert isinstance(found, str) and reason in found


def test_the_last_resort_says_that_it_is_slow_and_why():
    found = engines.choose(Forked(), cross_entropy, record=torch.randn(5))
    assert found.engine == "loop" and "slow" in str(found) and "vmap cannot run" in str(found)


class Padded(nn.Module):
    """Attention that looks at no padding: a text that is padding alone has no finite answer."""

    def __init__(self):
        super().__init__()
        self.table, self.attention = nn.Embedding(20, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        seen = self.table(x)
        return self.last(self.attention(seen, seen, seen, key_padding_mask=x == 0)[0].mean(1))


def test_a_record_without_a_finite_answer_takes_no_other_along():
    torch.manual_seed(3)
    x, y = torch.randint(1, 20, (2, 30, 5)), torch.randint(0, 4, (2, 30))
    x[0, 29], x[1] = 0, 0  # one text of the first client is padding alone, and all of the second's are
    model = Padded()
    sums, norms = tapped(model, x[:, :1]).clipped_examples(weights(model)[None], x, y, torch.ones(2, 30), BOUND)
    fewer, _ = tapped(model, x[:, :1]).clipped_examples(
        weights(model)[None], x[:1, :29], y[:1, :29], torch.ones(1, 29), BOUND
    )
    assert norms[0].isnan().nonzero().flatten().tolist() == [29] and norms[1].isnan().all()
    assert fewer.norm() > 3 * BOUND and torch.allclose(sums[0], fewer[0], atol=1e-6)
    assert not sums[1].any()


def test_a_target_that_overflows_takes_no_record_along():
    torch.manual_seed(3)
    model, x, y = nn.Linear(5, 1), torch.randn(1, 20, 5), torch.randn(1, 20, 1)
    y[0, 19] = 3e38
    gradients = engines.choose(model, mse, record=x[0, 0]).gradients
    sums, norms = gradients.clipped_examples(weights(model)[None], x, y, torch.ones(1, 20), BOUND)
    fewer, _ = gradients.clipped_examples(weights(model)[None], x[:, :19], y[:, :19], torch.ones(1, 19), BOUND)
    assert not norms[0, 19].isfinite() and fewer.norm() > BOUND and torch.allclose(sums, fewer, atol=1e-6)


class Scaling(nn.Module):
    """Divides by the largest number that it ever met, which it holds in a plain attribute."""

    def __init__(self):
        super().__init__()
        self.top, self.last = torch.tensor(10.0), nn.Linear(20, 8)

    def forward(self, x):
        self.top = torch.maximum(self.top, x.detach().abs().max())
        return self.last(x / self.top)


class Switching(Scaling):
    """Takes all records for bytes as soon as it met one, and notes it in a list."""

    def __init__(self):
        super().__init__()
        self.met = []

    def forward(self, x):
        if x.abs().max() > 10:
            self.met.append("bytes")
        return self.last(x / 255 if self.met else x)


@pytest.mark.parametrize("made", [Scaling, Switching])
def test_what_a_model_keeps_of_a_record_is_gone_before_the_next(made):
    """Made-up records are small, so that the model passed every check; one large record moved a sum by 46 bounds."""
    torch.manual_seed(0)
    model, x, y, bound = made(), torch.randn(48, 20), torch.zeros(48, dtype=torch.int64), 0.5
    check(model, (20,))
    x[:, 0], x[0] = 3.0, 2000.0
    weights = Layout.of(model).flatten({name: p.detach() for name, p in model.named_parameters()})
    trainer = Trainer(model, cross_entropy, LocalTraining(), record=torch.zeros(20))
    whole, without = (
        trainer.example_sum(
            weights,
            ClientData(np.array([0]), np.array([0, 48 - first]), x[first:], y[first:]),
            bound,
            None,
            Streams(0),
            1,
        )[0]
        for first in (0, 1)
    )
    assert float((whole - without).norm()) <= bound
