"""Finding out what a model is made of leaves the model as it was."""

from __future__ import annotations

from torch import Tensor, nn

from sordino.train.layers.chain import chain


class Remembers(nn.Module):
    """Keeps its last input, as people do who look at activations."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.last = x
        return self.layer(x)


def test_no_stand_in_is_left_in_a_users_module() -> None:
    model = Remembers()
    chain(model)
    assert model.last is None
