"""Component scales that follow how far the released model moves, component by component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sordino.mechanism import Adapter
from sordino.stages import Released
from sordino.terms import Knobs, Turn, scalar

Allocation = Literal["equal", "least_energy"]
_NOTHING = 1e-300


@dataclass(frozen=True)
class Movement(Adapter):
    """Estimates the amplitude a_m of each component from the released means, and shares the noise out by it.

    A released component is signal plus noise of a known variance n_m², so mean_m² − n_m² estimates the signal's energy
    without bias. It is smoothed over rounds (`decay`), negative estimates count as nothing, and a public floor of
    `floor` times the noise's own size is added: what is far below the noise cannot be told apart and is treated alike.
    Amplitudes are normalised to root mean square 1, so that clip_norm keeps its meaning.

    `equal`: s = a, each component's noise in proportion to its amplitude. `least_energy`: s_m² = a_m · mean(a), which
    under the same Σ (a_m/s_m)² adds the least noise in total (Cauchy–Schwarz, with equality when all a_m are equal).

    With `predict` it also says what the next step will be: the smoothed mean m̄ of released steps, shrunk by
    max(0, 1 − E‖noise of m̄‖²/‖m̄‖²) (James and Stein), since most of a noisy mean's length may be noise. Updates are
    then bounded around that step (`bound/scaled.py`), and amplitudes are those of what is left beside it.

    **Formal guarantees**: post-processing of released values and of public noise levels.
    **Edge cases**: before the first release all scales are 1; a release that is not finite changes nothing.
    """

    width: int
    clip_norm: float
    noise_multiplier: float
    allocation: Allocation = "least_energy"
    decay: float = 0.9
    floor: float = 1.0
    predict: bool = False

    def start(self) -> Knobs:
        ones = torch.ones(self.width)
        return Knobs(
            self.clip_norm,
            self.noise_multiplier,
            {
                "amplitude": ones,
                "scales": ones,
                "energy": torch.zeros(self.width),
                "smoothed": scalar(0.0),
            }
            | self._history(torch.zeros(self.width), torch.zeros(self.width), 0.0),
        )

    def adapt(self, turn: Turn, released: Released, public: Mapping[str, float]) -> Knobs:
        scales = turn.knobs["scales"].double()
        noise = released.stddev**2 * scales.square() / scales.square().mean()
        moved = released.mean.double() - (turn.knobs["predicted"].double() if self.predict else 0.0)
        energy = torch.lerp(moved.square() - noise, turn.knobs["energy"].double(), self.decay)
        if not torch.isfinite(energy).all():
            return turn.knobs
        weight = self.decay * turn.knobs.number("smoothed") + 1 - self.decay
        amplitude = _unit((energy / weight).clamp(min=0) + self.floor**2 * noise.mean())
        return turn.knobs.but(
            amplitude=amplitude.float(),
            scales=shares(amplitude, self.allocation).float(),
            energy=energy.float(),
            smoothed=scalar(weight),
        ).plus(self._prediction(turn.knobs, released, weight))

    def _prediction(self, knobs: Knobs, released: Released, weight: float) -> dict[str, Tensor]:
        """Returns the step that released ones predict, and what the next prediction needs."""
        if not self.predict:
            return {}
        mean = torch.lerp(released.mean.double(), knobs["mean_step"].double(), self.decay)
        noise = self.decay**2 * knobs.number("mean_noise") + (1 - self.decay) ** 2 * released.stddev**2 * self.width
        kept = max(0.0, 1 - noise / max(float(mean.square().sum()), _NOTHING))
        return self._history(mean * (kept / weight), mean, noise)

    def _history(self, predicted: Tensor, mean: Tensor, noise: float) -> dict[str, Tensor]:
        if not self.predict:
            return {}
        return {"predicted": predicted.float(), "mean_step": mean.float(), "mean_noise": scalar(noise)}


def shares(amplitude: Tensor, allocation: Allocation) -> Tensor:
    """Returns scales s with Σ (a_m/s_m)² = d: the printed equal split, or the one of least total noise."""
    return amplitude if allocation == "equal" else (amplitude * amplitude.mean()).sqrt()


def _unit(energy: Tensor) -> Tensor:
    """Returns amplitudes of root mean square 1; all alike where there is no energy at all."""
    mean = energy.mean()
    # no component is ever left without noise: at most a million times less than the others
    return (energy / mean).clamp(min=1e-12).sqrt() if mean > 0 else torch.ones_like(energy)
