"""A random search of the same kind on sparse graphs of up to 200 clients, for as long as one lets it.

Nobody is asked in bytes here: the clients' named checks are called on what each would be told. The server sees who drew
whom, and then tries what has a chance: to starve a victim of masks, to cut a group off, to tell two halves two stories,
and lies at random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from time import process_time

import numpy as np

from sordino.aggregate.secure import client as client_module
from sordino.aggregate.secure.graph import choose, draw_holders
from sordino.aggregate.secure.terms import SumTerms
from sordino.errors import ProtocolError

from .lies import Report

Some = frozenset[int]


@dataclass
class Wide:
    """One cohort on a sparse graph as it was drawn, and what a server makes of it."""

    terms: SumTerms
    drawn: list[Some]
    corrupt: Some

    @classmethod
    def draw(cls, clients: int, rng: np.random.Generator, bits: int = 20) -> Wide:
        """A cohort with the topology that `choose` returns for it."""
        found = choose(clients, dropout=0.2, corrupt=0.02, sparse_from=32, security_bits=bits, correctness_bits=5)
        terms = SumTerms(1, tuple(range(clients)), 1, 8, found.threshold, found.smallest_cohort, found.degree,
                         found.margin, found.corrupt, True)  # fmt: skip
        drawn = [frozenset(draw_holders(rng.bytes(32), clients, i, found.degree).tolist()) for i in range(clients)]
        return cls(terms, drawn, frozenset(rng.choice(clients, found.corrupt, replace=False).tolist()))

    def flags(self, some: Some) -> np.ndarray:
        flags = np.zeros(len(self.drawn), bool)
        flags[list(some)] = True
        return flags

    def masks(self, client: int, sharers: Some) -> bool:
        """Whether a client that is told who shared sends its vector."""
        return self._goes_on(client, sharers, "shared")

    def _goes_on(self, client: int, some: Some, what: str) -> bool:
        try:
            client_module.check_enough(self.terms, len(some))
            client_module.check_around(self.terms, np.array(sorted(self.drawn[client])), self.flags(some), what)
        except ProtocolError:
            return False
        return client in some

    def play(self, sharers: dict[int, Some], stories: dict[int, Some], left_out: Some) -> list[tuple[Some, Fraction]]:
        """Returns the sums that open, with their noise, when clients are told these sharers and survivors."""
        sharers = {c: told for c, told in sharers.items() if c not in self.corrupt and self.masks(c, told)}
        signed: dict[tuple[Some, Some], set[int]] = {}
        for client, alive in stories.items():
            if client in sharers and alive <= sharers[client] and self._goes_on(client, alive, "are alive"):
                signed.setdefault((sharers[client], alive), set()).add(client)
        seeds, keys, thins = Counter[int](), Counter[int](), dict[int, int]()
        for (told, alive), names in signed.items():
            verified = names | (self.corrupt & alive)
            for client in names:
                try:
                    thins[client] = client_module.check_agreed(self.terms, len(verified))
                    around = self.flags(frozenset(verified))
                    client_module.check_around(self.terms, np.array(sorted(self.drawn[client])), around, "consent")
                except ProtocolError:
                    thins.pop(client, None)
            for owner in told - self.corrupt:
                answers = sum(c in thins for c in self.drawn[owner] & names)
                (seeds if owner in alive else keys)[owner] += answers
        for owner in range(len(self.drawn)):
            bad = len(self.drawn[owner] & self.corrupt)
            seeds[owner], keys[owner] = seeds[owner] + bad, keys[owner] + bad
        least = self.terms.threshold
        rows = {c: self._row(c, sharers, keys, least, left_out) for c in sharers if seeds[c] >= least}
        noise = {c: Fraction(1, thins.get(c, self.terms.smallest_cohort) - self.terms.corrupt) for c in rows}
        return [(some, sum((noise[c] for c in some), Fraction(0))) for some in components(rows)]

    def _row(
        self, client: int, sharers: dict[int, Some], keys: Counter[int], least: int, left_out: Some
    ) -> set[Hashable]:
        row: set[Hashable] = set()
        if keys[client] >= least:
            return row
        for other in sharers[client] - self.corrupt - {client}:
            drew, drawn = other in self.drawn[client], client in self.drawn[other]
            drawn = drawn and not (other in left_out and client not in left_out)
            if (drew or drawn) and keys[other] < least:
                row.add((min(client, other), max(client, other), id(sharers[client])))
        return row


def components(rows: dict[int, set[Hashable]]) -> list[Some]:
    """Sets of rows whose combination has no mask left: as `algebra.opened`, for masks that stand in two rows."""
    left = dict(rows)
    while True:
        counts = Counter(symbol for row in left.values() for symbol in row)
        alone = [client for client, row in left.items() if any(counts[symbol] == 1 for symbol in row)]
        if not alone:
            break
        for client in alone:
            del left[client]
    owners: dict[Hashable, list[int]] = {}
    for client, row in left.items():
        for symbol in row:
            owners.setdefault(symbol, []).append(client)
    found, seen = [], set[int]()
    for start in left:
        if start in seen:
            continue
        group, queue = {start}, [start]
        while queue:
            for symbol in left[queue.pop()]:
                for other in owners[symbol]:
                    if other not in group:
                        group.add(other)
                        queue.append(other)
        seen |= group
        found.append(frozenset(group))
    return found


def lie(wide: Wide, rng: np.random.Generator) -> tuple[dict[int, Some], dict[int, Some], Some]:
    """One attempt of a server that has seen who drew whom: sharers, survivors, and whose boxes it keeps to itself."""
    size = len(wide.drawn)
    everybody, spare = frozenset(range(size)), size - wide.terms.consents
    honest = sorted(everybody - wide.corrupt)
    match rng.integers(4):
        case 0:  # starve: some holders of a victim die, the others are hidden from it
            victim = int(rng.choice(honest))
            around = rng.permutation(sorted(wide.drawn[victim] - {victim} - wide.corrupt)).tolist()
            gone = frozenset(around[: int(rng.integers(0, min(spare, len(around)) + 1))])
            hidden = frozenset(around) - gone
            told = everybody - hidden if size - len(hidden) >= wide.terms.consents else everybody
            views = dict.fromkeys(honest, everybody) | {victim: told}
            return views, dict.fromkeys(honest, everybody - gone), everybody - {victim}
        case 1:  # cut off: a group whose other neighbours die
            group = {int(rng.choice(honest))}
            while len(group) < rng.integers(2, size):
                near = sorted(set().union(*(wide.drawn[c] for c in group)) - group - wide.corrupt)
                if len(near) <= spare or not near:
                    break
                group.add(int(rng.choice(near)))
            border = set().union(*(wide.drawn[c] for c in group)) - group - wide.corrupt
            gone = frozenset(rng.permutation(sorted(border)).tolist()[:spare])
            alive = everybody - gone
            return dict.fromkeys(honest, everybody), dict.fromkeys(honest, alive), alive - group
        case 2:  # two stories
            half = frozenset(rng.permutation(size).tolist()[: size // 2])
            gone = frozenset(rng.permutation(size).tolist()[: int(rng.integers(1, spare + 1))])
            stories = {c: everybody if c in half else everybody - gone for c in honest}
            return dict.fromkeys(honest, everybody), stories, frozenset()
        case _:  # at random
            gone = frozenset(rng.permutation(size).tolist()[: int(rng.integers(0, spare + 1))])
            other = everybody - frozenset(rng.permutation(size).tolist()[: int(rng.integers(0, spare + 1))])
            few = rng.choice([0.0, 0.0, 0.02, 0.3])
            views = {c: other if rng.random() < few else everybody for c in honest}
            hides = frozenset(rng.permutation(size).tolist()[: int(rng.choice([0, 1, 3, size // 4]))])
            return views, dict.fromkeys(honest, everybody - gone), hides


def search(name: str, seconds: float, seed: int = 0, sizes: tuple[int, ...] = (48, 100, 200)) -> Report:
    """Lies at random for so long, and reports."""
    rng, report, begun = np.random.default_rng(seed), Report(name), process_time()
    while process_time() < begun + seconds and not report.attacks:
        wide = Wide.draw(int(rng.choice(sizes)), rng)
        for _ in range(20):
            report.states += 1
            views, stories, left_out = lie(wide, rng)
            report.lies += len(views) + len(stories)
            for some, noise in wide.play(views, stories, left_out):
                report.sums[len(some)] += 1
                if len(some) < wide.terms.smallest_cohort - wide.terms.corrupt or noise < 1:
                    report.attacks.append(
                        f"ATTACK: a sum of {len(some)} of {len(wide.drawn)} opens with {float(noise):.3f} of the noise"
                    )
    report.seconds = process_time() - begun
    return report
