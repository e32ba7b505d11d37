"""The run's side of the ledger: who can still pay, what is reserved and settled, and what it all adds up to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from operator import is_

import numpy as np

from sordino.account.accountants.filter import Filter
from sordino.account.certificate.certificate import Certificate, certify
from sordino.account.certificate.document import CertificateDocument, Statement
from sordino.account.certificate.publish import publish
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.entry import LedgerEntry, RunLimit
from sordino.account.ledger.leaving import chance_written_down
from sordino.account.ledger.ledger import Ledger
from sordino.errors import BudgetExceeded
from sordino.events import Charge, Guarantee, Unbounded
from sordino.mechanism import Mechanism
from sordino.server.claims import claim_allows, claimed
from sordino.server.early_end import chance_of_early_end, with_rounds_paid_again
from sordino.server.epsilon_so_far import EpsilonSoFar
from sordino.server.filters import held
from sordino.stages import Released
from sordino.types import BoolArray, IntArray


@dataclass(frozen=True)
class Eligible:
    """Who may be selected, and who is left out for reasons that everybody can compute."""

    allowed: BoolArray
    excluded: IntArray
    head: str | None = None
    """The ledger's head when it was asked who can pay; None where no budget binds."""


@dataclass(frozen=True)
class Charging:
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
    least: int | None = None
    """Fewest clients that the declaration allows for: what is published is computed for them (None: for all there)."""
    repeatable: bool = True
    """Whether a round that is played again releases the same bits (seeded simulation)."""
    fingerprint: str = ""
    filters: Mapping[Guarantee, Filter] = field(default_factory=dict)
    """For mechanisms that choose noise from releases: what admits each release instead of a price."""
    schedule: Sequence[Sequence[Charge]] = ()
    """What each planned round costs."""
    limits: Mapping[int, float] = field(default_factory=dict)
    """Stricter ε of clients that ask for it, by id."""
    _ends: dict[tuple[int, int], float] = field(default_factory=dict, repr=False, compare=False)
    """The chance of an end by coins, by the number of other runs' releases on the ledger and of rounds to pay for."""
    _found: list[tuple[list[LedgerEntry], list[Guarantee], Mapping[Guarantee, Filter]]] = field(
        default_factory=list, repr=False, compare=False
    )
    """The filters that hold the run, and for which releases of other runs and which promises they were found."""

    @property
    def warnings(self) -> list[str]:
        """What to say before the run starts: what earlier runs spent, and promises that it and they make infinite."""
        first = self.schedule[0] if self.schedule else ()
        wanted = [charge.guarantee for charge in first if not isinstance(charge.event, Unbounded)]
        spent = [*filter(None, (self.ledger.spent_words(guarantee, self.run, self.epsilon) for guarantee in wanted))]
        few = self._few_can_pay(first) if spent else None
        return [*spent, *filter(None, [few]), *self.ledger.clash([charge.guarantee for charge in first], self.run)]

    def _few_can_pay(self, first: Sequence[Charge]) -> str | None:
        """Returns a sentence where somebody whom the ledger knows has too little left for the first round."""
        if self.budget is None or self.mechanism.claim is not None:
            return None
        binding = [charge.guarantee for charge in first if not isinstance(charge.event, Unbounded)]
        able = self.ledger.affordable(first, self.budget, self.accountant, binding, self._held).allowed
        if able.all():
            return None
        return (
            f"of {len(able):,} clients that the ledger knows, {int(able.sum()):,} can pay for the first round within "
            f"budget.epsilon = {self.epsilon:g}; the others are left out: raise budget.epsilon, or set "
            "budget.minimum_clients to the fewest that are worth a run"
        )

    @property
    def budget(self) -> Budget | None:
        """What each client may spend."""
        return Budget(self.epsilon, self.delta, self.limits) if self.epsilon is not None else None

    def eligible(self, round_: int, charges: Sequence[Charge], present: BoolArray, again: bool = True) -> Eligible:
        """Returns who can pay for a round's release; one that is played `again` is not paid for twice.

        Raises:
            BudgetExceeded: too few can; nothing may be broadcast.
        """
        allowed, barred = present.copy(), ~present
        head = None if self.budget is None else self.ledger.newest
        if self.budget is not None:
            # a printed mechanism is held to its claim: what really holds may be far dearer, and is certified as such
            bounded = [c.guarantee for c in charges if not isinstance(c.event, Unbounded)]
            binding = bounded if self.mechanism.claim is None else []
            aside = self.ledger.set_aside(self.run, round_, self.fingerprint) if again else nullcontext(False)
            with aside as replayed:
                payers = self.ledger.affordable(charges, self.budget, self.accountant, binding, self._held)
                allowed &= payers.allowed & claim_allows(self.mechanism.claim, self.ledger, self.epsilon, self.delta)
            head, barred = "" if replayed else head, barred | payers.barred
        if present.any() and allowed.sum() < self.minimum:
            raise BudgetExceeded(
                f"budget.epsilon = {self.epsilon:g} lets {allowed.sum()} clients pay for another release and "
                f"{self.minimum} are needed: raise budget.epsilon, lower run.rounds or add noise"
            )
        return Eligible(allowed, np.flatnonzero(barred), head)

    def reserve(self, round_: int, cohort: IntArray, charges: Sequence[Charge], eligible: Eligible) -> int:
        """Writes the cost of a release down, durably, before it happens.

        Raises:
            LedgerMoved: another run was charged since it was asked who can pay: ask again.
        """
        return self._reserve(round_, cohort, charges, eligible.excluded, eligible.head)

    def _reserve(
        self, round_: int, cohort: IntArray, charges: Sequence[Charge], excluded: IntArray, head: str | None = None
    ) -> int:
        return self.ledger.reserve(
            self.run,
            round_,
            cohort,
            charges,
            excluded,
            self.repeatable,
            self.fingerprint,
            head,
            early_end=self._early_end(),
            adaptive=self.mechanism.adaptive,
            limit=RunLimit(self.epsilon, self.delta),
            once=self.mechanism.rounds_apart > 1 and round_ > 0 and not self.repeatable,
        )

    def reserve_for_everybody(self, round_: int, charges: Sequence[Charge], what: str, instead: str) -> int:
        """Reserves a release that all clients take part in: `what` it is, and what could be done `instead`, in words.

        Raises:
            BudgetExceeded: some cannot pay for it; nothing may be released.
        """
        everyone = np.arange(len(self.ledger.members))
        eligible = self.eligible(round_, charges, np.ones(len(everyone), bool))
        if not eligible.allowed.all():
            raise BudgetExceeded(
                f"{np.count_nonzero(~eligible.allowed)} clients cannot pay for {what}, and all take part in it: raise "
                f"budget.epsilon, or {instead}"
            )
        return self.reserve(round_, everyone, charges, eligible)

    def forfeit(self, round_: int) -> None:
        """Charges everybody for the rounds that a stop on released values leaves unplayed.

        **Formal guarantees**: what a run released up to such a stop is a function of what its whole plan would have
        released, so the price of the plan holds for every rule of stopping; the price of the path alone does not.
        """
        rest = [charge for charges in self.schedule[round_:] for charge in charges]
        if rest:
            everyone = np.arange(len(self.ledger.members))
            nobody = np.empty(0, np.int64)
            reservation = self._reserve(round_ + 1, everyone, rest, nobody)
            self.ledger.settle(reservation, rest, everyone, "forfeited by a stop on released values")

    def tell_end(self, round_: int) -> None:
        """Writes down that too few could pay for a round, where coins decided who could.

        **Formal guarantees**: such an end shows who took part, of which certificates of later runs on the same ledger
        speak, too: without this row they would credit the coins that it showed.
        """
        if self._uneven:
            nobody = np.empty(0, np.int64)
            self.ledger.reserve(self.run, round_, nobody, (), nobody, self.repeatable, self.fingerprint, early_end=1.0)

    @property
    def _uneven(self) -> bool:
        """Whether some of the run's clients took part more often than others."""
        return bool(np.ptp(self.ledger.participations[self.ledger.members]))

    def settle(
        self,
        reservation: int,
        senders: IntArray,
        charges: Sequence[Charge],
        released: Released | None,
        durable: bool = True,
    ) -> None:
        """Settles what was really released, and by whom; if not `durable`, it is written with the next reservation."""
        digest = hashlib.sha256()  # processors have instructions for it: a third of the time of BLAKE2b
        for tensor in [] if released is None else [released.mean, *released.side.values()]:
            digest.update(tensor.contiguous().numpy().data)
        self.ledger.settle(reservation, charges, senders, digest.hexdigest(), durable)

    def spent(self) -> dict[str, float | None]:
        """Returns the worst client's ε so far by guarantee (`events.named`); None where nothing bounds it."""
        return self._so_far.told()

    @cached_property
    def _so_far(self) -> EpsilonSoFar:
        return EpsilonSoFar(self.ledger, self.delta, self.accountant)

    def certificate(self, stopped: str | None = None) -> Certificate:
        """Returns everything that the run and its ledger can promise."""
        return certify(
            self.ledger,
            self.delta,
            claims=claimed(self.mechanism.claim, self.ledger, self.delta),
            budget=self.budget,
            filters=self._held,
            # such an end depends on coins that an outsider must not see (docs/accounting.md)
            stopped_by_participation=stopped == "budget" and self._uneven,
            early_end=min(1.0, self._early_end() + chance_written_down(self.ledger.beside(self.run))),
            accountant=self.accountant,
            simulation=self.repeatable,
        )

    def document(self, certificate: Certificate, statement: Statement, stopped: str | None) -> CertificateDocument:
        """Returns what everybody may read of a certificate, signed with the ledger's key."""
        return publish(
            self.ledger,
            certificate,
            statement,
            self.run,
            stopped or "rounds",
            filters=self._held,
            binding=self.mechanism.claim is None,
        )

    def _early_end(self) -> float:
        """Returns the chance that one client's own coins decide when the run ends."""
        if self.mechanism.claim is not None:  # it binds all alike, or by their own coins, of which nothing is proved
            return 0.0 if self.epsilon is None or self.mechanism.claim.per_round or not self._coins else 1.0
        if self.budget is None:
            return 0.0
        if self.mechanism.adaptive and self._coins:
            return 1.0  # what later rounds cost follows releases: nothing is proved about who can pay for them
        paid = () if self.repeatable else self.ledger.of(self.run)
        known = len(self.ledger.beside(self.run)), len(with_rounds_paid_again(paid, self.schedule))
        if known not in self._ends:
            self._ends[known] = chance_of_early_end(
                self.ledger, self.run, self.schedule, self.budget, self.minimum, self.least
            )
        return self._ends[known]

    @cached_property
    def _coins(self) -> bool:
        """Whether a promise of the plan rests on nobody knowing who took part."""
        return any(charge.payers == "eligible" for charges in self.schedule for charge in charges)

    @property
    def _held(self) -> Mapping[Guarantee, Filter]:
        """The filters that hold this run, and what others released, to its budget."""
        others, charged = self.ledger.beside(self.run), self.ledger.guarantees
        for before, promises, found in self._found:
            if promises == charged and len(before) == len(others) and all(map(is_, before, others)):
                return found
        found = held(
            self.ledger, self.run, self.filters, self.schedule, self.mechanism.planned, self.epsilon, self.delta
        )
        self._found[:] = [(others, charged, found)]
        return found
