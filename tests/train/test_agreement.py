"""Models that an engine could mistake for others: whatever is chosen computes what plain autograd computes."""

import pytest
import torch
from torch import nn

from sordino import models
from sordino.errors import ModelError
from sordino.layout import Layout
from sordino.models.losses import cross_entropy
from sordino.train import engine as engines
from sordino.train.agreement import disagreement
from sordino.train.layered import LayeredGradients
from sordino.train.layers.known import layers_of
from train.cohorts import weights

RECORD = torch.linspace(-1, 2, 5)


class Own(nn.Module):
    """Not a chain, so that it is tapped."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)) * x[..., :1])


def with_an_unused_child():
    model = Own()
    model.a.gate = nn.Linear(5, 5)
    return model


def with_an_unused_weight():
    model = Own()
    model.a.extra = nn.Parameter(torch.ones(3))
    return model


def with_a_hook():
    model = Own()
    model.a.register_forward_hook(lambda module, given, out: 10 * out)
    return model


def with_another_forward():
    model = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 3))
    linear = model[0]
    linear.forward = lambda x: 3 * nn.functional.linear(x, linear.weight, linear.bias)
    return model


def with_one_activation_twice():
    again = nn.ReLU()
    return nn.Sequential(nn.Linear(5, 5), again, nn.Linear(5, 5), again, nn.Linear(5, 3))


class Scaled(Own):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        return super().forward(x) * self.scale


MODELS = (
    with_an_unused_child,
    with_an_unused_weight,
    with_a_hook,
    with_another_forward,
    with_one_activation_twice,
    Scaled,
)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_the_chosen_engine_computes_what_autograd_computes(make):
    torch.manual_seed(0)
    model, x, y = make(), torch.randn(1, 9, 5), torch.randint(0, 3, (1, 9))
    row = weights(model)[None]
    found, wanted = (
        engines.choose(model, cross_entropy, engine, RECORD).gradients.clipped_examples(
            row, x, y, torch.ones(1, 9), 0.3
        )
        for engine in ("auto", "loop")
    )
    assert torch.allclose(found[1], wanted[1], rtol=1e-4)
    assert torch.allclose(found[0].double(), wanted[0].double(), rtol=1e-3, atol=1e-5)


def test_an_engine_that_computes_something_else_is_found():
    class Short(engines.LayeredGradients):
        def clipped_examples(self, rows, x, y, mask, bound):
            sums, norms = super().clipped_examples(rows, x, y, mask, bound)
            return sums, norms * 0.99

    model = nn.Sequential(nn.Linear(5, 3))
    right = engines.gradients(model, cross_entropy, "layers")
    assert disagreement(right, model, cross_entropy, RECORD) == ""
    wrong = Short(right.layers, right.loss, right.width)
    assert disagreement(wrong, model, cross_entropy, RECORD) == "norms of gradients"


def test_a_last_layer_of_zeros_hides_nothing():
    """At such weights no gradient reaches what lies before: an engine that is wrong there alone must be found, too."""

    class Short(engines.LayeredGradients):
        def _terms(self, rows, x, y, weights):
            for layer, inputs, error in super()._terms(rows, x, y, weights):
                yield layer, inputs, error / 2 if inputs.shape[-1] == 5 else error

    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    nn.init.zeros_(model[2].weight)
    right = engines.gradients(model, cross_entropy, "layers")
    assert disagreement(right, model, cross_entropy, RECORD) == ""
    assert disagreement(Short(right.layers, right.loss, right.width), model, cross_entropy, RECORD) != ""


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_tables_that_records_shorten_are_refused(kind):
    with pytest.raises(ModelError, match="max_norm"):
        models.check(nn.Sequential(kind(9, 4, max_norm=0.5)))


class Shortening(nn.Module):
    """Writes into its weights, as `max_norm` does."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 3)

    def forward(self, x):
        with torch.no_grad():
            self.a.weight[0].clamp_(max=x.max().item())
        return self.a(x)


def test_weights_that_a_pass_writes_into_are_refused_and_never_released():
    model = Shortening()
    with torch.no_grad():
        model.a.weight.fill_(100.0)
    with pytest.raises(ModelError, match=r"weight 'a\.weight' changes"):
        models.check(model, (5,))
    row = weights(model)[None].clone()
    engines.gradients(model, cross_entropy, "loop").outputs(row, torch.zeros(1, 2, 5))
    assert torch.equal(row, weights(model)[None])


class Remembering(nn.Module):
    """Carries the largest input on, from 10 upwards: made-up records never reach that."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 3)
        self.register_buffer("top", torch.tensor(10.0))

    def forward(self, x):
        self.top = torch.maximum(self.top, x.detach().abs().max())
        return self.a(x) / self.top


def test_what_one_record_leaves_in_a_buffer_no_other_meets():
    model, x = Remembering(), torch.full((1, 3, 5), 0.5)
    gradients, row = engines.gradients(model, cross_entropy, "loop"), weights(model)[None]
    alone = gradients.clipped_examples(row, x, torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 3), 1e9)[1]
    x[0, 0] = 1e6
    beside = gradients.clipped_examples(row, x, torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 3), 1e9)[1]
    assert torch.equal(alone[0, 1:], beside[0, 1:])


def test_an_engine_is_tried_as_clients_are_trained_on_one_thread() -> None:
    """Several threads cut a product by its rows: the first run of a process took the loop, and resumed otherwise."""
    model, record, threads = nn.Linear(64, 10), torch.randn(64), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert (
            engines.choose(nn.Sequential(model), cross_entropy, "auto", record, torch.device("cpu")).engine == "layers"
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("inputs", [100, 60_000])
def test_norms_that_are_rounded_up_are_those_of_the_model(inputs: int) -> None:
    """Of 50,000 inputs a norm is 0.3 % too large, to be safe: wide models fell back to one record at a time."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 2))
    record = torch.randn(inputs, generator=torch.Generator().manual_seed(1))
    assert engines.choose(model, cross_entropy, record=record).engine == "layers"


@pytest.mark.parametrize("factor", [0.99, 0.997, 1.02])
def test_norms_that_are_too_small_or_far_too_large_are_not(factor: float) -> None:
    class Wrong(LayeredGradients):
        def clipped_examples(self, *given):
            sums, norms = super().clipped_examples(*given)
            return sums, factor * norms

    model = nn.Sequential(nn.Flatten(), nn.Linear(20_000, 2))
    record = torch.randn(20_000, generator=torch.Generator().manual_seed(1))
    wrong = Wrong(layers_of(model), cross_entropy, Layout.of(model).width)
    assert disagreement(wrong, model, cross_entropy, record) == "norms of gradients"
