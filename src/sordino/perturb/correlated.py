"""Gaussian noise that is correlated with the client's own last noise (fed_cad)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.client_state import ClientState, NoiseMemory, remembered
from sordino.events import CorrelatedGaussian, DpEvent, Unbounded
from sordino.mechanism import ON_GRID, Perturber, SideBounds, needs
from sordino.perturb.price import prices, realised
from sordino.random.on_grid import noisy_rows, noisy_sums
from sordino.stages import Bounded, Prices, Released, Sensitivity, Sent, Summed
from sordino.terms import Knobs, Turn
from sordino.types import Adjacency

ADAPTED = "Diff is adapted from private norms of updates, and shows in the noise that everybody can measure"

_TAIL = 100.0
"""Standard deviations by which the length of noise never exceeds its mean."""


@dataclass(frozen=True)
class CorrelatedNoise(Perturber):
    """μ_t = f_t + r_t·μ_{t−1}, with fresh noise f_t of multiplier a_t·σ, a_t = (1−r_t) + r_t·D (see `recursion`).

    **Formal guarantees**: unit client, trust local. Let u_t be a client's bounded updates, t counting its own
    participations, with ‖u_t‖ ≤ C and ‖u_t − u_{t−1}‖ ≤ D_t·C, and y_t what it sends. The new part of u_t is
    φ_t = u_t − r_t·u_{t−1} = (1−r_t)·u_t + r_t·(u_t − u_{t−1}), so ‖φ_t‖ ≤ a_t·C for 0 ≤ r_t ≤ 1. The client makes
    v_t = φ_t + f_t on a grid (`random/on_grid.py`: integers that keep the bound a_t·C, to the bit, with Gaussian noise
    of a_t·σ·C) and sends y_t = v_t + r_t·y_{t−1}, rounded to single precision, y_{t−1} being its last message as it
    left. All r_t are public, so the messages are a function of v_1, v_2, …, and the reuse is post-processing: no
    rounding of it can tell anything. Given the past, v_t is one Gaussian of multiplier σ under `zero_out` (a client
    that contributes zero throughout has φ_t = 0), and of σ/2 under `replace` (2·a_t·C apart). Participations compose
    adaptively; the randomness of local training is the same in both worlds and can be conditioned on; D_t may follow
    earlier releases. The noise μ_t = y_t − u_t follows the recursion: it is f_t + r_t·(y_{t−1} − u_{t−1}), up to
    what rounding loses (`FloatGrid.loss`).
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

    @property
    def arithmetic(self) -> str:
        return ON_GRID

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return needs(2, bound, "correlated Gaussian noise", single=True)

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        return prices("client", "local", self.adjacency, knobs.noise_multiplier, self._event)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        width, public = bounded.rows.shape[1], turn.knobs.number("difference")
        memory = NoiseMemory.recall(bounded.state or ClientState.blank(len(bounded.clients)), width, public)
        bound = memory.difference if self.private else torch.full_like(memory.difference, public)
        reuse, fresh, variance = recursion(memory.variance, bound, memory.known, clamp=not self.private)
        multiplier = turn.knobs.noise_multiplier
        stddev = multiplier * bounded.norm
        rows = (self._printed if self.private else _on_grid)(bounded, memory, turn, reuse, fresh)
        # of μ_t − μ_{t−1}, as Cov(μ_t, μ_{t−1}) = r_t·Var(μ_{t−1})
        change = variance + (1 - 2 * reuse) * memory.variance
        side = {"variance": variance[:, None], "gap": self._gap(rows, memory, change * stddev**2)}
        numbers = torch.stack([variance, self._adapted(bounded, memory, turn)], dim=1)
        # each innovation's fresh noise is in proportion to its own sensitivity, whatever the two are
        message = bounded.shielded(rows, multiplier**2, side)
        return Sent(message, state=remembered(bounded.clients, bounded.rows, rows, numbers))

    def beside(self, knobs: Knobs, width: int, records: int) -> SideBounds:
        longest = knobs.clip_norm * (1 + knobs.noise_multiplier * (math.sqrt(width) + _TAIL))
        apart = 2 * (2 * longest) ** 2  # of two messages, or of the noise in both
        return {"variance": ((0.0, 1 + 1e-6),), "gap": ((-apart, apart), (0.0, 1.0))}

    def release(self, summed: Summed, turn: Turn) -> Released:
        variance = 0.0 if summed.empty else float(summed.side["variance"])
        stddev = turn.knobs.noise_multiplier * summed.norm * math.sqrt(variance) / summed.weight
        side = {"gap": summed.side.get("gap", torch.zeros(2, dtype=torch.float64))}
        paid = realised(self, turn, summed.least_squared_multiplier)
        return Released(summed.mean(turn.weights.dtype), stddev, paid, side)

    def _event(self, noise_multiplier: float) -> DpEvent:
        return Unbounded(ADAPTED) if self.private else CorrelatedGaussian(noise_multiplier)

    def _printed(self, bounded: Bounded, memory: NoiseMemory, turn: Turn, reuse: Tensor, fresh: Tensor) -> Tensor:
        """Returns messages whose noise each client scales by its own private D: in floats, as nothing is proved."""
        noise = turn.randomness.normals("shield", turn.round_, bounded.clients, bounded.rows.shape[1])
        noise.mul_((fresh * turn.knobs.noise_multiplier * bounded.norm).float()[:, None])
        return bounded.rows + noise + (memory.message - memory.update) * reuse.float()[:, None]

    def _gap(self, rows: Tensor, memory: NoiseMemory, change: Tensor) -> Tensor:
        """Returns ‖y_t − y_{t−1}‖² less the noise's share of it, and 1, for clients that took part before."""
        apart = (rows.double() - memory.message.double()).square().sum(dim=1) - rows.shape[1] * change
        return torch.stack([apart, torch.ones_like(apart)], dim=1) * memory.known[:, None]

    def _adapted(self, bounded: Bounded, memory: NoiseMemory, turn: Turn) -> Tensor:
        """Returns each client's own next D: (1−γ)·D + γ·‖u_t − u_{t−1}‖/C, after the pull, as in the pseudo-code."""
        if not self.private:
            return memory.difference
        moved = (bounded.rows - memory.update).double().norm(dim=1) / bounded.norm
        if self.difference_stddev > 0:
            draws = turn.randomness.normals("difference", turn.round_, bounded.clients, 1)[:, 0].double()
            moved = moved + self.difference_stddev * draws
        adapted = torch.lerp(memory.difference, moved, self.obsolete).clamp(0, 1)
        return adapted.where(memory.known, memory.difference)


def _on_grid(bounded: Bounded, memory: NoiseMemory, turn: Turn, reuse: Tensor, fresh: Tensor) -> Tensor:
    """Returns the messages; clients that reuse alike, as those that took part as often, have a grid in common."""
    rows, noisy = torch.empty_like(bounded.rows), noisy_rows if bounded.stated.rowwise else noisy_sums
    for share, scale in torch.unique(torch.stack([reuse, fresh], dim=1), dim=0).tolist():
        alike = torch.nonzero((reuse == share) & (fresh == scale))[:, 0]
        keys = turn.randomness.keys("shield", turn.round_, bounded.clients[alike.numpy()])
        news = bounded.rows[alike].double() - share * memory.update[alike].double()
        made = noisy(news, scale * bounded.norm, turn.knobs.noise_multiplier, keys)
        rows[alike] = made.add_(memory.message[alike], alpha=share).to(rows.dtype)
    return rows


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
