"""Steps of DP-SGD that are measured: images and text, and what everybody needs to take them.

Only numpy and torch here, so that frameworks can run in an environment of their own.
"""

import gzip
import json
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn
from workloads import WORKLOADS, data, data_folder

CLIP_NORM, NOISE_MULTIPLIER, LEARNING_RATE = 1.0, 1.0, 0.5
CONTEXT, CHARACTERS = 80, 72
"""Characters of context, and characters in Shakespeare's plays."""


class NextCharacter(nn.Module):
    """The next character from the 80 before it; `cells` is `nn.GRU` or somebody's own."""

    def __init__(self, cells=nn.GRU) -> None:
        super().__init__()
        self.table, self.cells = nn.Embedding(CHARACTERS, 8), cells(8, 128, batch_first=True)
        self.scores = nn.Linear(128, CHARACTERS)

    def forward(self, x):
        states, _ = self.cells(self.table(x))
        return self.scores(states[:, -1])


@dataclass(frozen=True)
class Step:
    name: str
    about: str
    records: int
    clients: int
    goal: float
    """How many times as fast as the best of Opacus we want to be."""
    steps: int = 1
    """Steps of a turn: enough that a tick of the processor's clock (10 ms) hardly matters."""

    @property
    def text(self) -> bool:
        """Whether records are text, and the network a GRU."""
        return self.name in ("W6", "W7")

    def model(self, cells=nn.GRU) -> nn.Module:
        torch.manual_seed(0)
        return NextCharacter(cells) if self.text else WORKLOADS["W2" if self.name == "W4" else "W1"].model()

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the records of the step."""
        x, y = text() if self.text else data()[:2]
        return x[: self.records], y[: self.records]

    def source(self) -> str:
        """Returns where the records come from."""
        if self.text:
            return "Shakespeare by role" if _plays() is not None else "made-up text (the data was not found)"
        return "Fashion-MNIST" if data_folder() is not None else "made-up images (the data was not found)"


STEPS = {
    "W4": Step("W4", "CNN of 26,010 weights, 6,000 records a step", 6000, 10, 3.0),
    "W5": Step("W5", "MLP 784-32-10, 6,000 records a step", 6000, 10, 3.0, 5),
    "W6": Step("W6", "embedding, GRU of 128, 62,856 weights, context 80, 200 records a step", 200, 10, 1.0),
    "W7": Step("W7", "the network of W6, 2,000 records a step, ours alone", 2000, 10, 0.0),
}


def _plays():
    folder = data_folder()
    found = None if folder is None else folder.parent / "shakespeare" / "shakespeare_by_role.jsonl.gz"
    return found if found is not None and found.exists() else None


@cache
def text() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns contexts and next characters from the speeches of the first roles."""
    path = _plays()
    if path is None:
        numbers = torch.randint(0, CHARACTERS, (200_000,), generator=torch.Generator().manual_seed(0))
    else:
        with gzip.open(path, "rt") as lines:
            speeches = [" ".join(json.loads(line)["speeches"]) for line in lines]
        known = {character: place for place, character in enumerate(sorted(set("".join(speeches))))}
        numbers = torch.tensor([known[character] for character in "".join(speeches)[:200_000]])
    windows = numbers.unfold(0, CONTEXT + 1, 7)
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))
    return windows[order, :-1].contiguous(), windows[order, -1].contiguous()
