"""The certificate in words: what is hidden, from whom, how well, and what is only claimed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_UNITS = {
    "record": ("one record", "each single record of a client"),
    "client": ("one client", "everything that a client holds"),
}
_OBSERVERS = {
    ("server", "local"): "the server, which sees every client's message and who took part",
    ("server", "distributed"): "the server, which sees who took part and, behind a secure sum, no message alone",
    ("server", "central"): "the server, which is trusted with every client's message",
    ("outsider", ""): "an outsider, who sees every released model and what is public of the run",
}
_ADJACENCY = {
    "add_remove": "whether it is there at all",
    "replace": "any change of it",
    "zero_out": "whether it counts, or is replaced by nothing",
}


_ROUNDING = 1e-6


@dataclass(frozen=True)
class PromiseWords:
    """One line of a certificate, told to a reader."""

    title: str
    verdict: str
    """`certified`, `claimed-only` or `unprotected`, and whether that is more than the budget."""
    alarming: bool
    """Whether this is no protection, or less than the budget asked for."""
    epsilon: str
    delta: str
    sentence: str
    claimed: str | None
    contrast: str
    facts: tuple[tuple[str, str], ...]


def promise(
    entry: Mapping[str, Any], trust: str, budget: float | None = None, alone: bool = True, seeded: bool = False
) -> PromiseWords:
    """Returns a certificate entry in words.

    Args:
        entry: the entry.
        trust: how noise was applied.
        budget: the ε that the run was held to.
        alone: whether no other entry promises something to the same unit against the same observer.
        seeded: whether the noise came from a seed, so that what is certified is the same run without one.
    """
    unit, observer = entry["unit"], entry["observer"]
    epsilon, claimed = entry.get("epsilon"), entry.get("claimed_epsilon")
    exceeds = epsilon is not None and budget is not None and epsilon > budget * (1 + _ROUNDING)
    return PromiseWords(
        title=f"{_UNITS[unit][0]} against {'an outsider' if observer == 'outsider' else 'the server'}"
        + ("" if alone else f", {adjacency(entry['adjacency'])}"),
        verdict=entry["status"]
        + (" for unseeded noise" if seeded and entry["status"] == "certified" else "")
        + (", above the budget" if exceeds else ""),
        alarming=exceeds or epsilon is None,
        epsilon=number(epsilon),
        delta=small(entry["delta"]),
        sentence=_sentence(entry, trust),
        claimed=None if claimed is None or claimed == epsilon else number(claimed),
        contrast=f"{_contrast(epsilon, claimed)}{_exceeded(budget, claimed) if exceeds else ''}".strip(),
        facts=tuple(_facts(entry)),
    )


def number(epsilon: float | None) -> str:
    """Returns ε as people write it; None is infinite."""
    if epsilon is None or math.isinf(epsilon):
        return "∞"
    return f"{epsilon:.3f}" if epsilon < 10 else f"{epsilon:.2f}" if epsilon < 1000 else f"{epsilon:,.0f}"


def figure(value: float) -> str:
    """Returns a measured number with four digits, or as a word where it is none."""
    if not math.isfinite(value):
        return "diverged"
    return f"{value:.4g}" if abs(value) < 1e4 or abs(value) >= 1e9 else f"{value:,.0f}"


def small(delta: float) -> str:
    """Returns δ without the zero that programmers put into its exponent."""
    return f"{delta:g}".replace("e-0", "e-")


def adjacency(name: str) -> str:
    """Returns what may differ between neighbours, as people write it."""
    return name.replace("add_remove", "add or remove").replace("_", " ")


def best_guess(epsilon: float, delta: float) -> float:
    """Returns how often the best attacker tells two neighbouring worlds apart, when a coin chose between them.

    **Formal guarantees**: an (ε, δ) promise bounds true minus false positive rate by (e^ε − 1 + 2δ)/(e^ε + 1), for
    every test (Kairouz, Oh, Viswanath, 2015, Theorem 2.1); the success rate under a fair coin is half of one plus that.
    """
    if epsilon > 700:
        return 1.0
    odds = math.exp(epsilon)
    return min(1.0, 0.5 + 0.5 * (odds - 1 + 2 * delta) / (odds + 1))


def _sentence(entry: Mapping[str, Any], trust: str) -> str:
    watcher = _OBSERVERS.get((entry["observer"], trust)) or _OBSERVERS[("outsider", "")]
    subject = _UNITS[entry["unit"]][1]
    if entry.get("epsilon") is None:
        return f"Against {watcher}, nothing is proved for {subject}: {entry.get('reason') or 'no release is bounded'}."
    share = best_guess(entry["epsilon"], entry["delta"])
    if attack := entry.get("attack"):  # the whole curve says more than its one point (ε, δ)
        share = min(share, 0.5 + 0.5 * attack["advantage"])
    return (
        f"Protects {subject} ({_ADJACENCY[entry['adjacency']]}) from {watcher}. If a coin decided it, the best "
        f"possible attacker would guess right {_rate(share)} of the time; without any information it is 50 %."
    )


def _rate(share: float) -> str:
    return f"at most {share:.1%}".replace("%", " %") if share < 0.9995 else "practically 100 %"


def _contrast(epsilon: float | None, claimed: float | None) -> str:
    if claimed is None or claimed == epsilon:
        return ""
    if epsilon is None:
        return f"The paper's formula says {number(claimed)}; what really bounds the releases proves nothing."
    times = epsilon / claimed if claimed else math.inf
    word = f"{times:.3g} times that" if times > 1 else "less than that"
    return f"The paper's formula says {number(claimed)}; what is proved is {number(epsilon)}, {word}."


def _exceeded(budget: float | None, claimed: float | None) -> str:
    why = ", which bound only the claim" if claimed is not None else ""
    return f" That exceeds the budget of {budget:g}{why}."


def _facts(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("adjacency", adjacency(entry["adjacency"])),
        ("accountant", entry.get("accountant", "")),
    ]
    if entry.get("claim"):
        facts.append(("claim", entry["claim"]))
    if entry.get("epsilon") is None:
        return facts
    worst = entry.get("worst") or {}
    if worst and entry.get("median_epsilon") != entry["epsilon"]:
        who = worst.get("name") or f"no. {worst['client']}"
        facts.append(("client that paid most", f"{who}, took part {worst['participations']} times"))
    if entry.get("median_epsilon"):
        facts.append(("median client", f"ε = {number(entry['median_epsilon'])}"))
    if entry.get("replace_epsilon") is not None:
        facts.append(("under replace", f"ε = {number(entry['replace_epsilon'])} (what local privacy means elsewhere)"))
    if entry.get("attack"):
        facts += _attack(entry["attack"])
    if entry.get("sees"):
        facts.append(("sees", "; ".join(entry["sees"])))
    if entry.get("reason"):
        facts.append(("reason", entry["reason"]))
    if entry.get("note"):
        facts.append(("note", entry["note"]))
    return [(name, value) for name, value in facts if value]


def _attack(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns what the curve means for attacks."""
    rates = ", ".join(f"{fnr:.3f} at {fpr:g}" for fpr, fnr in found["false_negative_rates"])
    good = "" if found["regret"] < 0.01 else ": read the curve instead"
    return [
        ("Gaussian", f"μ = {number(found['mu'])}, regret {found['regret']:.2g}{good}"),
        ("attack advantage", f"at most {found['advantage']:.3f}"),
        ("missed by any attack", f"at least {rates} false alarms"),
    ]
