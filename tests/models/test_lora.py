"""Adapters: the network is frozen and computes what it did; only adapters are trained, clipped and noised."""

import pytest
import torch
from torch import nn

import sordino
from sordino.errors import ModelError
from sordino.layout import Layout
from sordino.models.lora import Adapted, merged, trained_weights
from sordino.models.losses import cross_entropy
from sordino.train import engine as engines
from sordino.train.looped import LoopedGradients
from train.networks import Text, Transformer


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def test_the_copy_computes_what_the_model_did_and_trains_only_adapters():
    model, x = network(), torch.randn(5, 6)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    state = torch.get_rng_state()
    adapted = sordino.lora(model, rank=2)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(adapted(x), model(x))
    assert Layout.of(adapted).names == ("0.down.weight", "0.up.weight", "2.down.weight", "2.up.weight")
    assert trained_weights(adapted) == (2 * (6 + 8) + 2 * (8 + 3), 2 * 14 + 2 * 11 + 6 * 8 + 8 + 8 * 3 + 3)
    assert all(p.requires_grad for p in model.parameters())
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


def test_layers_can_be_chosen_and_others_trained_as_they_are():
    adapted = sordino.lora(network(), rank=1, layers=["0"], trained=["2"])
    assert Layout.of(adapted).names == ("0.down.weight", "0.up.weight", "2.weight", "2.bias")
    assert Layout.of(sordino.lora(network(), 1, layers=lambda name: name == "2")).names[0] == "2.down.weight"


def test_folded_into_the_network_adapters_do_the_same():
    adapted, x = sordino.lora(network(), rank=2), torch.randn(5, 6)
    for layer in adapted.modules():
        if isinstance(layer, Adapted):
            nn.init.normal_(layer.up.weight)
    whole = merged(adapted)
    torch.testing.assert_close(whole(x), adapted(x))
    assert [type(layer) for layer in whole] == [nn.Linear, nn.Tanh, nn.Linear]
    assert trained_weights(whole)[0] == trained_weights(network())[0]


@pytest.mark.parametrize("make", [Transformer, lambda: Text(nn.LSTM, batch_first=True)])
def test_gradients_of_adapters_are_those_of_one_example_after_the_other(make):
    torch.manual_seed(1)
    model = sordino.lora(make(), rank=2)
    x, y = torch.randint(0, 20, (1, 4, 7)), torch.randint(0, 4, (1, 4))
    row = Layout.of(model).flatten(dict(model.named_parameters())).detach()[None]
    row = row + 0.1 * torch.randn_like(row)
    found = engines.choose(model, cross_entropy, record=x[0, 0])
    assert found.engine == "taps" and found.gradients.sites.rest == ()
    ours, oracle = (
        each.clipped_examples(row, x, y, torch.ones(1, 4), 0.1)[0]
        for each in (found.gradients, LoopedGradients(model, cross_entropy))
    )
    torch.testing.assert_close(ours.double(), oracle.double(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    "options, says",
    [({"rank": 0}, "rank is 0"), ({"layers": ["3"]}, "linear layers are 0, 2"), ({"trained": ["x"]}, "trained is"),
     ({"layers": []}, "no nn.Linear layer")],
)  # fmt: skip
def test_what_cannot_be_adapted_is_said(options, says):
    with pytest.raises(ModelError, match=says):
        sordino.lora(network(), **options)


def test_what_is_no_module_is_said():
    with pytest.raises(ModelError, match="model is a str"):
        sordino.lora("network", rank=1)


@pytest.mark.parametrize("rank", [0, True, 2.5, "2", float("nan"), 7, 10**9])
def test_ranks_that_no_layer_has_are_refused_in_one_sentence(rank):
    """The last one filled the memory, others raised what PyTorch raises."""
    with pytest.raises(ModelError, match="rank is"):
        sordino.lora(network(), rank=rank)


@pytest.mark.parametrize("scale", [0, float("nan"), float("inf"), "1"])
def test_scales_that_are_no_numbers_are_refused_in_one_sentence(scale):
    with pytest.raises(ModelError, match="scale is"):
        sordino.lora(network(), rank=1, scale=scale)
