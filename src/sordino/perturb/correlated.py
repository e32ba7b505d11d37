"""Gaussian noise that is correlated with the client's own last noise (fed_cad)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.events import CorrelatedGaussian, DpEvent, Unbounded
from sordino.mechanism import Prices, Turn
from sordino.memory import Memory, remember
from sordino.perturb.price import prices
from sordino.stages import Bounded, Released, Shielded, Summed
from sordino.types import Adjacency, IntArray

ADAPTED = "Diff is adapted from private norms of updates, and shows in the noise that everybody can measure"


@dataclass(frozen=True)
class CorrelatedNoise:
    """μ_t = f_t + r_t·μ_{t−1}, with fresh noise f_t of multiplier a_t·σ, a_t = (1−r_t) + r_t·D (see `recursion`).

    **Formal guarantees**: unit client, trust local. Let u_t be a client's bounded updates, t counting its own
    participations, with ‖u_t‖ ≤ C and ‖u_t − u_{t−1}‖ ≤ D_t·C, and y_t = u_t + μ_t what it sends. Since all r_t are
    public, (y_1, …, y_t) is a bijection of (y_1, y_2 − r_2·y_1, …), and
    y_t − r_t·y_{t−1} = φ_t + f_t with φ_t = (1−r_t)·u_t + r_t·(u_t − u_{t−1}), so ‖φ_t‖ ≤ a_t·C for 0 ≤ r_t ≤ 1.
    A client that contributes zero throughout (`zero_out`) has φ_t = 0; another that replaces it (`replace`) is at most
    2·a_t·C away. f_t is independent of everything earlier and has standard deviation a_t·σ·C. So, given the past, each
    participation is one Gaussian of multiplier σ (`zero_out`) or σ/2 (`replace`), and they compose adaptively; the
    randomness of local training is the same in both worlds and can be conditioned on. D_t may follow earlier releases.
    **Edge cases**: a client without memory, or that lost it, sends fresh noise alone (r = 0), which costs the same;
    with D = 1 this is `LocalGaussian` to the bit.
    **Reference**: Fed-CAD, Algorithm 1, lines 14 to 18 and 25; Bao et al. (2021), "CGM".
    """

    adjacency: Adjacency = "zero_out"
    private: bool = False
    """Each client adapts its own D from private norms, as printed: then nothing is proved."""
    obsolete: float = 0.0
    """γ of the private adaptation."""
    difference_stddev: float = 0.0
    """Noise on a privately adapted D, which the text has and the pseudo-code has not."""

    def shield(self, bounded: Bounded, turn: Turn) -> Shielded:
        width, public = bounded.rows.shape[1], turn.knob("difference")
        memory = Memory.recall(turn.store, bounded.clients, width, public)
        bound = memory.difference if self.private else torch.full_like(memory.difference, public)
        reuse, fresh, variance = recursion(memory.variance, bound, memory.known, clamp=not self.private)
        stddev = turn.knob("noise_multiplier") * turn.knob("clip_norm")
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, width)
        noise = noise.mul_((fresh * stddev).float()[:, None]).add_(memory.noise * reuse.float()[:, None])
        rows = bounded.rows + noise
        change = (
            variance + (1 - 2 * reuse) * memory.variance
        )  # of μ_t − μ_{t−1}, as Cov(μ_t, μ_{t−1}) = r_t·Var(μ_{t−1})
        side = {"variance": variance[:, None], "gap": self._gap(rows, memory, change * stddev**2)}
        numbers = torch.stack([variance, self._adapted(bounded, memory, turn)], dim=1)
        remember(turn.store, bounded.clients, bounded.rows, noise, numbers)
        return Shielded(bounded.clients, rows, bounded.weights, side)

    def reveal(self, message: Shielded, survivors: IntArray, turn: Turn) -> Tensor | None:
        return None

    def release(self, summed: Summed, turn: Turn) -> Released:
        each = turn.knob("noise_multiplier") * turn.knob("clip_norm")
        variance = float(summed.side["variance"]) if len(summed.survivors) else 0.0
        side = {"gap": summed.side.get("gap", torch.zeros(2, dtype=torch.float64))}
        return Released(summed.total / summed.weight, each * math.sqrt(variance) / summed.weight, side)

    def price(self, turn: Turn) -> Prices:
        def event(z: float) -> DpEvent:
            return Unbounded(ADAPTED) if self.private else CorrelatedGaussian(z)

        return prices("client", "local", self.adjacency, turn.knob("noise_multiplier"), event)

    def _gap(self, rows: Tensor, memory: Memory, change: Tensor) -> Tensor:
        """Returns ‖y_t − y_{t−1}‖² less the noise's share of it, and 1, for clients that took part before."""
        apart = (rows - memory.update - memory.noise).double().square().sum(dim=1) - rows.shape[1] * change
        return torch.stack([apart, torch.ones_like(apart)], dim=1) * memory.known[:, None]

    def _adapted(self, bounded: Bounded, memory: Memory, turn: Turn) -> Tensor:
        """Returns each client's own next D: (1−γ)·D + γ·‖u_t − u_{t−1}‖/C, after the pull, as in the pseudo-code."""
        if not self.private:
            return memory.difference
        moved = (bounded.rows - memory.update).double().norm(dim=1) / turn.knob("clip_norm")
        if self.difference_stddev > 0:
            draws = turn.randomness.normals("difference", turn.round_, bounded.clients, 1)[:, 0].double()
            moved = moved + self.difference_stddev * draws
        adapted = torch.lerp(memory.difference, moved, self.obsolete).clamp(0, 1)
        return adapted.where(memory.known, memory.difference)


def recursion(variance: Tensor, difference: Tensor, known: Tensor, clamp: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (r_t, a_t, v_t) from v_{t−1} and D: how much noise is reused, how much is fresh, and its variance.

    r_t = (1−D)/((1−D)² + v_{t−1}) makes v_t = a_t² + r_t²·v_{t−1} least; for a constant D this is the paper's
    v_t = v_{t−1}/((1−D)² + v_{t−1}) = (2D − D²)/(1 − (1−D)^{2t}).

    **Edge cases**: newcomers have r = 0, a = 1, v = 1. When D has grown since, the formula can ask for r above 1, where
    ‖φ‖ ≤ a·C no longer follows: `clamp` takes r = 1 instead, which is then the least variance that is allowed.
    """
    apart = 1 - difference
    reuse = apart / (apart.square() + variance).clamp(min=1e-300)
    reuse = reuse.clamp(max=1.0) if clamp else reuse
    reuse = reuse.where(known, torch.zeros_like(reuse))
    fresh = 1 - reuse * apart
    after = fresh.square() + reuse.square() * variance
    return reuse, fresh, after
