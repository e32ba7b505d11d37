"""Your own network: any torch module, trained under dp_sgd, and loaded again from the published file.

python examples/own_cnn.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from sklearn.datasets import load_digits
from torch import Tensor, nn

import sordino


class SmallCNN(nn.Module):
    """A convolution with fixed filters, one that is trained, and a linear layer: 1 × 8 × 8 pixels to ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.fixed = nn.Conv2d(1, 8, 3, padding=1).requires_grad_(False)
        self.trained = nn.Conv2d(8, 8, 3, stride=2)
        self.last = nn.Linear(72, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Returns a score for each class."""
        return self.last(torch.tanh(self.trained(torch.tanh(self.fixed(x)))).flatten(1))


def main(folder: Path, rounds: int = 25) -> sordino.Outcome:
    """Trains the network on digits that 100 people hold, and checks the published model."""
    digits = load_digits()
    x, y = torch.tensor(digits.images[:, None] / 8 - 1).float(), torch.tensor(digits.target)
    people = sordino.Federation.of(x, y, clients=100, public=sordino.PublicCounts(100, 1437, 10))
    torch.manual_seed(0)
    outcome = sordino.run(
        model=SmallCNN(),
        federation=people,
        mechanism={"name": "dp_sgd", "clip_norm": 1.0},
        server={"learning_rate": 2.0},
        budget={"epsilon": 4.0},
        run={"rounds": rounds},
        out=folder / "run",
    )
    again = SmallCNN()
    again.load_state_dict(load_file(outcome.folder / "public" / "model.safetensors"))  # whole, frozen filters too
    assert torch.allclose(again(x[:5]), outcome.model(x[:5]))
    return outcome


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as aside:
        outcome = main(Path(aside))
        print(outcome.scores.words() if outcome.scores else "no test records", outcome.certificate, sep="\n")
