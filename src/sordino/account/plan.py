"""The planner: state what you know about a run; what you left open follows from the real accountant.

Exactly one of ε, noise multiplier, rounds and cohort may be left open (the cohort is chosen to reach a signal-to-noise
ratio). What a run looks like to an observer is put into events here in the same way as a run does it:

* an outsider sees sums of Poisson-sampled cohorts: `rounds` sampled Gaussians;
* a server sees who takes part: one Gaussian for each of the client's own participations, no amplification;
* a record is hidden by secret batches inside its client, from both: `steps` sampled Gaussians a participation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy.stats import binom

from sordino.account.accountant import price, require_delta, require_epsilon
from sordino.account.calibrate import largest_rounds, noise_multiplier_for
from sordino.account.history import History
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
        batch: records of one batch (record unit), which divide the noise of a step.
        adjacency: None for what fits the observer: add_remove for an outsider, zero_out for a server.
    """

    population: int
    delta: float
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
        require_delta(self.delta)
        if self.epsilon is not None and require_epsilon(self.epsilon) == 0:
            raise AccountingError("epsilon must be above 0: nothing useful can be released at 0")
        for name in ("population", "cohort", "rounds", "noise_multiplier", "clip_norm", "parameters", "steps", "batch"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise AccountingError(f"{name} {value} must be finite and above 0")
        if self.cohort is not None and self.cohort > self.population:
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
    def relation(self) -> Adjacency:
        """The adjacency in force."""
        return self.adjacency or ("add_remove" if self.observer == "outsider" else "zero_out")

    @property
    def uploads(self) -> int:
        """How often the busiest client takes part: the cap, or what in expectation less than one client exceeds."""
        if self.participations is not None:
            return min(self.participations, self.rounds or self.participations)
        rate = (self.cohort or self.population) / self.population
        return max(1, int(binom.isf(1 / self.population, self.rounds or 1, rate)))

    def history(self) -> History:
        """Returns what the run releases about one unit."""
        noise = GaussianDpEvent(self.noise_multiplier or 0.0)
        if self.unit == "record":
            return {_sampled(self.record_rate, noise): self.uploads * self.steps}
        if self.observer == "server" or self.trust == "local":
            # Under local trust an outsider sees a function of what the server sees, and is priced like it.
            return {noise: self.uploads}
        return {_sampled((self.cohort or self.population) / self.population, noise): self.rounds or 1}

    @property
    def stddev(self) -> float:
        """Noise standard deviation on each coordinate of the released mean."""
        arrived = (self.cohort or self.population) * (1 - self.dropout)
        scale = (self.noise_multiplier or 0.0) * self.clip_norm * (2 if self.relation == "replace" else 1)
        if self.unit == "record":
            return scale / self.batch / math.sqrt(arrived)
        return scale / math.sqrt(arrived) if self.trust == "local" else scale / arrived

    @property
    def signal_to_noise(self) -> float:
        """Largest possible norm of the released mean over the expected norm of its noise."""
        signal = self.clip_norm / self.batch if self.unit == "record" else self.clip_norm
        noise = self.stddev * math.sqrt(self.parameters)
        return signal / noise if noise else math.inf

    @property
    def warning(self) -> str:
        """Words where the noise drowns the signal, else nothing."""
        ratio = self.signal_to_noise
        if ratio >= 1:
            return ""
        larger = "a larger cohort, " if (self.cohort or self.population) < self.population else ""
        return (
            f"the noise on the released mean is {1 / ratio:.3g} times as long as the longest possible update "
            f"({self.parameters} parameters): take {larger}fewer rounds or parameters, or more epsilon"
        )


@dataclass(frozen=True)
class Plan:
    """A scenario with nothing left open, and who computed it."""

    scenario: Scenario
    solved: str
    epsilon: float
    accountant: str
    note: str


def solve(scenario: Scenario, accountant: str = "pld", signal_to_noise: float = 1.0) -> Plan:
    """Fills in what the scenario leaves open.

    Raises:
        AccountingError: more or less than one thing is open, or the budget cannot be met.
    """
    unknown = [name for name in ("epsilon", "noise_multiplier", "rounds", "cohort") if getattr(scenario, name) is None]
    match unknown:
        case ["epsilon"]:
            full = scenario
        case ["noise_multiplier"]:
            full = with_noise(scenario, accountant)
        case ["rounds"]:
            full = replace(scenario, rounds=_rounds(scenario, accountant))
        case ["cohort", *_] | [*_, "cohort"] if set(unknown) <= {"cohort", "noise_multiplier"}:
            full = with_noise(replace(scenario, cohort=_cohort(scenario, signal_to_noise)), accountant)
        case _:
            known = ", ".join(unknown) or "nothing"
            raise AccountingError(
                "leave one of epsilon, noise-multiplier and rounds open, or cohort (with the noise): "
                f"open now: {known.replace('_', '-')}"
            )
    curve = price(full.history(), accountant, full.relation)
    solved = "cohort" if "cohort" in unknown else unknown[0]
    return Plan(full, solved, curve.epsilon(full.delta), curve.accountant, curve.note)


def with_noise(scenario: Scenario, accountant: str) -> Scenario:
    """Returns the scenario with the least noise that keeps its budget."""
    assert scenario.epsilon is not None
    noise = noise_multiplier_for(
        scenario.epsilon,
        scenario.delta,
        lambda z: replace(scenario, noise_multiplier=z).history(),
        accountant,
        scenario.relation,
    )
    return replace(scenario, noise_multiplier=noise)


def trade_off(scenario: Scenario, rounds: list[int], cohorts: list[int]) -> list[Scenario]:
    """Returns the calibrated scenario of every pair, priced by `rdp` (fast, and never too low)."""
    pairs = [(r, c) for c in cohorts for r in rounds]
    return [with_noise(replace(scenario, rounds=r, cohort=c), "rdp") for r, c in pairs]


def _rounds(scenario: Scenario, accountant: str) -> int:
    assert scenario.epsilon is not None
    found = largest_rounds(
        scenario.epsilon,
        scenario.delta,
        lambda rounds: replace(scenario, rounds=rounds).history(),
        accountant,
        scenario.relation,
        limit=1_000_000,
    )
    if found == 0:
        raise AccountingError("not even one round fits this budget: add noise or epsilon")
    return found


def _cohort(scenario: Scenario, target: float) -> int:
    """Returns the smallest cohort whose released mean reaches the ratio; everybody when none does."""

    def reaches(cohort: int) -> bool:
        tried = replace(scenario, cohort=cohort)
        return (tried if scenario.noise_multiplier else with_noise(tried, "rdp")).signal_to_noise >= target

    if scenario.epsilon is None:
        raise AccountingError("a cohort is found for an epsilon: give one")
    if not reaches(scenario.population):
        return scenario.population  # the best there is; the plan warns that the noise drowns the signal
    low, high = 0, scenario.population
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def _sampled(rate: float, event: DpEvent) -> DpEvent:
    return event if rate == 1 else PoissonSampledDpEvent(rate, event)
