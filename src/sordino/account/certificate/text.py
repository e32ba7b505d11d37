"""The certificate for people: plain text for a terminal, and Markdown for a page. Strangers write certificates."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from sordino.account.accountants.accountant import explain
from sordino.account.accountants.history import flatten
from sordino.account.certificate.document import CertificateDocument, Promise
from sordino.events import decode
from sordino.printable import in_markdown, printable

_WIDTH = 80
_SEEDED = (
    "This was a simulation: its noise comes from a seed. Whoever knows the seed knows the noise, and then nothing is "
    "hidden. The numbers below are those of the same mechanism with noise that nobody can predict."
)
_STOPPED = {
    "rounds": "after the planned rounds",
    "budget": "because the next release would have exceeded the budget",
    "target": "at its target accuracy",
    "interrupted": "before its planned rounds, by whoever ran it",
    "diverged": "because training diverged; the model is the last one before that",
}


def text(document: CertificateDocument) -> str:
    """Returns the certificate as plain text."""
    lines = [printable(f"Privacy certificate of {document.federation}")]
    lines += [printable(f"run {document.run}, {document.time}"), ""]
    lines += [*_wrapped(_SEEDED), ""] if document.simulation else []
    for promise in document.promises:
        lines += [*_promise(promise, document), ""]
    for name, value in about(document):
        lines += _wrapped(f"{name}: {value}", "  ")
    return "\n".join(map(printable, lines)) + "\n"


def markdown(document: CertificateDocument) -> str:
    """Returns the certificate as Markdown."""
    lines = [f"# Privacy certificate of {in_markdown(document.federation)}", ""]
    lines += [in_markdown(f"Run {document.run}, {document.time}."), ""]
    lines += [f"> {_SEEDED}", ""] if document.simulation else []
    lines += ["| unit | observer | adjacency | status | ε | δ | μ (regret) | advantage | claimed ε |"]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    for one in document.promises:
        claimed = "" if one.claimed_epsilon is None else number(one.claimed_epsilon)
        gauss = f"{number(one.numbers.mu)} ({one.numbers.regret:.2g})"
        cells = (one.unit, one.observer, one.adjacency, one.status, number(one.epsilon), f"{one.delta:g}", gauss)
        lines.append(f"| {' | '.join(cells)} | {one.numbers.advantage:.4f} | {claimed} |")
    for one in document.promises:
        lines += ["", f"## One {one.unit} against the {one.observer} ({one.adjacency})", ""]
        lines += [f"- **{name}**: {in_markdown(value)}" for name, value in facts(one, document)]
        if one.epsilon is not None:
            lines += ["", "| ε | δ(ε) |", "|---|---|", *(f"| {e:g} | {d:.3g} |" for e, d in one.numbers.profile)]
    lines += ["", "## The run", "", *(f"- **{name}**: {in_markdown(value)}" for name, value in about(document))]
    return "\n".join(map(printable, lines)) + "\n"


def facts(promise: Promise, document: CertificateDocument) -> Iterator[tuple[str, str]]:
    """Yields what there is to say about one promise, by name."""
    found = promise.numbers
    yield "sees", "; ".join(document.statement.views[promise.observer].words())
    if promise.epsilon is None:
        yield "why nothing is proved", found.reason
    else:
        yield "follows from", f"{promise.basis}: {_events(promise)}"
        yield "accountant", f"{found.answered}, sordino {document.statement.code_version}"
        yield "Gaussian", _gaussian(promise)
        yield "best attack", f"true-positive minus false-positive rate at most {found.advantage:.4f}"
        rates = ", ".join(f"{fnr:.4f} at {fpr:g}" for fpr, fnr in found.false_negative_rates)
        yield "false negatives", f"of any attack at least {rates} false positives"
        points = ", ".join(f"{e:g}: {d:.3g}" for e, d in found.profile if d > 1e-12)
        yield "whole curve δ(ε)", points or "0 everywhere"
    if found.note:
        yield "note", found.note
    if promise.claimed_epsilon is not None:
        yield (
            "claimed",
            f"ε = {number(promise.claimed_epsilon)} by {promise.claim or 'a published formula'}; not proved",
        )


def about(document: CertificateDocument) -> Iterator[tuple[str, str]]:
    """Yields what there is to say about the run, by name."""
    told = document.statement
    yield "mechanism", f"{told.mechanism} ({told.mode}), {told.trust} trust, {document.releases} releases"
    yield "ended", _STOPPED.get(document.stopped, document.stopped)
    yield (
        "budget",
        "none" if document.budget_epsilon is None else f"ε = {document.budget_epsilon:g} at δ = {document.delta:g}",
    )
    yield "sampling assumed", told.sampling_assumed
    yield "sampling executed", told.sampling_executed
    yield "denominator", told.denominator
    yield "noise", told.noise_source
    yield "arithmetic", told.arithmetic
    yield "secure sum", told.secure_sum
    yield "data accesses", "; ".join(told.data_accesses)
    yield "not protected", "; ".join(told.unprotected) or "nothing else is released"
    yield "assumed", "; ".join(told.assumptions)
    yield "audit", told.audit
    if told.deployment:
        yield "deployment", "; ".join(told.deployment)
    yield "code", f"sordino {told.code_version}"
    yield "ledger head", document.ledger_head
    yield "signed by", f"Ed25519 key {document.public_key}"


def number(value: float | None) -> str:
    """Returns an ε or μ in five digits, ∞ for None."""
    return "∞" if value is None else f"{value:.5g}"


def _promise(one: Promise, document: CertificateDocument) -> Iterator[str]:
    seeded = ", for unseeded noise" if document.simulation and one.status == "certified" else ""
    yield f"One {one.unit} against the {one.observer} ({one.adjacency}): {one.status}{seeded}"
    yield f"  ε = {number(one.epsilon)}" + ("" if one.epsilon is None else f" at δ = {one.delta:g}")
    for name, value in facts(one, document):
        yield from _wrapped(f"{name}: {value}", "  ")


def _gaussian(promise: Promise) -> str:
    found = promise.numbers
    good = "the whole curve in one number" if found.regret < 0.01 else "a poor description: read the curve"
    return f"μ = {number(found.mu)}, regret {found.regret:.2g} ({good})"


def _events(promise: Promise) -> str:
    if not any(promise.proof.histories):
        return "events are not told"
    told = [explain(flatten({decode(event): count for event, count in one})) for one in promise.proof.histories]
    return " or ".join(told[:3]) + (f" or {len(told) - 3} others" if len(told) > 3 else "")


def _wrapped(line: str, indent: str = "") -> list[str]:
    return textwrap.wrap(line, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ") or [""]
