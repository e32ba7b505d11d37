"""From the events in a certificate to its numbers: what makes them is what checks them, without run or ledger."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import attrs

from sordino.account.accountants.accountant import Curve, price
from sordino.account.accountants.filter import admits, named
from sordino.account.accountants.tradeoff import RATES, fit, tradeoff
from sordino.account.ledger.pricing import highest
from sordino.errors import LedgerError
from sordino.events import (
    ComposedDpEvent,
    CorrelatedGaussian,
    DiscreteGaussian,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    SelfComposedDpEvent,
    Skellam,
    Unbounded,
    decode,
)
from sordino.types import Adjacency

CURVE_DELTAS: tuple[float, ...] = (*(float(f"{m}e-{k}") for k in range(9, 3, -1) for m in (1, 3)), 1e-3)
PROFILE_EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0)
_POINTS = 160

Encoded = tuple[tuple[Mapping[str, Any], int], ...]
"""A history: events as plain JSON, and how often each was charged."""


@dataclass(frozen=True)
class Proof:
    """All that a promise follows from.

    Attributes:
        histories: what was charged; the promise is the highest curve of them.
        accountant: who prices.
        adjacency: under which neighbours the events are priced.
        taken_out: the part of δ that covers an end of the run that coins could decide.
        budget: the ε (at `budget_delta`) that the ledger let nobody exceed, where that is what is promised.
        filter: the privacy filter that admitted the releases one by one, with its ε and δ.
        group: 2 where the change is made in two steps of the proof's own adjacency (replace by way of silence).
    """

    histories: tuple[Encoded, ...]
    accountant: str
    adjacency: Adjacency
    taken_out: float = 0.0
    budget: float | None = None
    budget_delta: float | None = None
    filter: str = ""
    filter_epsilon: float | None = None
    filter_delta: float | None = None
    group: int = 1


@dataclass(frozen=True)
class Numbers:
    """A privacy curve in the numbers that people compare. None is infinite."""

    epsilon: float | None
    curve: tuple[tuple[float, float | None], ...]
    """ε at each of several δ."""
    profile: tuple[tuple[float, float], ...]
    """δ at each of several ε."""
    mu: float | None
    """μ of the smallest Gaussian curve that is nowhere below this one."""
    regret: float
    """What is lost by telling μ alone; from 0.01 on, read the profile."""
    advantage: float
    """The largest true-positive minus false-positive rate of any attack."""
    false_negative_rates: tuple[tuple[float, float], ...]
    """At each false-positive rate, the least false-negative rate of any attack."""
    answered: str
    """The accountant that answered."""
    note: str
    reason: str
    """Why ε is infinite, where it is."""


def numbers(proof: Proof, delta: float) -> Numbers:
    """Returns what a proof comes to at δ."""
    curve = curve_of(proof)
    found = tradeoff(curve, points=_POINTS)
    gauss = fit(found)
    return Numbers(
        epsilon=finite(curve.epsilon(delta)),
        curve=tuple((d, finite(curve.epsilon(d))) for d in CURVE_DELTAS),
        profile=tuple((e, min(1.0, curve.delta(e))) for e in PROFILE_EPSILONS),
        mu=finite(gauss.mu),
        regret=gauss.regret,
        advantage=found.advantage,
        false_negative_rates=tuple((rate, found.false_negative_rate(rate)) for rate in RATES),
        answered=curve.accountant,
        note=curve.note,
        reason=curve.reason or "",
    )


def curve_of(proof: Proof) -> Curve:
    """Returns the privacy curve that a proof gives.

    Raises:
        LedgerError: the proof contradicts itself (a filter that does not admit what was charged, an unknown filter).
    """
    histories = [_decoded(history) for history in proof.histories]
    if not histories:
        raise LedgerError("a promise without events proves nothing: make the certificate anew")
    if proof.filter:
        curve = _filtered(proof, histories)
    else:
        curves = [price(history, proof.accountant, proof.adjacency) for history in histories]
        curve = curves[0] if len(curves) == 1 else highest(curves)
    if proof.budget is not None and proof.budget_delta is not None:
        curve = _capped(curve, proof.budget, proof.budget_delta)
    if not 0 <= proof.taken_out < 1:
        raise LedgerError(f"the certificate takes {proof.taken_out:g} out of δ: it contradicts itself")
    if proof.taken_out:
        curve = taken_out(curve, proof.taken_out)
    return _pair(curve) if proof.group == 2 else curve


def _decoded(history: Encoded) -> Counter[DpEvent]:
    """Returns a history as it was charged: an event that is listed twice counts twice."""
    total: Counter[DpEvent] = Counter()
    for event, count in history:
        if count < 1:
            raise LedgerError(f"an event that was charged {count} times proves nothing: make the certificate anew")
        total[decode(event)] += int(count)
    return total


def _filtered(proof: Proof, histories: list[Counter[DpEvent]]) -> Curve:
    chosen = named(proof.filter, float(proof.filter_epsilon or 0), float(proof.filter_delta or 0))
    if chosen is None:
        raise LedgerError(f"the certificate names a filter {proof.filter!r} that this version does not know")
    if not all(admits(chosen, history, proof.adjacency) for history in histories):
        raise LedgerError(f"the {proof.filter} does not admit what was released: the certificate contradicts itself")
    return Curve(chosen.name, chosen.promised, lambda epsilon: _inverse(chosen.promised, epsilon), FILTERED)


FILTERED = "the noise followed released values, so the promise is the filter's, whatever path the run took"
"""What is noted of a promise that a filter makes."""


def _inverse(epsilon_of: Callable[[float], float], epsilon: float) -> float:
    """Returns the smallest δ whose ε is at most this (from above, to six digits)."""
    low, high = -30.0, 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if epsilon_of(min(10**middle, 1 - 1e-12)) <= epsilon else (middle, high)
    return min(1.0, float(10**high))


def _capped(curve: Curve, budget: float, delta: float) -> Curve:
    """Returns the curve where a ledger let nobody exceed (budget, δ): of two bounds the better one, at every point."""
    return Curve(
        curve.accountant,
        lambda d: min(curve.epsilon(d), budget) if d >= delta else curve.epsilon(d),
        lambda e: min(curve.delta(e), delta) if e >= budget else curve.delta(e),
        curve.note,
        curve.reason,
    )


def taken_out(curve: Curve, chance: float) -> Curve:
    """Returns the curve when `chance` of δ is needed for something else."""
    return Curve(
        curve.accountant,
        lambda delta: curve.epsilon(delta - chance) if delta > chance else math.inf,
        lambda epsilon: min(1.0, curve.delta(epsilon) + chance),
        "; ".join(filter(None, [curve.note, f"{chance:.3g} of δ covers an end of the run that coins could decide"])),
        curve.reason,
    )


def _pair(curve: Curve) -> Curve:
    """Returns the curve of two steps: δ₂(2ε) ≤ (1 + e^ε)·δ(ε) (group privacy)."""

    def delta_of(epsilon: float) -> float:
        return 1.0 if epsilon > 1400 else min(1.0, (1 + math.exp(epsilon / 2)) * curve.delta(epsilon / 2))

    def epsilon_of(delta: float) -> float:
        low, high = 0.0, 1.0
        while delta_of(high) > delta:
            low, high = high, high * 2
            if high > 1400:
                return math.inf
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if delta_of(middle) <= delta else (middle, high)
        return high

    words = "by group privacy: out of the sum and back in as something else"
    return Curve(curve.accountant, epsilon_of, delta_of, "; ".join(filter(None, [curve.note, words])), curve.reason)


def finite(value: float) -> float | None:
    """Returns a number as JSON can hold it: None for infinite."""
    return float(value) if math.isfinite(value) else None


@singledispatch
def doubled(event: DpEvent) -> DpEvent | None:
    """Returns the event when one unit can move the release twice as far; None for kinds that are not known to scale."""
    return None


@doubled.register
def _(event: Unbounded) -> DpEvent:
    return event


@doubled.register(GaussianDpEvent)
@doubled.register(CorrelatedGaussian)
@doubled.register(LaplaceDpEvent)
def _(event: Any) -> DpEvent:
    changed: DpEvent = attrs.evolve(event, noise_multiplier=event.noise_multiplier / 2)
    return changed


@doubled.register
def _(event: DiscreteGaussian) -> DpEvent:
    return attrs.evolve(event, l2_sensitivity=2 * event.l2_sensitivity)


@doubled.register
def _(event: Skellam) -> DpEvent:
    return attrs.evolve(event, l2_sensitivity=2 * event.l2_sensitivity, l1_sensitivity=2 * event.l1_sensitivity)


@doubled.register
def _(event: ComposedDpEvent) -> DpEvent | None:
    parts = [doubled(part) for part in event.events]
    return None if any(part is None for part in parts) else ComposedDpEvent(tuple(p for p in parts if p is not None))


@doubled.register
def _(event: SelfComposedDpEvent) -> DpEvent | None:
    inner = doubled(event.event)
    return None if inner is None else SelfComposedDpEvent(inner, event.count)
