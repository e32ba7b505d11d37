"""Draws the pictures of docs/explanation: `python docs/img/figures.py` writes them anew."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("svg")
import matplotlib.pyplot as plt
from scipy.stats import norm

from sordino.account.accountants.exact import separation_for
from sordino.report.words import best_guess

HERE = Path(__file__).parent / "explanation"
DELTA = 1e-5
TEAL, ORANGE, GREY = "#00796b", "#d9730d", "#666666"


def main() -> None:
    """Writes every picture."""
    plt.rcParams |= {
        "svg.hashsalt": "sordino",
        "svg.fonttype": "none",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    worlds()
    guesses()


def worlds() -> None:
    """With you, and without you: the same release, for three ε."""
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.6), sharey=True)
    x = np.linspace(-4, 6, 120)
    for axis, epsilon in zip(axes, (0.5, 2.0, 8.0), strict=True):
        mu = separation_for(epsilon, DELTA)
        axis.fill_between(x, norm.pdf(x), color=TEAL, alpha=0.45, label="without you")
        axis.fill_between(x, norm.pdf(x, mu), color=ORANGE, alpha=0.45, label="with you")
        axis.set_title(f"ε = {epsilon:g}: best guess right {norm.cdf(mu / 2):.0%}".replace("%", " %"), fontsize=10)
        axis.set_xlabel("what is released")
        axis.set_yticks([])
    axes[0].legend(frameon=False, fontsize=8)
    _save(figure, "worlds")


def guesses() -> None:
    """How often the best attacker guesses right: what every (ε, δ) promise allows, and what Gaussian noise allows."""
    figure, axis = plt.subplots(figsize=(6, 3.2))
    epsilons = np.linspace(0.01, 12, 200)
    axis.plot(
        epsilons, [100 * best_guess(e, DELTA) for e in epsilons], color=ORANGE, label="any (ε, δ) promise: at most"
    )
    gauss = [100 * norm.cdf(separation_for(e, DELTA) / 2) for e in epsilons]
    axis.plot(epsilons, gauss, color=TEAL, label="Gaussian noise: exactly")
    axis.axhline(50, color=GREY, linewidth=0.8, linestyle=":")
    axis.annotate("a coin", (10.6, 51), color=GREY, fontsize=8)
    axis.set(xlabel="ε (δ = 10⁻⁵)", ylabel="right guesses in %", ylim=(48, 101))
    axis.legend(frameon=False, loc="lower right")
    _save(figure, "guesses")
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0):
        exact = norm.cdf(separation_for(epsilon, DELTA) / 2)
        told = f"at most {best_guess(epsilon, DELTA):.1%}, Gaussian {exact:.1%}, e^ε = {math.exp(epsilon):.3g}"
        print(f"ε {epsilon:g}: {told}")


def _save(figure: plt.Figure, name: str) -> None:
    HERE.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(HERE / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
