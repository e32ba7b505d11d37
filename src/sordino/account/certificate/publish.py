"""Makes the public document from what a ledger proves: events instead of ids, bounds instead of coins, signed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sordino.account.accountants.filter import Filter
from sordino.account.accountants.history import flatten
from sordino.account.certificate.certificate import Assurance, Certificate, PromiseStatus
from sordino.account.certificate.document import CertificateDocument, Promise, Statement
from sordino.account.certificate.proof import Encoded, Numbers, Proof, doubled, numbers
from sordino.account.ledger.coverage import payments
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError
from sordino.events import DpEvent, Guarantee, Unbounded, decode, encode

ON_RELEASES = ("target", "diverged")
"""Ends that followed from what was released: everybody is charged for the whole plan then, whatever the budget."""
_EXACT = "events of the client that was charged most"
_EVERY = "a client that took part in every release; what really was charged depends on coins that are not told"
_BUDGET = "the budget, which the ledger let nobody exceed; what really was charged depends on coins that are not told"
_FILTER = "the filter that admitted every release"
_SHOWN = "the end of a run, or a view, shows who took part: sampling is not credited, and the server's promise holds"
_RUNS = "settings of the runs on this ledger, and when each was ended, did not follow from what earlier ones released"
_SEEDED = "seeds of other runs on this ledger, from which their noise follows, are known to nobody"
_ENDED = "when the run was ended, before its planned rounds, did not follow from what it had released"
_TWICE = "follows from zero_out: replacing a message moves the sum at most twice as far as silencing it"


def publish(
    ledger: Ledger,
    certificate: Certificate,
    statement: Statement,
    run: str,
    stopped: str,
    *,
    filters: Mapping[Guarantee, Filter] | None = None,
    binding: bool = True,
) -> CertificateDocument:
    """Returns the signed document of a run.

    Args:
        ledger: the books, open for writing (their key signs).
        certificate: what they prove, with who paid most.
        statement: what else the run did, and the views that the promises are made against.
        run: the run's name.
        stopped: what ended it.
        filters: the filters that admitted releases, by guarantee.
        binding: whether the budget binds what is proved (and not only what a paper claims).

    Formal guarantees: a promise is computed from the observer's view. Sampling is credited to an observer who sees no
    cohort and to nobody else; and where it is credited to anybody, no number in the document depends on the coins of a
    client, apart from the model itself.
    """
    # a run that somebody ended from the keyboard is charged for what it played
    more = [*([] if _alone(ledger) else [_RUNS]), *([_ENDED] if stopped == "interrupted" else [])]
    more += [_SEEDED] if any(entry.seeded for entry in ledger.beside(run)) else []
    statement = replace(statement, assumptions=(*statement.assumptions, *more))
    document = CertificateDocument(
        federation=ledger.federation,
        run=run,
        releases=certificate.releases,
        delta=certificate.delta,
        budget_epsilon=certificate.budget_epsilon,
        stopped=stopped,
        simulation=certificate.simulation,
        statement=statement,
        promises=promises_of(ledger, certificate, statement, stopped, filters=filters, binding=binding),
        ledger_head=certificate.ledger_head,
        public_key=ledger.public_key,
        time=certificate.time,
    )
    return replace(document, signature=ledger.sign(document.message()))


def promises_of(
    ledger: Ledger,
    certificate: Certificate,
    statement: Statement,
    stopped: str,
    *,
    filters: Mapping[Guarantee, Filter] | None = None,
    binding: bool = True,
) -> tuple[Promise, ...]:
    """Returns the promises of a document, for which no key is needed; as for `publish`."""
    binding = binding and stopped not in ON_RELEASES
    promises = [*_Source(ledger, certificate, statement, filters or {}, binding).promises()]
    if statement.trust == "local":
        promises = [told for one in promises for told in (one, *_replaced(one, promises))]
    return tuple(promises)


def _alone(ledger: Ledger) -> bool:
    """Returns whether a ledger holds one run's releases alone."""
    return len({entry.run for entry in ledger.entries}) <= 1


