"""The engines against plain autograd, one client and one example at a time."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from sordino.errors import RecipeError
from sordino.models.losses import cross_entropy, hinge, mse
from sordino.train import engine as engines
from sordino.train.gradients import MARGIN
from sordino.train.layers.known import layers_of
from sordino.train.layers.linear import Linear
from sordino.train.layers.pool import MaxPool2d
from train.cohorts import Gated, cnn, gradient, mlp, weights


def with_plain_layers():
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 2, (1, 2)), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(2, 4)
    )


def on_sequences():
    torch.manual_seed(6)
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Flatten(), nn.Linear(10, 4))


CASES = {
    "mlp": (mlp, (6,)),
    "cnn": (cnn, (2, 9, 9)),
    "plain layers": (with_plain_layers, (6,)),
    "sequences": (on_sequences, (2, 3)),
    "own module": (Gated, (6,)),
}
ENGINES = [
    (name, engine)
    for name, (make, _) in CASES.items()
    for engine in ("layers", "vmap", "loop")
    if engine != "layers" or not isinstance(layers_of(make()), str)
]


def batch(name, clients=3, examples=4, loss=cross_entropy):
    make, shape = CASES[name]
    model = make()
    generator = torch.Generator().manual_seed(7)
    rows = weights(model) + 0.1 * torch.randn(clients, len(weights(model)), generator=generator)
    x = torch.randn(clients, examples, *shape, generator=generator)
    y = torch.randint(0, 4, (clients, examples), generator=generator)
    return model, rows, x, y


def example_gradients(model, loss, row, x, y):
    return torch.stack([gradient(model, loss, row, x[j : j + 1], y[j : j + 1]) for j in range(len(x))])


def clip(vectors, bound):
    vectors = vectors.double()
    return vectors * (bound * (1 - MARGIN) / vectors.norm(dim=-1, keepdim=True)).clamp(max=1)


@pytest.mark.parametrize("name, engine", ENGINES)
@pytest.mark.parametrize("loss", [cross_entropy, hinge, mse], ids=lambda loss: loss.__name__)
def test_gradients_are_those_of_autograd(name, engine, loss):
    model, rows, x, y = batch(name)
    found = engines.gradients(model, loss, engine).gradients(rows, x, y, torch.full(y.shape, 1 / 4))
    expected = [gradient(model, loss, *client) for client in zip(rows, x, y, strict=True)]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name, engine", ENGINES)
def test_shared_weights_and_padding(name, engine):
    model, rows, x, y = batch(name)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]]).float()
    found = engines.gradients(model, cross_entropy, engine).gradients(rows[:1], x, y, mask / mask.sum(1, keepdim=True))
    expected = [gradient(model, cross_entropy, rows[0], x[k, :n], y[k, :n]) for k, n in enumerate((4, 3, 1))]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name, engine", ENGINES)
@pytest.mark.parametrize("shared", [True, False])
def test_clipped_example_gradients_against_micro_batches(name, engine, shared):
    model, rows, x, y = batch(name)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]]).float()
    each = [
        example_gradients(model, cross_entropy, rows[0 if shared else k], x[k], y[k]) * mask[k, :, None]
        for k in range(3)
    ]
    bound = float(torch.cat(each).norm(dim=1).median())
    sums, norms = engines.gradients(model, cross_entropy, engine).clipped_examples(
        rows[:1] if shared else rows, x, y, mask, bound
    )
    torch.testing.assert_close(norms, torch.stack(each).norm(dim=2), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(sums.double(), torch.stack([clip(e, bound).sum(0) for e in each]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("examples", [1, 4, 40])
@pytest.mark.parametrize("name, engine", ENGINES)
def test_sum_of_clipped_clients_against_rows(name, engine, examples):
    model, rows, x, y = batch(name, examples=examples)
    expected = torch.stack([gradient(model, cross_entropy, rows[0], x[k], y[k]) for k in range(3)])
    bound = float(expected.norm(dim=1).median())
    total, norms = engines.gradients(model, cross_entropy, engine).clipped_clients(
        rows[:1], x, y, torch.full(y.shape, 1 / examples), bound
    )
    torch.testing.assert_close(norms, expected.norm(dim=1), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(total, clip(expected, bound).sum(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name, engine", ENGINES)
@pytest.mark.parametrize("poison", [float("inf"), float("nan"), 1e38])
def test_what_is_not_finite_is_left_out(name, engine, poison):
    model, rows, x, y = batch(name)
    computed = engines.gradients(model, mse, engine)
    clean, _ = computed.clipped_examples(rows, x, y, torch.ones(y.shape), 0.5)
    others, _ = computed.clipped_clients(rows[:1], x[1:], y[1:], torch.full((2, 4), 1 / 4), 0.5)
    x[0, 2] = poison
    limit = 1.0 if poison == 1e38 else 0.5  # huge but finite: another clipped gradient; else none at all
    sums, norms = computed.clipped_examples(rows, x, y, torch.ones(y.shape), 0.5)
    assert torch.isfinite(sums).all() and (poison == 1e38 or not torch.isfinite(norms[0, 2]))
    torch.testing.assert_close(sums[1:], clean[1:])
    assert (sums[0] - clean[0]).norm() <= limit * (1 + 1e-5)
    total, norms = computed.clipped_clients(rows[:1], x, y, torch.full(y.shape, 1 / 4), 0.5)
    assert torch.isfinite(total).all()
    assert (total - others).norm() <= (0.5 * (1 + 1e-5) if poison == 1e38 else 1e-6)


def test_no_client_exceeds_the_bound_when_its_examples_cancel():
    # two examples of opposite labels: huge errors, whose sum is small; the Gram identity loses all its digits there
    layer = nn.Sequential(nn.Linear(50, 2))
    row, generator = weights(layer)[None], torch.Generator().manual_seed(0)
    computed = engines.gradients(layer, lambda o, y: (o[:, 0] - o[:, 1]) * y, "layers")
    for scale in (1e2, 1e4, 1e6):
        base = torch.randn(1, 1, 50, generator=generator)
        x = torch.cat([base, base + torch.randn(1, 1, 50, generator=generator) / scale], 1) * scale
        y = torch.tensor([[1.0, -1.0]])
        true = gradient(layer, lambda o, y: (o[:, 0] - o[:, 1]) * y * 2, row[0].double().float(), x[0], y[0])
        total, norms = computed.clipped_clients(row, x, y, torch.ones(1, 2), 1.0)
        assert norms[0] >= true.norm() * (1 - 1e-5) and total.norm() <= 1 + 1e-5


@pytest.mark.parametrize(
    "options", [{"stride": 1}, {}, {"stride": 3, "padding": 1}, {"ceil_mode": True, "dilation": 2}]
)
def test_pooling_equals_the_librarys_with_the_same_ties(options):
    generator = torch.Generator().manual_seed(0)
    # few distinct values, so that windows are full of ties
    x = torch.randint(0, 3, (2, 3, 4, 11, 8), generator=generator).float()
    (pool,) = layers_of(nn.Sequential(nn.MaxPool2d((3, 2), **options)))
    leaf = x.flatten(0, 1).clone().requires_grad_()
    expected = functional.max_pool2d(leaf, (3, 2), **options)
    y, saved = pool.forward(x, x)
    assert torch.equal(y.flatten(0, 1), expected)
    error = torch.randn(y.shape, generator=generator)
    expected.backward(error.flatten(0, 1))
    torch.testing.assert_close(pool.backward(x, saved, error).flatten(0, 1), leaf.grad)


@pytest.mark.parametrize("options", [{"stride": 1}, {}, {"stride": 3, "padding": 1}])
def test_relu_after_pooling_is_the_same_as_before_it_to_the_last_bit(options):
    generator = torch.Generator().manual_seed(0)
    # few distinct values of both signs, so that there are ties above, at and below zero
    x = torch.randint(-3, 3, (2, 3, 4, 11, 8), generator=generator).float()
    leaf = x.flatten(0, 1).clone().requires_grad_()
    expected = functional.max_pool2d(leaf.relu(), (3, 2), **options)
    layers = layers_of(nn.Sequential(nn.ReLU(), nn.MaxPool2d((3, 2), **options), nn.MaxPool2d(1)))
    assert [type(layer) for layer in layers] == [MaxPool2d, MaxPool2d]
    y, saved = x, []
    for layer in layers:
        y, kept = layer.forward(x, y)
        saved.append(kept)
    assert torch.equal(y.flatten(0, 1), expected)
    error = torch.randn(y.shape, generator=generator)
    expected.backward(error.flatten(0, 1))
    for layer, kept in zip(reversed(layers), reversed(saved), strict=True):
        error = layer.backward(x, kept, error)
    assert torch.equal(error.flatten(0, 1), leaf.grad)


def test_known_layers_are_known_and_others_are_not():
    assert [type(layer) for layer in layers_of(nn.Sequential(nn.Linear(2, 2), nn.Identity()))] == [Linear]
    shared = nn.Linear(2, 2)
    frozen = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    frozen[0].weight.requires_grad_(False)
    hooked = nn.Sequential(nn.Linear(2, 2))
    hooked[0].register_forward_hook(lambda *_: None)

    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    normed = nn.Sequential(torch.nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)))
    grouped = nn.Sequential(nn.Conv2d(2, 2, 1, groups=2))
    for model in (
        nn.Sequential(shared, shared),
        frozen,
        hooked,
        nn.Sequential(Doubled(2, 2)),
        normed,
        grouped,
        Gated(),
    ):
        assert isinstance(layers_of(model), str)


def chosen(model, engine="auto", record=None):
    return engines.choose(model, cross_entropy, engine, record).engine


def test_the_choice_follows_from_the_model_alone():
    assert chosen(mlp()) == chosen(cnn(), "processes") == "layers"
    assert chosen(Gated()) == "vmap" and chosen(mlp(), "loop") == "loop"
    assert chosen(Gated(), record=torch.zeros(6)) == "taps"
    assert chosen(nn.Sequential(nn.Conv2d(1, 1, 1, groups=1, dilation=2)), "batched") == "loop"
    with pytest.raises(RecipeError, match=r"train\.engine"):
        chosen(mlp(), "fast")
    with pytest.raises(RecipeError, match=r"train\.engine"):
        chosen(Gated(), "layers")
    with pytest.raises(RecipeError, match="made-up record"):
        chosen(Gated(), "taps")
