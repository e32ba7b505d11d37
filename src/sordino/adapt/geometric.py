"""Noise whose variance is a geometric series over the rounds, and its refinement when the loss stops falling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.adapt.refine import Refit
from sordino.mechanism import Adapter
from sordino.stages import Released
from sordino.terms import Knobs, Turn, scalar


def relative(theta: float, round_: int) -> float:
    """Returns θ^((m−1)/2): noise of round m over that of the first. Reference: Yuan et al., Eq. (6)."""
    return math.exp((round_ - 1) / 2 * math.log(theta))


@dataclass(frozen=True)
class Geometric(Adapter):
    """The noise multiplier of round m is level · θ^((m−1)/2), for `rounds` rounds.

    With a `refit`, whenever the loss on public data (of the model that a round began with) stops falling, the number of
    rounds M becomes ⌈shrink·M⌉ and the level is found again for the rounds that are left; the run ends with the knob
    `last_round`.

    **Formal guarantees**: without `refit` the schedule is fixed beforehand. With it, the next noise follows released
    models and public data, which a privacy filter pays for (`adapt/refine.py`).
    **Edge cases**: a schedule that would have to end in the past, or has nothing left to spend, ends now; a loss that
    is not finite has not fallen; a round that nobody scored changes nothing. θ may lie below, at or above 1.
    **Reference**: Yuan et al., Eq. (6), §III-D and Theorem 2.
    """

    clip_norm: float
    level: float
    theta: float
    rounds: int
    shrink: float = 1.0
    refit: Refit | None = None

    def start(self) -> Knobs:
        return Knobs(
            self.clip_norm,
            self.level,
            {
                "level": scalar(self.level),
                "last_round": scalar(self.rounds),
                "loss": scalar(math.inf),
                "past": torch.empty(0, dtype=torch.float64),
            },
        )

    def planned(self, round_: int) -> Knobs:
        return self.start().but(noise_multiplier=self.level * relative(self.theta, round_))

    def adapt(self, turn: Turn, released: Released, public: Mapping[str, float]) -> Knobs:
        past = torch.cat([turn.knobs["past"], scalar(turn.knobs.noise_multiplier).reshape(1)])
        knobs = turn.knobs.but(past=past)
        if self.refit is not None:
            knobs = knobs.plus(self._refined(turn, past.tolist(), public))
        return knobs.but(noise_multiplier=knobs.number("level") * relative(self.theta, turn.round_ + 1))

    def _refined(self, turn: Turn, past: list[float], public: Mapping[str, float]) -> dict[str, Tensor]:
        if "loss" not in public:
            return {}
        loss, before = public["loss"], turn.knobs.number("loss")
        seen = {"loss": scalar(loss if math.isfinite(loss) else before)}
        if loss < before:
            return seen
        last = max(turn.round_, math.ceil(round(self.shrink * turn.knobs.number("last_round"), 9)))
        shape = [relative(self.theta, m) for m in range(turn.round_ + 1, last + 1)]
        level = self.refit.level(past, shape) if self.refit is not None and shape else None
        if level is None:
            return {**seen, "last_round": scalar(turn.round_)}
        return {**seen, "last_round": scalar(last), "level": scalar(level)}
