"""Networks preconditioned from noise: the same function, inputs that are white on noise, and no data anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import sordino
from sordino.errors import ModelError
from sordino.models import build
from sordino.models.preconditioned import noise_images, preconditioned
from sordino.recipe import Recipe


@pytest.mark.parametrize(("name", "shape"), [("mlp", (1, 8, 8)), ("mlp", (7,)), ("cnn_yuan_small", (3, 20, 20))])
def test_a_preconditioned_network_computes_the_same_with_as_many_trained_weights(
    name: str, shape: tuple[int, ...]
) -> None:
    plain = build(name, shape, 4, seed=3)
    before = [p.clone() for p in plain.parameters()]
    state = torch.random.get_rng_state()
    turned = preconditioned(plain, shape)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(before, plain.parameters(), strict=True))
    x = torch.rand(9, *shape, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(plain(x), turned(x), atol=1e-5)
    assert sum(p.numel() for p in turned.parameters() if p.requires_grad) == sum(p.numel() for p in before)


def test_what_a_layer_sees_of_noise_has_norm_1_and_nearly_one_size_in_all_directions() -> None:
    shape = (1, 8, 8)
    turned = preconditioned(nn.Sequential(nn.Flatten(), nn.Linear(64, 5)), shape, ridge=1e-3)
    x = noise_images(shape, 0).flatten(1)
    seen = turned[:2](noise_images(shape, 0))
    assert seen.square().sum(1).mean() == pytest.approx(1, abs=1e-4)
    condition = [torch.linalg.eigvalsh(rows.double().T @ rows.double()) for rows in (x, seen)]
    assert condition[0][-1] / condition[0][0] > 1000  # pictures' noise is long in few directions
    assert condition[1][-1] / condition[1][0] < 10


def test_the_turn_follows_from_public_things_alone() -> None:
    turns = [build("mlp", (1, 8, 8), 4, seed=seed, precondition=True)[1].weight for seed in (0, 1)]
    assert torch.equal(
        turns[0], turns[1]
    )  # the first layer's turn is a function of the shape: not even of the run's seed
    assert not torch.equal(noise_images((1, 8, 8), 0), noise_images((1, 8, 8), 1))


@pytest.mark.parametrize("mechanism", ["dp_sgd", "fed_ldp", "dp_fedavg"])
def test_it_trains_under_every_trust_and_only_trained_weights_move(mechanism: str, tmp_path: Path) -> None:
    told = [f"mechanism.name={mechanism}", "model.name=mlp", "model.hidden=[4]", "model.precondition=true"]
    more = ["run.rounds=2", "partition.clients=30", "budget.epsilon=8"]
    outcome = sordino.run(Recipe.load(None, [*told, *more]), out=tmp_path / "run")
    begun = build("mlp", (1, 8, 8), 10, hidden=(4,), precondition=True)
    for (name, was), now in zip(begun.named_parameters(), outcome.model.parameters(), strict=True):
        assert torch.equal(was, now) != was.requires_grad, name


def test_what_cannot_be_preconditioned_is_refused_in_a_sentence() -> None:
    with pytest.raises(ModelError, match="starts at zero: use opening"):
        build("linear", (1, 8, 8), 4, precondition=True)
    with pytest.raises(ModelError, match="one after the other"):
        preconditioned(nn.ModuleList(), (3,))  # type: ignore[arg-type]
