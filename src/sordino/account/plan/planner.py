"""The planner: state what you know about a run; what you left open follows from the real accountant.

One of ε, δ, noise multiplier, rounds, cohort and population may be left open. (A cohort is chosen to reach a
signal-to-noise ratio, and may be left open together with the noise.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sordino.account.accountants.accountant import price
from sordino.account.accountants.calibrate import largest_rounds, noise_multiplier_for
from sordino.account.plan.scenario import Scenario
from sordino.errors import AccountingError

__all__ = ["Plan", "Scenario", "solve", "trade_off", "with_noise"]

_SOLVABLE = ("epsilon", "delta", "noise_multiplier", "rounds", "cohort", "population")
_LARGEST = 10**9


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
    unknown = [name for name in _SOLVABLE if getattr(scenario, name) is None]
    match unknown:
        case ["epsilon"] | ["delta"]:
            full = scenario
        case ["population"]:
            full = replace(scenario, population=_population(scenario, accountant))
        case ["noise_multiplier"]:
            full = with_noise(scenario, accountant)
        case ["rounds"]:
            full = replace(scenario, rounds=_rounds(scenario, accountant))
        case ["cohort", *_] | [*_, "cohort"] if set(unknown) <= {"cohort", "noise_multiplier"}:
            full = with_noise(replace(scenario, cohort=_cohort(scenario, signal_to_noise)), accountant)
        case _:
            known = ", ".join(unknown) or "nothing"
            raise AccountingError(
                "leave one of epsilon, delta, noise-multiplier, rounds, population open, or cohort (with the noise); "
                f"open now: {known.replace('_', '-')}"
            )
    curve = price(full.history(), accountant, full.relation)
    if full.delta is None:
        full = replace(full, delta=max(curve.delta(full.epsilon or 0.0), 1e-300))
    solved = "cohort" if "cohort" in unknown else unknown[0]
    reached = full.epsilon if solved == "delta" and full.epsilon is not None else curve.epsilon(full.delta or 0.0)
    return Plan(full, solved, reached, curve.accountant, curve.note)


def with_noise(scenario: Scenario, accountant: str) -> Scenario:
    """Returns the scenario with the least noise that keeps its budget."""
    assert scenario.epsilon is not None and scenario.delta is not None
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
    assert scenario.epsilon is not None and scenario.delta is not None
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


def _population(scenario: Scenario, accountant: str) -> int:
    """Returns the smallest population in which drawing the cohort hides enough."""
    cohort, epsilon, delta = scenario.cohort, scenario.epsilon, scenario.delta
    assert cohort is not None and epsilon is not None and delta is not None

    def fits(population: int) -> bool:
        tried = replace(scenario, population=population)
        return price(tried.history(), accountant, tried.relation).epsilon(delta) <= epsilon

    high = cohort
    while not fits(high):
        high *= 2
        if high > _LARGEST:
            raise AccountingError(
                f"no population up to {_LARGEST} hides a cohort of {cohort} well enough: add noise or epsilon"
            )
    low = high // 2 if high > cohort else cohort - 1
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _cohort(scenario: Scenario, target: float) -> int:
    """Returns the smallest cohort whose released mean reaches the ratio; everybody when none does."""

    def reaches(cohort: int) -> bool:
        tried = replace(scenario, cohort=cohort)
        return (tried if scenario.noise_multiplier else with_noise(tried, "rdp")).signal_to_noise >= target

    everybody = scenario.population
    assert everybody is not None
    if not reaches(everybody):
        return everybody  # the best there is; the plan warns that the noise drowns the signal
    low, high = 0, everybody
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high
