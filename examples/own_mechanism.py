"""A mechanism of your own: noise that shrinks from round to round, composed of parts that are proved already.

python examples/own_mechanism.py
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import sordino
from sordino.aggregate.plain import PlainSum
from sordino.bound.l2 import Clip
from sordino.events import GaussianDpEvent
from sordino.perturb.gaussian import CentralGaussian
from sordino.stages import Released
from sordino.terms import Knobs, Turn
from sordino.train.local import LocalSteps


class ShrinkingOptions(sordino.Options):
    """Central noise whose multiplier falls by the same factor from round to round."""

    name: Literal["shrinking"] = "shrinking"
    factor: float = 0.95


@dataclass(frozen=True)
class ShrinkingNoise:
    """The adapter: the next round's knobs follow from the round's number alone, so nothing is given away."""

    clip_norm: float
    first: float
    factor: float

    def start(self) -> Knobs:
        """Returns the knobs of the first round."""
        return self.planned(1)

    def planned(self, round_: int) -> Knobs:
        """Returns the knobs of a round, fixed beforehand."""
        return Knobs(self.clip_norm, self.first * self.factor ** (round_ - 1))

    def adapt(self, turn: Turn, released: Released, public: Mapping[str, float]) -> Knobs:
        """Returns the next round's knobs."""
        return self.planned(turn.round_ + 1)


def compose(options: ShrinkingOptions, facts: sordino.PublicFacts) -> sordino.Mechanism:
    """Puts the parts together, with noise for the whole schedule from the real accountant."""

    def history(first: float) -> Counter[GaussianDpEvent]:
        return Counter(GaussianDpEvent(first * options.factor**m) for m in range(facts.rounds))

    first = facts.target.least_noise(history)
    return sordino.Mechanism(
        name=options.name,
        mode=options.mode,
        unit="client",
        trust="central",
        selector=facts.selector,
        local=LocalSteps(),
        bounder=Clip(),
        perturber=CentralGaussian("client", "add_remove"),
        aggregator=PlainSum(facts.expected),
        adapter=ShrinkingNoise(options.clip_norm, options.noise_multiplier or first, options.factor),
    )


SPEC = sordino.MechanismSpec(ShrinkingOptions, compose, "client", "central", "central noise that shrinks every round")


def main(folder: Path) -> sordino.Outcome:
    """Registers the mechanism, and runs it by its name as any other."""
    if "shrinking" not in sordino.MECHANISMS:
        sordino.register(SPEC)
    return sordino.run(
        mechanism={"name": "shrinking", "clip_norm": 0.5},
        server={"learning_rate": 4.0},
        budget={"epsilon": 1.0},
        run={"rounds": 20},
        out=folder / "run",
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as aside:
        outcome = main(Path(aside))
        print(outcome.scores.words() if outcome.scores else "", outcome.certificate, sep="\n")
