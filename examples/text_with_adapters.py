"""The next character of other people's text: a small transformer, trained on public text and adapted privately.

python examples/text_with_adapters.py

The public text is Python's own manual (`pydoc_data`); the private one the documentation of numpy's functions, each of
which plays a client. The whole network and low-rank adapters of it are trained with the same ε: fewer trained weights
mean less noise.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pydoc_data import topics
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import sordino
from sordino.models.lora import trained_weights

CONTEXT, CHARACTERS = 24, 96
"""Characters that are looked at, and how many there are: printable ASCII, all else is a blank."""


class Transformer(nn.Module):
    """Attention over the last characters."""

    def __init__(self, width: int = 48, heads: int = 4, blocks: int = 2) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(CHARACTERS, width), nn.Parameter(torch.randn(CONTEXT, width) * 0.1)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, CHARACTERS)

    def forward(self, x: Tensor) -> Tensor:
        """Returns a score for every next character."""
        h = self.table(x) + self.places
        for block in self.blocks:
            h = block(h)
        scores: Tensor = self.scores(self.norm(h[:, -1]))
        return scores


class Block(nn.Module):
    """Attention, and a layer that looks at each place by itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the sequence after this block."""
        parts = self.qkv(self.before(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.after(x))))


def records(text: str, apart: int) -> tuple[Tensor, Tensor]:
    """Returns contexts and the characters after them, one every so many characters."""
    numbers = torch.tensor([ord(c) - 32 if 32 <= ord(c) < 127 else 0 for c in text])
    windows = numbers.unfold(0, CONTEXT + 1, apart) if len(numbers) > CONTEXT else numbers.new_zeros(0, CONTEXT + 1)
    return windows[:, :-1], windows[:, -1]


def pretrained(steps: int) -> Transformer:
    """Returns a transformer that was trained on public text."""
    torch.manual_seed(0)
    model = Transformer()
    x, y = records(" ".join(topics.topics.values()), 3)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        batch = torch.randint(len(x), (128,))
        optimizer.zero_grad()
        functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
    return model


def private_text(most: int) -> sordino.Federation:
    """Returns the documentation of numpy's functions, a client each."""
    texts = {name: getattr(np, name).__doc__ or "" for name in sorted(dir(np)) if callable(getattr(np, name))}
    told = [(name, *records(text[:most], 5)) for name, text in texts.items() if len(text) > 2 * CONTEXT]
    owners = np.repeat([name for name, *_ in told], [len(y) for *_, y in told])
    x, y = torch.cat([x for _, x, _ in told]), torch.cat([y for *_, y in told])
    return sordino.Federation.of(x, y, clients=owners, classes=CHARACTERS, name="numpy's documentation")


def accuracy(model: nn.Module, federation: sordino.Federation) -> float:
    """Returns how often the next character of clients that took no part is guessed."""
    with torch.no_grad():
        parts = zip(federation.test_x.split(1024), federation.test_y.split(1024), strict=True)
        right = sum(int((model(x).argmax(1) == y).sum()) for x, y in parts)
    return right / len(federation.test_y)


def main(steps: int, rounds: int, rank: int, epsilon: float, most: int) -> None:
    """Prints accuracies and the length of the noise, for the whole network and for adapters."""
    model, federation = pretrained(steps), private_text(most)
    print(f"{federation.population} clients, {len(federation.train_y):,} records; ε = {epsilon:g}, {rounds} rounds")
    print(f"as it came: {accuracy(model, federation):.1%}")
    recipe = sordino.Recipe.load().but(
        mechanism={"name": "dp_sgd", "clip_norm": 0.5, "sampling_rate": min(1.0, 2000 / len(federation.train_y))},
        server={"learning_rate": 1.0},
        budget={"epsilon": epsilon, "delta": 1e-6},
        run={"rounds": rounds, "evaluate_every": rounds},
        public=federation.proposed(),
    )
    for words, trained in (("whole network", model), (f"adapters of rank {rank}", sordino.lora(model, rank))):
        played: list[Mapping[str, Any]] = []
        with tempfile.TemporaryDirectory() as folder:
            outcome = sordino.run(
                recipe, model=trained, federation=federation, out=folder + "/run", watcher=played.append
            )
        count, every = trained_weights(trained)
        noise = played[-1]["noise_stddev"]
        print(
            f"{words}: {count:,} of {every:,} weights, noise of length {noise * count**0.5:.3g}, {outcome.accuracy:.1%}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=600, help="steps on public text")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--most", type=int, default=2000, help="characters of a client's text")
    main(**vars(parser.parse_args()))
