"""What is allowed and seldom meant: one sentence each, said before a run begins. All of it follows from public numbers.

**Reference**: NIST SP 800-226 (2025), on ε, on δ, and on the unit of privacy.
"""

from __future__ import annotations

import math

from sordino.advise.outlook import Outlook
from sordino.types import Unit

LARGE_EPSILON = 10.0
"""A budget above this is called large."""
_SURE = 20.0
"""Above this nobody would call a guess a guess: it is wrong less than once in 400 million times."""
FEW_CLIENTS = 10
"""Fewer clients as units than this are called few."""


def cautions(
    unit: Unit, clients: int, records: float, epsilon: float | None, delta: float, expected: Outlook | None = None
) -> list[str]:
    """Returns a sentence for everything about a run that should be known before it is played.

    Args:
        unit: who is protected.
        clients: declared clients.
        records: declared records of all clients together.
        epsilon: the budget; None for a run without one.
        delta: the budget.
        expected: signal and noise of a round, where they are known.
    """
    told = [
        _delta(unit, clients if unit == "client" else records, delta),
        _epsilon(epsilon),
        _few(unit, clients),
        _noise(expected),
    ]
    return [sentence for sentence in told if sentence]


def _delta(unit: Unit, units: float, delta: float) -> str:
    if delta * units < 1:
        return ""
    return (
        f"budget.delta = {delta:g} is not below 1/{units:,.10g}, one over the number of {unit}s: publishing one {unit} "
        f"as it is would be within it; set budget.delta to {0.1 / units:.1g} or less"
    )


def _epsilon(epsilon: float | None) -> str:
    if epsilon is None or epsilon <= LARGE_EPSILON:
        return ""
    right = "always be right" if epsilon > _SURE else f"be wrong only once in {1 + math.exp(epsilon):,.0f} times"
    return (
        f"budget.epsilon = {epsilon:g} promises little: somebody who guesses whether one unit took part may {right}; "
        f"set budget.epsilon to {LARGE_EPSILON:g} or less"
    )


def _few(unit: Unit, clients: int) -> str:
    if unit != "client" or clients >= FEW_CLIENTS:
        return ""
    return (
        f"whole clients are protected and there {'is' if clients == 1 else 'are'} only {clients}: noise must "
        f"hide 1/{clients} of every sum, and "
        'leaves little of it; protect records instead (mechanism.name = "dp_sgd"), or find more clients'
    )


def _noise(expected: Outlook | None) -> str:
    if expected is None or expected.signal_to_noise >= 1:
        return ""
    return (
        f"the noise of a round is {1 / expected.signal_to_noise:.3g} times as long as the longest possible update "
        f"({expected.parameters:,} parameters): take fewer rounds (run.rounds), a smaller model, more clients or "
        "records in a round, or a larger budget.epsilon; `sordino advise` computes which"
    )
