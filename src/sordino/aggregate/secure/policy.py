"""What a client asks of a secure sum before it says a word: its own floors, whatever the server proposes."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.aggregate.secure.errors import BelowPolicy
from sordino.aggregate.secure.graph import sparse_is_safe
from sordino.aggregate.secure.terms import SumTerms, part


@dataclass(frozen=True)
class SumPolicy:
    """A client's own floors. Terms that are below one of them are refused before any key is sent.

    Attributes:
        smallest_cohort: fewest clients of which a sum may be opened.
        smallest_threshold: fewest holders that may recover a secret of this client.
        corrupt: share of the invited clients that may work with the server, as this client sees it.
        security_bits: on a sparse graph, what must not be learnt is learnt with probability ≤ 2^-security_bits.
        releases: how often this client's vector of one round may be sent (attempts included).
        mechanism: digest that the terms must carry, if this client knows what it should be.
        attempts: how many attempts at one round this client begins: each draws a new graph, which a server can look at.
        federation, run: names that the terms must carry, if this client knows them.
        rounds: most rounds that a run has, if this client knows.

    **Formal guarantees**: see `docs/secure-aggregation.md`. With accepted terms (1) 2·threshold > holders + corrupt
    ones among them, so no two groups of `threshold` holders share only corrupt ones; (2) 2·consents > invited +
    corrupt, so no two stories can both find enough consents.
    """

    smallest_cohort: int = 5
    smallest_threshold: int = 3
    corrupt: float = 0.0
    security_bits: int = 40
    releases: int = 1
    mechanism: bytes | None = None
    attempts: int = 8
    federation: str | None = None
    run: str | None = None
    rounds: int | None = None

    def check(self, terms: SumTerms, client: int) -> None:
        """Raises `BelowPolicy` unless the terms are good enough for this client."""
        _floor("smallest cohort", terms.smallest_cohort, self.smallest_cohort)
        _floor("threshold", terms.threshold, self.smallest_threshold)
        _floor("number of corrupt clients", terms.corrupt, part(self.corrupt, len(terms.clients)))
        if client not in terms.invited:
            raise BelowPolicy(f"client {client} is not among the invited ones: ignore these terms")
        if self.mechanism is not None and terms.mechanism != self.mechanism:
            raise BelowPolicy("the terms are for another mechanism than this client's recipe: ignore them")
        names = ((self.federation, terms.federation), (self.run, terms.run))
        if any(own not in (None, theirs) for own, theirs in names) or terms.round_ > (self.rounds or terms.round_):
            raise BelowPolicy(
                f"the terms are for round {terms.round_} of run '{terms.run}' of '{terms.federation}', which this "
                "client does not know: ignore them"
            )
        if not len(terms.clients) + terms.corrupt < 2 * terms.consents <= 2 * len(terms.clients):
            raise BelowPolicy(
                f"{terms.consents} consents of {len(terms.clients)} clients, {terms.corrupt} of them corrupt, do not "
                "exclude a second story: ask for more than half of both together"
            )
        check_threshold(terms, len(terms.clients), self.security_bits)


def check_threshold(terms: SumTerms, roster: int, security_bits: int) -> None:
    """Raises `BelowPolicy` unless any two groups of `threshold` holders have an honest one in common."""
    if terms.degree and terms.degree < roster - 1:
        if not sparse_is_safe(len(terms.clients), terms.corrupt, terms.degree, terms.threshold, terms.smallest_cohort,
                              terms.margin, security_bits):  # fmt: skip
            raise BelowPolicy(
                f"{terms.degree} holders with threshold {terms.threshold} and margin {terms.margin} are not safe to "
                f"2^-{security_bits}: take the topology that `choose` returns"
            )
    elif not roster + terms.corrupt < 2 * terms.threshold:
        raise BelowPolicy(
            f"threshold {terms.threshold} lets two groups of {roster} holders, {terms.corrupt} of them corrupt, "
            "recover both secrets: it must be more than half of both together"
        )


def _floor(name: str, value: int, floor: int) -> None:
    if value < floor:
        raise BelowPolicy(f"the terms' {name} is {value} and this client's policy wants at least {floor}")
