"""Every optimiser against torch.optim, client by client."""

import pytest
import torch

from sordino.errors import RecipeError
from sordino.train.optimizers import optimizer
from sordino.train.settings import LocalTraining

ORACLES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.03),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.03, momentum=0.8),
    "adam": lambda p: torch.optim.Adam(p, lr=0.03, betas=(0.7, 0.95), eps=1e-4),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.03, alpha=0.8, eps=1e-4),
}


def settings(name):
    return LocalTraining(name, 0.03, momentum=0.8, betas=(0.7, 0.95), decay=0.8, damping=1e-4)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("name", ORACLES)
def test_equal_to_torch_client_by_client(name, dtype, tolerance):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(4, 7, generator=generator, dtype=dtype)
    gradients = torch.randn(20, 4, 7, generator=generator, dtype=dtype) * torch.logspace(-3, 3, 7, dtype=dtype)
    ours, state = rows.clone(), optimizer(settings(name)).init(rows)
    for gradient in gradients:
        delta, state = optimizer(settings(name)).step(state, gradient)
        ours = ours + delta
    for client in range(4):
        parameter = rows[client].clone().requires_grad_()
        oracle = ORACLES[name]([parameter])
        for gradient in gradients:
            parameter.grad = gradient[client].clone()
            oracle.step()
        torch.testing.assert_close(ours[client], parameter.detach(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ORACLES)
def test_steps_are_pure_and_states_have_one_row_a_client(name):
    rows, gradients = torch.ones(3, 5), torch.full((3, 5), 2.0)
    rule = optimizer(settings(name))
    _, state = rule.step(rule.init(rows), gradients)
    kept = {key: value.clone() for key, value in state.items()}
    first, _ = rule.step(state, gradients)
    second, _ = rule.step(state, gradients)
    assert torch.equal(first, second) and torch.equal(gradients, torch.full((3, 5), 2.0))
    assert all(torch.equal(state[key], kept[key]) and len(state[key]) == 3 for key in kept)


@pytest.mark.parametrize(
    "wrong, field",
    [
        ({"optimizer": "lion"}, "train.optimizer"),
        ({"learning_rate": 0.0}, "train.learning_rate"),
        ({"learning_rate": float("nan")}, "train.learning_rate"),
        ({"steps": 3}, "train.steps"),
        ({"epochs": None}, "train.epochs"),
        ({"batch_size": 0}, "train.batch_size"),
        ({"epochs": -1}, "train.epochs"),
        ({"momentum": 1.0}, "train.momentum"),
        ({"betas": (0.9, 1.5)}, "betas"),
        ({"damping": 0.0}, "train.damping"),
    ],
)
def test_impossible_settings_name_their_field(wrong, field):
    with pytest.raises(RecipeError, match=field.replace(".", r"\.")):
        LocalTraining(**wrong)
