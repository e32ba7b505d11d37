"""The run's side of the ledger: who can still pay, what is reserved and settled, and what it all adds up to."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sordino.account.accountants.calibrate import largest_rounds
from sordino.account.accountants.filter import Filter, filter_for
from sordino.account.certificate.certificate import Certificate, certify
from sordino.account.certificate.certificate import Claim as Printed
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.leaving import chance_of_early_end
from sordino.account.ledger.ledger import Ledger
from sordino.errors import BudgetExceeded, RecipeError
from sordino.events import Charge, Guarantee, Unbounded, named
from sordino.mechanism import Mechanism, Turn
from sordino.stages import Released
from sordino.types import BoolArray, IntArray


@dataclass(frozen=True)
class Eligible:
    """Who may be selected, and who is left out for reasons that everybody can compute."""

    allowed: BoolArray
    excluded: IntArray


@dataclass(frozen=True)
class Books:
    """Charges one run to one ledger.

    **Formal guarantees**: nothing is broadcast before its cost is durably reserved; a client that could not pay in full
    is left out of the cohort; a release that is dearer than its quote is refused. Guarantees that are `Unbounded` are
    recorded and reported, but no budget can bind them: where a mechanism proves nothing, the paper's claim is held to
    the budget instead, and the certificate says that it is only a claim.
    """

    ledger: Ledger
    run: str
    mechanism: Mechanism
    delta: float
    epsilon: float | None = None
    """The budget; None binds nobody."""
    accountant: str = "pld"
    minimum: int = 1
    """Fewest clients that must be able to pay for the next release."""
    repeatable: bool = True
    """Whether a round that is played again releases the same bits (seeded simulation)."""
    fingerprint: str = ""
    filters: Mapping[Guarantee, Filter] = field(default_factory=dict)
    """For mechanisms that choose noise from releases: what admits each release instead of a price."""
    planned: tuple[Charge, ...] = ()
    """What the first release costs, and `rounds` of them are planned: for the chance that a run ends early."""
    rounds: int = 1
    limits: Mapping[int, float] = field(default_factory=dict)
    """Stricter ε of clients that ask for it, by id."""

    @property
    def budget(self) -> Budget | None:
        """What each client may spend."""
        return Budget(self.epsilon, self.delta, self.limits) if self.epsilon is not None else None

    def eligible(self, round_: int, charges: Sequence[Charge], present: BoolArray) -> Eligible:
        """Returns who can pay for a round's release; one that is played again is not paid for twice.

        Raises:
            BudgetExceeded: too few can; nothing may be broadcast.
        """
        allowed, barred = present.copy(), ~present
        if self.budget is not None:
            # a printed mechanism is held to its claim: what really holds may be far dearer, and is certified as such
            bounded = [c.guarantee for c in charges if not isinstance(c.event, Unbounded)]
            binding = bounded if self.mechanism.claim is None else []
            with self.ledger.set_aside(self.run, round_, self.fingerprint):
                payers = self.ledger.affordable(charges, self.budget, self.accountant, binding, self.filters)
                allowed &= payers.allowed & self._claim_allows()
            barred |= payers.barred
        if present.any() and allowed.sum() < self.minimum:
            raise BudgetExceeded(
                f"budget.epsilon = {self.epsilon:g} lets {allowed.sum()} clients pay for another release and "
                f"{self.minimum} are needed: raise budget.epsilon, lower run.rounds or add noise"
            )
        return Eligible(allowed, np.flatnonzero(barred))

    def reserve(self, round_: int, cohort: IntArray, charges: Sequence[Charge], eligible: Eligible) -> int:
        """Writes the cost of a release down, durably, before it happens."""
        return self.ledger.reserve(
            self.run, round_, cohort, charges, eligible.excluded, self.repeatable, self.fingerprint
        )

    def settle(self, reservation: int, senders: IntArray, charges: Sequence[Charge], released: Released | None) -> None:
        """Writes down what was really released, and by whom."""
        digest = hashlib.blake2b(digest_size=16)
        for tensor in [] if released is None else [released.mean, *released.side.values()]:
            digest.update(tensor.numpy().tobytes())
        self.ledger.settle(reservation, charges, senders, digest.hexdigest())

    def spent(self) -> dict[str, float | None]:
        """Returns the worst client's ε by guarantee (`events.named`); None where nothing bounds it."""
        out: dict[str, float | None] = {}
        for name, guarantee in named(self.ledger.guarantees).items():
            worst = float(self.ledger.book(guarantee).prices(self.delta, self.accountant).epsilon.max())
            out[name] = worst if math.isfinite(worst) else None
        return out

    def certificate(self, stopped: str | None = None) -> Certificate:
        """Returns everything that the run and its ledger can promise."""
        return certify(
            self.ledger,
            self.delta,
            claims=self._claims(),
            budget=self.budget,
            filters=self.filters,
            # such an end depends on coins that an outsider must not see (docs/accounting.md)
            stopped_by_participation=stopped == "budget" and bool(np.ptp(self.ledger.participations)),
            early_end=self._early_end(),
            accountant=self.accountant,
            simulation=self.repeatable,
        )

    def _early_end(self) -> float:
        """Returns the chance that one client's own coins decide when the run ends (docs/accounting.md)."""
        rates = [c.event.sampling_probability for c in self.planned if c.payers == "eligible"]
        caps = [c for c in self.planned if c.payers == "participants" and not isinstance(c.event, Unbounded)]
        if not rates or not caps or self.epsilon is None or self.mechanism.claim is not None:
            return 0.0
        strictest = min([self.epsilon, *self.limits.values()])
        cap = min(self._affords(charge, strictest) for charge in caps) - self._before()
        if cap >= self.rounds:
            return 0.0
        if cap < 1:
            return 1.0
        return chance_of_early_end(self.ledger.population, self.minimum, max(rates), self.rounds, cap)

    def _affords(self, charge: Charge, epsilon: float) -> int:
        """Returns how many releases like this one a fresh client can pay for."""
        adjacency = charge.guarantee.adjacency
        return largest_rounds(epsilon, self.delta, lambda n: {charge.event: n}, self.accountant, adjacency)

    def _before(self) -> int:
        """Returns the most participations that a client of the ledger had in other runs."""
        times = np.zeros(self.ledger.population, np.int64)
        for entry in self.ledger.entries:
            if entry.run != self.run:
                times[entry.participants.ids()] += 1
        return int(times.max())

    def _claims(self) -> dict[Guarantee, Printed]:
        claim, times = self.mechanism.claim, self._times()
        if claim is None or not times.max():
            return {}
        told = Printed(claim.epsilon(int(times.max()), self.delta), claim.formula)
        return dict.fromkeys(self.ledger.guarantees, told)

    def _claim_allows(self) -> BoolArray:
        """Returns whose claimed ε would still be in budget after one more participation."""
        times = self._times()
        if self.mechanism.claim is None or self.epsilon is None:
            return np.ones(len(times), bool)
        counts, where = np.unique(times, return_inverse=True)
        claims = [self.mechanism.claim.epsilon(int(n) + 1, self.delta) for n in counts]
        return (np.array(claims) <= self.epsilon * (1 + 1e-9))[where]

    def _times(self) -> IntArray:
        """Returns how often each client is counted by the paper's formula so far."""
        participations = self.ledger.participations
        if self.mechanism.claim is None or not self.mechanism.claim.per_round:
            return participations
        return np.full_like(participations, sum(entry.round_ > 0 for entry in self.ledger.entries))


def filters_for(mechanism: Mechanism, turn: Turn, epsilon: float | None, delta: float) -> dict[Guarantee, Filter]:
    """Returns the filters of an adaptive mechanism, fixed by its plan or first quote; none where the schedule is fixed.

    Raises:
        RecipeError: a filter needs a budget to hold to.
    """
    if not mechanism.adaptive:
        return {}
    if epsilon is None:
        raise RecipeError("budget.epsilon is missing: a mechanism that adapts its noise needs a budget to hold it to")
    return {
        charge.guarantee: filter_for(epsilon, delta, mechanism.planned or charge.event, charge.guarantee.adjacency)
        for charge in mechanism.quote(turn)
        if not isinstance(charge.event, Unbounded)
    }
