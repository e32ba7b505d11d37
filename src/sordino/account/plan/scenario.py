"""What is known about a run, and what that means to an observer, put into events as a run does it.

* An outsider sees sums of Poisson-sampled cohorts: `rounds` sampled Gaussians.
* A server sees who takes part: one Gaussian for each of the client's own participations, no amplification.
* A record is hidden by secret batches inside its client, from both: `steps` sampled Gaussians a participation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import binom

from sordino.account.accountants.accountant import require_delta, require_epsilon
from sordino.account.accountants.history import History
from sordino.errors import AccountingError
from sordino.events import DpEvent, GaussianDpEvent, PoissonSampledDpEvent
from sordino.types import Adjacency, Observer, Trust, Unit


@dataclass(frozen=True)
class Scenario:
    """What is known about a run; None marks what the planner should find.

    Attributes:
        population: clients of the federation.
        cohort: expected clients of one round; each is drawn with probability cohort/population.
        rounds: releases.
        noise_multiplier: noise over sensitivity: of the sum (central, distributed), of each message (local), or of each
            step's batch (record unit).
        epsilon: the budget.
        delta: the budget.
        dropout: share of a cohort whose message does not arrive.
        clip_norm: L2 bound on one contribution.
        unit: who is protected.
        observer: from whom.
        trust: who adds noise.
        parameters: model size d.
        participations: how often one client may take part (server); None for what all but one client stay below.
        record_rate: share of a client's records in one batch (record unit).
        steps: batches of one participation (record unit).
        batch: records that one client has in a batch (record unit): their mean divides the noise of a step.
        adjacency: None for what fits the observer: add_remove for an outsider, zero_out for a server.
    """

    population: int | None
    delta: float | None
    cohort: int | None = None
    rounds: int | None = None
    noise_multiplier: float | None = None
    epsilon: float | None = None
    dropout: float = 0.0
    clip_norm: float = 1.0
    unit: Unit = "client"
    observer: Observer = "outsider"
    trust: Trust = "distributed"
    parameters: int = 10_000
    participations: int | None = None
    record_rate: float = 1.0
    steps: int = 1
    batch: int = 1
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        if self.delta is not None:
            require_delta(self.delta)
        if self.epsilon is not None and require_epsilon(self.epsilon) == 0:
            raise AccountingError("epsilon must be above 0: nothing useful can be released at 0")
        for name in ("population", "cohort", "rounds", "noise_multiplier", "clip_norm", "parameters", "steps", "batch"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise AccountingError(f"{name} {value} must be finite and above 0")
        if self.cohort is not None and self.population is not None and self.cohort > self.population:
            raise AccountingError(f"cohort {self.cohort} must not exceed the population {self.population}")
        if not 0 <= self.dropout < 1:
            raise AccountingError(f"dropout {self.dropout} must lie in [0, 1)")
        if not 0 < self.record_rate <= 1:
            raise AccountingError(f"record_rate {self.record_rate} must lie in (0, 1]")
        if self.trust == "central" and self.observer == "server":
            raise AccountingError(
                "trust 'central' promises nothing against the server: plan for the observer 'outsider'"
            )

    @property
    def rate(self) -> float:
        """Chance of being drawn in a round; 1 when everybody takes part."""
        return self.cohort / self.population if self.cohort and self.population else 1.0

    @property
    def asked(self) -> int:
        """Expected clients of one round: the cohort, or everybody."""
        return self.cohort or self.population or 1

    @property
    def relation(self) -> Adjacency:
        """The adjacency in force."""
        return self.adjacency or ("add_remove" if self.observer == "outsider" else "zero_out")

    @property
    def uploads(self) -> int:
        """How often the busiest client takes part: the cap, or what in expectation less than one client exceeds."""
        if self.participations is not None:
            return min(self.participations, self.rounds or self.participations)
        return max(1, int(binom.isf(1 / (self.population or self.asked), self.rounds or 1, self.rate)))

    def history(self) -> History:
        """Returns what the run releases about one unit."""
        noise = GaussianDpEvent(self.noise_multiplier or 0.0)
        if self.unit == "record":
            return {_sampled(self.record_rate, noise): self.uploads * self.steps}
        if self.observer == "server" or self.trust == "local":
            # Under local trust an outsider sees a function of what the server sees, and is priced like it.
            return {noise: self.uploads}
        return {_sampled(self.rate, noise): self.rounds or 1}

    @property
    def stddev(self) -> float:
        """Noise standard deviation on each coordinate of the released mean.

        For records, of a mean gradient: under local trust, of the sum of a client's steps with learning rate 1.
        """
        arrived = self.asked * (1 - self.dropout)
        scale = (self.noise_multiplier or 0.0) * self.clip_norm * (2 if self.relation == "replace" else 1)
        if self.unit == "record":
            scale *= math.sqrt(self.steps) / self.batch
        return scale / math.sqrt(arrived) if self.trust == "local" else scale / arrived

    @property
    def signal_to_noise(self) -> float:
        """Largest possible norm of the released mean over the expected norm of its noise."""
        signal = self.clip_norm * self.steps if self.unit == "record" else self.clip_norm
        noise = self.stddev * math.sqrt(self.parameters)
        return signal / noise if noise else math.inf

    @property
    def audible(self) -> int:
        """The most parameters at which the noise is not longer than the longest possible update."""
        return int(self.parameters * min(self.signal_to_noise, 1e9) ** 2)

    @property
    def warning(self) -> str:
        """Words where the noise drowns the signal, else nothing."""
        ratio = self.signal_to_noise
        if ratio >= 1:
            return ""
        larger = "a larger cohort, " if self.rate < 1 else ""
        return (
            f"the noise on the released mean is {1 / ratio:.3g} times as long as the longest possible update "
            f"({self.parameters} parameters): take {larger}fewer rounds or parameters, or more epsilon"
        )


def _sampled(rate: float, event: DpEvent) -> DpEvent:
    return event if rate == 1 else PoissonSampledDpEvent(rate, event)
