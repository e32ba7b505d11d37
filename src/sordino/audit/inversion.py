"""Gradient inversion: from what a client uploads back to its picture, without the mechanism and with it.

**Reference**: Zhu, Liu, Han (2019), "Deep Leakage from Gradients" (DLG: picture and label are searched for together);
Zhao, Mopuri, Bilen (2020), "iDLG: Improved Deep Leakage from Gradients" (the label is read off the gradient first).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sordino.audit.attack import opening_knobs
from sordino.audit.network import Network
from sordino.audit.people import undeclared
from sordino.audit.picture import psnr, save_grid, ssim
from sordino.audit.release import release
from sordino.data.client_data import ClientData
from sordino.data.federation import Federation
from sordino.errors import RecipeError
from sordino.random.streams import Streams
from sordino.recipe import Recipe
from sordino.runs.context import RunContext
from sordino.runs.setup import assemble
from sordino.terms import Terms, Turn, Vanished
from sordino.types import FloatArray

InversionAttack = Literal["dlg", "idlg"]

_IMAGE = 3
_STEPS = 60


@dataclass(frozen=True)
class Inverted:
    """One attacked picture: what it was, and what came of each attack on each message."""

    original: FloatArray
    found: dict[str, FloatArray]
    """By `attack/without` and `attack/with`: without the mechanism, and with it."""

    def quality(self) -> dict[str, dict[str, float]]:
        """Returns how alike each is to the original."""
        return {
            name: {"psnr": psnr(self.original, picture), "ssim": ssim(self.original, picture)}
            for name, picture in self.found.items()
        }


def invert(
    recipe: Recipe, federation: Federation, count: int, seed: int, model: nn.Module | None = None
) -> list[Inverted]:
    """Attacks the first uploads of `count` clients with one picture each.

    Every client takes one plain step on one record: the case that leaks most. What the attacker sees without the
    mechanism is that step; with it, what the observer sees whom the mechanism protects: a message (local trust), or
    what is released of all of them (distributed and central trust).

    Raises:
        RecipeError: the data are not pictures with labels.
    """
    if len(federation.input_shape) != _IMAGE or federation.classes < 2:
        raise RecipeError("gradient inversion shows pictures: use a data set of images with classes, e.g. digits")
    chosen = np.random.default_rng(seed).choice(len(federation.train_y), count, replace=False)
    x, y = federation.train_x[torch.from_numpy(chosen)], federation.train_y[torch.from_numpy(chosen)]
    context, network = _single_step(recipe, federation, model), Network.of(recipe, federation, model)
    data = ClientData(np.arange(count), np.arange(count + 1), x, y)
    plain = network.gradients(network.start, x, y)
    seen = _seen(context, network.start, data, seed)
    return [
        _attacked(network, x[k], federation.classes, {"without": plain[k], "with": seen[k]}, seed) for k in range(count)
    ]


def _single_step(recipe: Recipe, federation: Federation, model: nn.Module | None) -> RunContext:
    train = recipe.train.model_copy(update={"steps": 1, "epochs": None, "batch_size": None, "optimizer": "sgd"})
    return assemble(undeclared(recipe.model_copy(update={"train": train})), model, federation)


def _seen(context: RunContext, weights: Tensor, data: ClientData, seed: int) -> Tensor:
    """Returns what the attacker sees of each client, turned back into a gradient as far as that is possible."""
    mechanism, clients = context.mechanism, data.clients
    knobs = opening_knobs(mechanism, context.federation, weights, Streams(seed))
    turn = Turn(Terms(1, weights, knobs, clients), Streams(seed))
    bounded = mechanism.bounder.bound(mechanism.local.train(context.trainer, turn, data), turn)
    if mechanism.trust == "local":
        return -mechanism.perturber.shield(bounded, turn).message.rows.float()
    mean: Tensor = release(mechanism, turn, bounded, Vanished()).released.mean.float()
    return -mean.repeat(len(clients), 1)


def _attacked(network: Network, x: Tensor, classes: int, messages: dict[str, Tensor], seed: int) -> Inverted:
    low, high = float(x.min()), float(x.max())

    def shown(picture: Tensor) -> FloatArray:
        scaled = (picture.detach() - low) / max(high - low, 1e-12)
        return np.asarray(scaled.clamp(0, 1).numpy(), dtype=np.float64)

    attacks: tuple[InversionAttack, ...] = ("dlg", "idlg")
    found = {
        f"{attack}/{what}": shown(_search(network, gradient, x.shape, classes, attack, seed))
        for attack in attacks
        for what, gradient in messages.items()
    }
    return Inverted(shown(x), found)


def _search(
    network: Network, gradient: Tensor, shape: torch.Size, classes: int, attack: InversionAttack, seed: int
) -> Tensor:
    """Returns the picture whose gradient points the way of the one that was seen (clipping changes its length only)."""
    generator = torch.Generator().manual_seed(seed)
    picture = torch.randn(shape, generator=generator, requires_grad=True)
    guess = torch.zeros(classes)
    guess[_label(network, gradient, classes)] = 8.0
    label = guess.requires_grad_() if attack == "idlg" else torch.randn(classes, generator=generator).requires_grad_()
    free = [picture] if attack == "idlg" else [picture, label]
    target, weights = gradient / gradient.norm().clamp(min=1e-30), network.start.requires_grad_()
    search = torch.optim.LBFGS(free, lr=0.5, max_iter=20, history_size=50, line_search_fn="strong_wolfe")

    def distance() -> Tensor:
        search.zero_grad()
        loss = functional.cross_entropy(network.outputs(weights, picture[None]), label.softmax(0)[None])
        (found,) = torch.autograd.grad(loss, weights, create_graph=True)
        gap: Tensor = (found / found.norm().clamp(min=1e-12) - target).square().sum()
        gap.backward(inputs=free)
        return gap.detach()

    for _ in range(_STEPS):
        if not float(search.step(distance)) > 1e-10:
            break
    return torch.nan_to_num(picture.detach())


def _label(network: Network, gradient: Tensor, classes: int) -> int:
    """Returns the label that the gradient of the last layer's bias gives away: the only negative entry."""
    last = network.layout.unflatten(gradient)[network.layout.names[-1]]
    return int(last.argmin()) if last.shape == (classes,) else 0


def picture(found: list[Inverted], mechanism: str, path: Path) -> Path:
    """Draws one row a picture: the original, then DLG and iDLG without the mechanism, then both with it."""
    order = ("dlg/without", "idlg/without", "dlg/with", "idlg/with")
    shown = {"dlg": "DLG", "idlg": "iDLG", "without": "plain upload", "with": mechanism}
    titles = ["original", *("\n".join(shown[part] for part in name.split("/")) for name in order)]
    return save_grid(path, titles, [[one.original, *(one.found[name] for name in order)] for one in found])


def summary(found: list[Inverted]) -> dict[str, Any]:
    """Returns the mean quality of each attack."""
    names = list(found[0].found)
    qualities = [one.quality() for one in found]
    return {
        name: {
            "psnr": float(np.mean([min(99.0, quality[name]["psnr"]) for quality in qualities])),
            "ssim": float(np.mean([quality[name]["ssim"] for quality in qualities])),
        }
        for name in names
    }
