"""Compares features, rounds, paths and clip norms on training records that are held out: no test record is looked at.

python -m benchmarks.held_out cifar10-eps-3 50,26000,0.1 50,34000,0.1 50,26000,0.2     # rounds,path,clip_norm each
python -m benchmarks.held_out cifar10-eps-3-scattering --epsilon 12 100,60000,0.1      # what noise costs
python -m benchmarks.held_out cifar10-eps-3 --records 11000 --held 5000 30,20000,0.1   # the first ones alone: quicker
python -m benchmarks.held_out cifar10-eps-3 --set data.feature_count=128 50,26000,0.1

A tenth of the training records (or --held of them) is held out, the rest is trained on with the noise that all of them
would get; with --records too, it is that of the whole data set. Noise is of floats, and of one draw: this ranks
settings of linear models on features, and is certified for nothing.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from scipy.optimize import brentq
from scipy.stats import norm
from torch import Tensor
from torch.nn import functional

from sordino.data import load
from sordino.data.features import FeatureSettings, cache_folder
from sordino.opening.channel_moment import packed, unpacked, whitening
from sordino.recipe import Recipe

RECIPES = Path(__file__).resolve().parent.parent / "recipes" / "best"
BLOCK = 1000


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Returns the μ of Gaussian differential privacy whose curve passes through (ε, δ)."""

    def excess(mu: float) -> float:
        return float(norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2) - delta)

    return float(brentq(excess, 1e-3, 20))


def unit(rows: Tensor) -> Tensor:
    flat = rows.flatten(1)
    return (flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-9)).view_as(rows)


def opened(x: Tensor, aside: int, recipe: Recipe, mu: float, count: int, draws: torch.Generator) -> Tensor:
    """Changes rows as the recipe's opening does, with noise for so many: mean taken away, channels turned, norm 1."""
    told, channels = recipe.opening, x.shape[1]
    if told.feature_mean:
        mean = torch.zeros(x.shape[1:], dtype=torch.float64)
        for rows in x[aside:].split(BLOCK):
            mean += rows.double().sum(0)
        noise = torch.randn(mean.shape, generator=draws, dtype=torch.float64) / (told.feature_mean * mu * count)
        mean = mean / (len(x) - aside) + noise
        for rows in x.split(BLOCK):
            rows.copy_(unit(rows - mean.float()))
    if told.channel_moment:
        moment = torch.zeros(channels, channels, dtype=torch.float64)
        for rows in x[aside:].split(BLOCK):
            places = rows.flatten(2).transpose(0, 1).reshape(channels, -1)
            moment += (places @ places.T).double()
        vector = packed(moment / (len(x) - aside))
        vector += torch.randn(len(vector), generator=draws, dtype=torch.float64) / (told.channel_moment * mu * count)
        turn = whitening(unpacked(vector, channels), told.ridge).float()
        for rows in x.split(BLOCK):
            rows.copy_(unit(torch.einsum("cd,bdp->bcp", turn, rows.flatten(2))).view_as(rows))
    return x.flatten(1)


def score(
    x: Tensor,
    y: Tensor,
    aside: int,
    noise_of: tuple[float, int],
    setting: tuple[int, float, float],
    seed: int,
) -> float:
    """Returns the share of held-out records that a linear model gets right, in percent."""
    rounds, path, clip_norm = setting
    mu, count = noise_of
    classes, draws = int(y.max()) + 1, torch.Generator().manual_seed(seed)
    weights, step = torch.zeros(x.shape[1], classes), path / (clip_norm * rounds)
    for _ in range(rounds):
        total = torch.zeros_like(weights)
        for rows, labels in zip(x[aside:].split(BLOCK), y[aside:].split(BLOCK), strict=True):
            errors = (rows @ weights).softmax(1) - functional.one_hot(labels, classes)
            errors *= (clip_norm / errors.norm(dim=1, keepdim=True)).clamp_max(1)  # rows have norm 1
            total += rows.T @ errors
        noise = torch.randn(weights.shape, generator=draws) * clip_norm * math.sqrt(rounds) / mu
        weights -= step * (total / (len(x) - aside) + noise / count)
    return float((x[:aside] @ weights).argmax(1).eq(y[:aside]).float().mean()) * 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", help="its name in recipes/best")
    parser.add_argument("settings", nargs="+", help="rounds,path,clip_norm")
    parser.add_argument("--epsilon", type=float, help="in place of the recipe's")
    parser.add_argument("--records", type=int, help="the first so many training records alone")
    parser.add_argument("--held", type=int, help="how many of these are held out (default: a tenth)")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING", help="changes the recipe")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    recipe = Recipe.load(RECIPES / f"{asked.recipe}.toml", asked.set)
    records = load(recipe.data.name, recipe.data.folder)
    y, told = records.train_y[: asked.records], recipe.data.model_dump()
    own = {name.removeprefix("feature_"): value for name, value in told.items() if name.startswith("feature_")}
    x = FeatureSettings(recipe.data.features, **own)(records.train_x[: asked.records], cache_folder(None))
    draws = torch.Generator().manual_seed(asked.seed)
    order, aside = torch.randperm(len(x), generator=draws), asked.held or len(x) // 10
    x, y = x[order], y[order]  # whoever is held out comes first
    mu, count = gaussian_mu(asked.epsilon or recipe.budget.epsilon, recipe.budget.delta), len(records.train_y)
    rows = opened(x, aside, recipe, mu, count, draws)
    left = mu * math.sqrt(1 - recipe.opening.feature_mean**2 - recipe.opening.channel_moment**2)
    for text in asked.settings:
        rounds, path, clip_norm = text.split(",")
        setting = int(rounds), float(path), float(clip_norm)
        print(f"{text}: {score(rows, y, aside, (left, count), setting, asked.seed):.2f}", flush=True)


if __name__ == "__main__":
    main()