class _Source:
    """What promises are made from."""

    def __init__(
        self,
        ledger: Ledger,
        certificate: Certificate,
        statement: Statement,
        filters: Mapping[Guarantee, Filter],
        binding: bool,
    ) -> None:
        self._ledger, self._certificate, self._filters, self._binding = ledger, certificate, filters, binding
        self._views = statement.views
        self._sampled = {
            charge.guarantee
            for entry in ledger.entries
            for charge in entry.charges
            if charge.payers == "eligible" and not isinstance(charge.event, Unbounded)
        }
        self._alone = _alone(ledger)
        shown = certificate.stopped_by_participation or certificate.early_end >= certificate.delta
        self._credited = {g for g in self._sampled if self._views[g.observer].credits_sampling and not shown}

    def promises(self) -> Iterator[Promise]:
        for entry in self._certificate.entries:
            guarantee = Guarantee(entry.unit, entry.observer, entry.adjacency)
            if guarantee in self._sampled - self._credited:
                yield self._as_server(entry, guarantee)
            else:
                yield self._promise(entry, guarantee)

    def _promise(self, entry: Assurance, guarantee: Guarantee) -> Promise:
        if entry.epsilon is None:
            return _unproved(entry, self._certificate.accountant)
        proof, basis = self._proof(entry, guarantee)
        told = numbers(proof, entry.delta)
        if told.epsilon is not None and told.epsilon < entry.epsilon * (1 - 1e-6) - 1e-9:
            raise LedgerError(
                f"the events of the {entry.unit}'s promise against the {entry.observer} give ε = {told.epsilon:.6g}, "
                f"and the ledger says {entry.epsilon:.6g}: nothing is certified, report this"
            )
        return _made(entry, guarantee, proof, told, basis)

    def _proof(self, entry: Assurance, guarantee: Guarantee) -> tuple[Proof, str]:
        accountant, adjacency = self._certificate.accountant, guarantee.adjacency
        early = self._certificate.early_end
        taken = early if guarantee.observer == "outsider" and 0 < early < entry.delta else 0.0
        book = self._ledger.book(guarantee)
        if (chosen := self._filters.get(guarantee)) is not None:
            # additive costs: the history that costs most stands for all; with secret coins none is told
            dearest = max(book.groups(), key=lambda group: chosen.cost(group.history, adjacency)).history
            told: Mapping[DpEvent, int] = Counter() if self._secret(guarantee) else dearest
            proof = Proof((_encoded(told),), accountant, adjacency, taken)
            proof = replace(proof, filter=chosen.name, filter_epsilon=chosen.epsilon, filter_delta=chosen.delta)
            return proof, _FILTER
        if not self._secret(guarantee):
            histories = book.charged(entry.delta, accountant)
            return Proof(tuple(map(_encoded, histories)), accountant, adjacency, taken), _EXACT
        proof = Proof((_encoded(self._everything(guarantee)),), accountant, adjacency, taken)
        budget = self._certificate.budget_epsilon
        if budget is None or not (self._binding and self._alone):
            return proof, _EVERY
        whole = numbers(proof, entry.delta).epsilon
        if whole is not None and whole <= budget:
            return proof, _EVERY
        return replace(proof, budget=budget * (1 + 1e-9), budget_delta=entry.delta), _BUDGET

    def _secret(self, guarantee: Guarantee) -> bool:
        """Whether what clients paid here follows from coins that a reader must not learn from."""
        hidden = bool(self._credited) or not self._views["outsider"].most_asked
        return hidden and self._ledger.book(guarantee).by_participation

    def _everything(self, guarantee: Guarantee) -> Counter[DpEvent]:
        """Returns the history of a client that took part in every release."""
        total: Counter[DpEvent] = Counter()
        for entry in self._ledger.entries:
            for payment in payments(entry, guarantee) or []:
                total.update(flatten(payment.event))
        return total

    def _as_server(self, entry: Assurance, guarantee: Guarantee) -> Promise:
        """Returns what the server is promised, for an observer from whom sampling hides nothing."""
        servers = [e for e in self._certificate.entries if e.observer == "server" and e.unit == guarantee.unit]
        best = min(servers, key=lambda one: math.inf if one.epsilon is None else one.epsilon, default=None)
        if best is None or best.epsilon is None:
            reason = f"{_SHOWN}; against the server nothing is promised"
            return _unproved(replace(entry, epsilon=None, reason=reason), self._certificate.accountant)
        told = self._promise(best, Guarantee(best.unit, best.observer, best.adjacency))
        return replace(told, observer=entry.observer, basis=f"{_SHOWN} ({told.basis})")


def _made(entry: Assurance, guarantee: Guarantee, proof: Proof, told: Numbers, basis: str) -> Promise:
    return Promise(
        guarantee.unit,
        guarantee.observer,
        guarantee.adjacency,
        entry.delta,
        entry.status,
        told,
        proof,
        basis,
        entry.claimed_epsilon,
        entry.claim,
    )


def _unproved(entry: Assurance, accountant: str) -> Promise:
    """Returns a promise that is none, with its reason as the event."""
    why = Unbounded(entry.reason or "nothing bounds what was released")
    proof = Proof((_encoded({why: 1}),), accountant, entry.adjacency)
    guarantee = Guarantee(entry.unit, entry.observer, entry.adjacency)
    told = numbers(proof, entry.delta)
    status: PromiseStatus = "claimed-only" if entry.claimed_epsilon is not None else "unprotected"
    return replace(_made(entry, guarantee, proof, told, "nothing is proved"), status=status)


def _replaced(one: Promise, all_: Iterable[Promise]) -> Iterator[Promise]:
    """Yields the promise under `replace`, which is what local privacy means elsewhere, where none was made."""
    if one.adjacency != "zero_out" or one.epsilon is None:
        return
    if any((p.unit, p.observer, p.adjacency) == (one.unit, one.observer, "replace") for p in all_):
        return
    proof = _twice(one.proof)
    told = numbers(proof, one.delta)
    yield replace(one, adjacency="replace", proof=proof, numbers=told, basis=_TWICE, claimed_epsilon=None, claim="")


def _twice(proof: Proof) -> Proof:
    """Returns the proof with every event twice as sensitive, or by group privacy where that is not known."""
    if not proof.filter and proof.budget is None:
        made = [[(doubled(decode(event)), count) for event, count in history] for history in proof.histories]
        if all(event is not None for history in made for event, _ in history):
            histories = tuple(_encoded({e: n for e, n in history if e is not None}) for history in made)
            return replace(proof, histories=histories, adjacency="replace")
    return replace(proof, group=2)


def _encoded(history: Mapping[DpEvent, int]) -> Encoded:
    return tuple((encode(event), int(count)) for event, count in sorted(history.items(), key=str))
