"""Checks a ledger, its published heads and a certificate against each other: rows, costs, heads, every promised ε."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from sordino.account.accountants.filter import Filter, NoFilter, named
from sordino.account.certificate.certificate import Assurance, Certificate, certify
from sordino.account.certificate.document import CertificateDocument
from sordino.account.certificate.published import require_published
from sordino.account.ledger.coverage import payments
from sordino.account.ledger.entry import LedgerEntry
from sordino.account.ledger.hash_chain import HashChain
from sordino.account.ledger.leaving import chance_written_down
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerTampered
from sordino.events import Guarantee

_TOLERANCE = 1e-6
_UNNAMED = (
    "the budget that its filter holds is the certificate's own word, as its releases do not name one (earlier versions "
    "did not write it down): compare it with the recipe"
)


def verify(
    path: Path,
    certificate: Certificate | None = None,
    *,
    heads: Path | None = None,
    witness: Path | None = None,
    kept: Sequence[str] = (),
    run: str | None = None,
    document: CertificateDocument | None = None,
) -> Iterator[str]:
    """Yields what was checked, one sentence each.

    Args:
        path: the ledger.
        certificate: what a run promised.
        heads: a copy of the ledger's head log; None for the one that it names itself.
        witness: another file to which its heads were published.
        kept: heads (in hex) that somebody kept, from certificates, checkpoints or lines of a head log.
        run: the name in the ledger of the run whose certificate it is; None for any of them.
        document: what the run published of that certificate.

    Raises:
        LedgerTampered: at the first thing that does not hold.
    """
    with closing(HashChain.open(path, write=False)) as chain:
        rows = chain.verify()  # before rows are read back, so that what was changed is named by its place
    with Ledger.open(path, write=False, heads=heads, witness=witness) as ledger:
        published = ledger.verify()
        everything, settled = ledger.entries, sum(entry.settled for entry in ledger.entries)
        yield f"chain: every row is in its place and unchanged (head {ledger.head[:16]}…)"
        yield f"costs: ε of all {len(ledger.entries)} releases follows from their events ({settled} settled)"
        for head in kept:
            ledger.must_contain(head)
        files = "head log and witness" if witness else "head log"
        yield (
            f"heads: {published} published heads are in the chain, {files} signed by key {ledger.public_key[:16]}…"
            + (f", and {len(kept)} that were kept" if kept else "")
        )
    if certificate is not None:
        with Ledger.open(path, write=False, heads=heads, until=certificate.ledger_head) as ledger:
            _require_run(ledger.entries, path, run)
            told = {row.seq for row, _ in rows if row.kind == "reserve" and "early_end" in json.loads(row.body)}
            unchecked = _require_budget(ledger.entries, certificate, path, run)
            _require_stamp(ledger.entries, certificate, path)
            _require_told([entry for entry in ledger.entries if entry.seq in told], certificate, path)
            _compare(path, _again(ledger, certificate), certificate)
            if document is not None:
                require_published(ledger, certificate, document, run, _filters(certificate))
        _require_newest(everything, certificate, path, run)
        yield f"certificate: all {len(certificate.entries)} promises follow from the ledger{unchecked}"
        if document is not None:
            yield f"published: so do all {len(document.promises)} promises of the public certificate, which it signed"


def _require_run(entries: Sequence[LedgerEntry], path: Path, run: str | None) -> None:
    """Refuses the certificate of a run that the ledger does not know: nothing could be held to what its rows say."""
    if run is not None and entries and all(entry.run != run for entry in entries):
        raise LedgerTampered(
            f"ledger {path} has no release of run {run} up to the certificate's head: the run's name was changed, or "
            "the certificate is another's"
        )


def _require_budget(entries: Sequence[LedgerEntry], certificate: Certificate, path: Path, run: str | None) -> str:
    """Holds a certificate's budget to the one that its run wrote down with every release.

    **Formal guarantees**: a filter promises the budget that was fixed before the first release, however little the path
    spent. A budget that is named afterwards is hindsight, and is found wherever the run's releases name theirs.

    Returns:
        What could not be checked, in words that end a sentence; empty where all was, or nothing rests on it.
    """
    mine = [entry for entry in entries if run is None or entry.run == run]
    limits = dict.fromkeys(entry.limit for entry in mine if entry.limit is not None)
    if (certificate.budget_epsilon, certificate.delta) in limits and (run is None or len(limits) == 1):
        return ""
    if not limits or {entry.run for entry in mine} - {entry.run for entry in mine if entry.limit is not None}:
        held = any(one.epsilon is not None and _filter_of(one, one.epsilon) for one in certificate.entries)
        return f"; {_UNNAMED}" if held else ""
    told = " or ".join(map(_budget_words, limits))
    raise LedgerTampered(
        f"the certificate names the budget {_budget_words((certificate.budget_epsilon, certificate.delta))}, and by "
        f"ledger {path} its run was held to {told}: make the certificate anew"
    )


def _budget_words(limit: tuple[float | None, float]) -> str:
    return f"ε = {'none' if limit[0] is None else f'{limit[0]:g}'} at δ = {limit[1]:g}"


def _require_stamp(entries: Sequence[LedgerEntry], certificate: Certificate, path: Path) -> None:
    """Refuses a certificate that is not stamped `simulation` where noise that it rests on follows from a seed."""
    if not certificate.simulation and (seeded := dict.fromkeys(entry.run for entry in entries if entry.seeded)):
        raise LedgerTampered(
            f"the certificate is not stamped as a simulation, and by ledger {path} the noise of run "
            f"{', '.join(seeded)} follows from a seed: make the certificate anew"
        )


def _require_newest(entries: Sequence[LedgerEntry], certificate: Certificate, path: Path, run: str | None) -> None:
    """Refuses the certificate of a run that released more after it was made: it would say less than was spent."""
    with closing(HashChain.open(path, write=False)) as chain:
        place = chain.place(certificate.ledger_head)
    later = [entry for entry in entries if entry.run == run and entry.charges and entry.seq > (place or 0)]
    if later:
        raise LedgerTampered(
            f"the certificate was made before {len(later)} releases of its run, by ledger {path} of round "
            f"{later[0].round_} and later: it is an old one, make the certificate anew"
        )


def _require_told(entries: Sequence[LedgerEntry], certificate: Certificate, path: Path) -> None:
    """Holds a certificate to what its releases wrote down beside their prices (those of earlier versions did not).

    Coins may have decided the end of a run, for which no less may be taken out of δ than the runs wrote down; and where
    noise followed releases, the promise is a filter's, for the whole budget, and not the price of the path.
    """
    taken = chance_written_down(entries)
    if not certificate.stopped_by_participation and not certificate.early_end >= taken * (1 - _TOLERANCE):
        raise LedgerTampered(
            f"the certificate takes {certificate.early_end:.3g} out of δ for ends of runs that coins could decide, and "
            f"ledger {path} says {taken:.3g}: make the certificate anew"
        )
    for promise in certificate.entries:
        guarantee = Guarantee(promise.unit, promise.observer, promise.adjacency)
        if promise.epsilon is None or not any(payments(entry, guarantee) for entry in entries if entry.adaptive):
            continue
        least = certificate.budget_epsilon
        if named(promise.accountant, promise.epsilon, promise.delta) is None or least is None:
            why = f"by {promise.accountant}"
        elif promise.epsilon < least * (1 - _TOLERANCE):
            why = f"below the budget {least:g}, which a filter promises"
        else:
            continue
        raise LedgerTampered(
            f"the certificate promises a {promise.unit} ε = {promise.epsilon} against the {promise.observer} {why}, "
            f"and by ledger {path} noise followed releases: make the certificate anew"
        )


def _again(ledger: Ledger, certificate: Certificate) -> Certificate:
    return certify(
        ledger,
        certificate.delta,
        filters=_filters(certificate),
        stopped_by_participation=certificate.stopped_by_participation,
        early_end=certificate.early_end,
        accountant=certificate.accountant,
    )


def _filters(certificate: Certificate) -> dict[Guarantee, Filter]:
    return {
        Guarantee(entry.unit, entry.observer, entry.adjacency): chosen
        for entry in certificate.entries
        if (chosen := _filter_of(entry, certificate.budget_epsilon))
    }


def _filter_of(entry: Assurance, budget: float | None) -> Filter | None:
    """Returns the filter that a promise names; where it admitted too little, or held nothing, one that says as much.

    It holds the budget: the promise is larger where something is taken out of δ for an end that coins could decide.
    """
    if entry.epsilon is None:
        return NoFilter(entry.delta) if "filter" in entry.accountant else None
    return named(entry.accountant, entry.epsilon if budget is None else budget, entry.delta)


def _compare(path: Path, found: Certificate, told: Certificate) -> None:
    if (told.federation, told.population, told.releases) != (found.federation, found.population, found.releases):
        raise LedgerTampered(f"certificate and ledger {path} tell of different federations or releases")
    if unsaid := set(map(_names, found.entries)) - set(map(_names, told.entries)):
        unit, observer, adjacency = min(unsaid)
        raise LedgerTampered(
            f"the certificate says nothing to a {unit} against the {observer} ({adjacency}), and ledger {path} was "
            "charged for that: make the certificate anew"
        )
    for entry in told.entries:
        mine = [other for other in found.entries if _names(other) == _names(entry)]
        if not any(_same(entry, other) for other in mine):
            raise LedgerTampered(_sentence(entry, mine, path))


def _names(entry: Assurance) -> tuple[str, str, str]:
    return entry.unit, entry.observer, entry.adjacency


def _same(told: Assurance, found: Assurance) -> bool:
    """Returns whether all numbers of a promise follow: at its δ, at every δ of its curve, and of whom paid most."""
    if told.delta != found.delta or [delta for delta, _ in told.curve] != [delta for delta, _ in found.curve]:
        return False
    if (told.epsilon is None) == (told.status == "certified"):
        return False
    pairs = [(told.epsilon, found.epsilon), *((a[1], b[1]) for a, b in zip(told.curve, found.curve, strict=True))]
    # one that promises nothing may do so whatever is proved, and to whomever
    paid = told.epsilon is None or replace(told.worst, epsilon=None) == replace(found.worst, epsilon=None)
    pairs += [(told.worst.epsilon, found.worst.epsilon), (told.median_epsilon, found.median_epsilon)]
    return paid and all(_agree(*pair) for pair in pairs)


def _agree(told: float | None, found: float | None) -> bool:
    """Returns whether a number follows: a certificate may promise nothing where something is proved."""
    if told is None or found is None:
        return told is None
    return abs(told - found) <= _TOLERANCE * max(1.0, found)


def _sentence(told: Assurance, found: Sequence[Assurance], path: Path) -> str:
    proved = " or ".join(f"ε = {entry.epsilon}" for entry in found) or "nothing of the kind"
    return (
        f"the certificate promises a {told.unit} ε = {told.epsilon} against the {told.observer}, "
        f"and ledger {path} proves {proved}: make the certificate anew"
    )
