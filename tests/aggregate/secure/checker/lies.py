"""All lies that a server can tell: rosters, sharers, survivors and names, to each client as it pleases.

A client's part in a round is a *view* (the roster and the sharers that it was told, under which it sent its vector)
and, if it got that far, a *story* (the survivors too) to which it put its name. A story is *alive* if, under all the
names that the server can collect for it (those of clients that were told the same, and those of corrupt ones), a client
unmasks. Without a live story no secret is revealed. So the search goes through all sets of live stories with all sets
of clients that put their names to them, and through all views of everybody else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from time import process_time

from .algebra import opened
from .world import Some, World

View = tuple[Some, Some]
Story = tuple[Some, Some, Some]


@dataclass
class Report:
    """What a search came to."""

    name: str
    states: int = 0
    lies: int = 0
    asked: int = 0
    sums: Counter[int] = field(default_factory=Counter)
    """Sums that were opened, by how many honest inputs they have."""
    attacks: list[str] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = True

    def __str__(self) -> str:
        verdict = self.attacks[0] if self.attacks else "no sum of too few, no noise missing"
        sizes = ", ".join(f"{count} of {size}" for size, count in sorted(self.sums.items())) or "none"
        cut = "" if self.finished else " (stopped)"
        return (
            f"{self.name}: {self.states} states, {self.lies} lies, {self.asked} answers of real clients, sums opened "
            f"(honest inputs): {sizes}; {verdict}{cut} [{self.seconds:.1f} s]"
        )


def subsets(some: Some, least: int = 0) -> Iterator[Some]:
    """All subsets, small ones first."""
    for size in range(least, len(some) + 1):
        for chosen in combinations(sorted(some), size):
            yield frozenset(chosen)


class Search:
    """A lying server's search through one world."""

    def __init__(self, world: World, name: str, floor: int, seconds: float = 60.0, first: bool = False) -> None:
        self.world, self.floor, self.first = world, floor, first
        self.report, self._until = Report(name), process_time() + seconds
        self._numbers, self._view_memo = dict[View, int](), dict[int, list[View]]()
        self._rosters = [r for r in subsets(world.everybody, 1) if world.graph is None or r == world.everybody]

    def run(self) -> Report:
        """Tries everything."""
        begun, families = process_time(), list[dict[Story, Some]]()
        for live in self._families():  # first with nobody else, which finds most
            if self._stop():
                break
            families.append(live)
            self._judge(live, {})
        for live in families:
            for rest in self._rests(live):
                if self._stop():
                    break
                if rest:
                    self._judge(live, rest)
        self.report.seconds, self.report.asked = process_time() - begun, self.world.asked
        return self.report

    def _stop(self) -> bool:
        if process_time() > self._until:
            self.report.finished = False
            return True
        return self.first and bool(self.report.attacks)

    def _views(self, client: int) -> list[View]:
        """All views under which a client sends its vector."""
        views = []
        for roster in self._rosters:
            self.report.lies += 1
            if client not in roster or self.world.shares(client, roster) is None:
                continue
            for sharers in subsets(roster):
                self.report.lies += 1
                if client in sharers and self.world.masked(client, roster, sharers) is not None:
                    views.append((roster, sharers))
        return views

    def _stories(self) -> Iterator[tuple[Story, Some]]:
        """All stories, with those who would put their names to them."""
        for roster in reversed(self._rosters):
            for sharers in subsets(roster):
                able = {c for c in self.world.honest & sharers if self.world.masked(c, roster, sharers) is not None}
                for alive in subsets(sharers) if able else ():
                    self.report.lies += 1
                    names = {c for c in able & alive if self.world.consented(c, roster, sharers, alive) is not None}
                    if names:
                        yield (roster, sharers, alive), frozenset(names)

    def _families(self) -> Iterator[dict[Story, Some]]:
        """All sets of live stories, with disjoint sets of names."""
        alive: list[tuple[Story, Some]] = []
        for story, able in self._stories():
            for names in subsets(able, 1):
                self.report.lies += 1
                if any(self._thins(c, story, names) is not None for c in names):
                    alive.append((story, names))
        alive.sort(key=lambda told: (-len(told[0][0]), -len(told[0][1]), len(told[0][2]), len(told[1])))
        yield {}
        for chosen, names in alive:
            yield {chosen: names}
        for size in (2, 3):
            for family in combinations(alive, size):
                if self._stop():
                    return
                parts = [names for _, names in family]
                if len({story for story, _ in family}) == size and len(frozenset().union(*parts)) == sum(
                    map(len, parts)
                ):
                    yield dict(family)

    def _thins(self, client: int, story: Story, names: Some) -> int | None:
        signed = names | (self.world.corrupt & story[2])
        return self.world.unmasked(client, *story, signed)

    def _rests(self, live: dict[Story, Some]) -> Iterator[dict[int, View]]:
        """All views of those who have put their name to no live story, as far as they matter: their seeds are known."""
        told = frozenset().union(*live.values()) if live else frozenset()
        named = frozenset().union(*(story[2] for story in live)) if live else frozenset()
        free = sorted((self.world.honest & named) - told)
        choices = [[None, *self._memo_views(client)] for client in free]
        for views in product(*choices):
            yield {client: view for client, view in zip(free, views, strict=True) if view is not None}

    def _memo_views(self, client: int) -> list[View]:
        if client not in self._view_memo:
            self._view_memo[client] = self._views(client)
        return self._view_memo[client]

    def _judge(self, live: dict[Story, Some], rest: dict[int, View]) -> None:
        """Decides what the server knows now, and writes down sums of too few, or with too little noise."""
        self.report.states += 1
        views = dict(rest)
        for (roster, sharers, _), names in live.items():
            views |= dict.fromkeys(names, (roster, sharers))
        thins = {c: self._thins(c, story, names) for story, names in live.items() for c in names}
        seeds, keys = self._known(live, views, thins)
        hidden = subsets(self.world.honest) if self.world.graph else [frozenset()]
        for left_out in hidden:
            rows = {c: self._row(c, views, seeds, keys, left_out) for c in views if c in seeds}
            for some in opened(rows):
                self._note(some, live, rest, thins)

    def _known(
        self, live: dict[Story, Some], views: dict[int, View], thins: dict[int, int | None]
    ) -> tuple[Some, Some]:
        """Whose seeds and whose keys the server can recover."""
        known: dict[str, set[int]] = {"seeds": set(), "keys": set()}
        for owner, (roster, _) in views.items():
            holders = self.world.drawn(owner, roster)
            told = {"seeds": len(holders & self.world.corrupt), "keys": len(holders & self.world.corrupt)}
            for (story_roster, sharers, alive), names in live.items():
                if story_roster == roster and owner in sharers:
                    answers = sum(thins[c] is not None for c in names & holders)
                    told["seeds" if owner in alive else "keys"] += answers
            for kind, shares in told.items():
                if shares >= self.world.terms.threshold:
                    known[kind].add(owner)
        # those who never sent a vector may have shared secrets all the same
        for owner in self.world.honest - views.keys():
            for (roster, sharers, alive), names in live.items():
                holders = self.world.drawn(owner, roster)
                answers = sum(thins[c] is not None for c in names & holders) + len(holders & self.world.corrupt)
                if owner in sharers - alive and answers >= self.world.terms.threshold:
                    known["keys"].add(owner)
        return frozenset(known["seeds"]), frozenset(known["keys"])

    def _row(self, client: int, views: dict[int, View], seeds: Some, keys: Some, left_out: Some) -> dict[Hashable, int]:
        """The masks in a client's vector that the server cannot take off."""
        roster, sharers = views[client]
        row: dict[Hashable, int] = {}
        for other in sharers - {client} - self.world.corrupt:
            drew, drawn = other in self.world.drawn(client, roster), client in self.world.drawn(other, roster)
            if not drew and (not drawn or (other in left_out and client not in left_out)):
                continue  # they have no mask together, or the server has kept the other's box to itself
            if other not in keys and client not in keys:
                told = self._numbers.setdefault(views[client], len(self._numbers))
                row[min(client, other), max(client, other), told] = 1 if client < other else -1
        return row

    def _note(self, some: Some, live: dict[Story, Some], rest: dict[int, View], thins: dict[int, int | None]) -> None:
        self.report.sums[len(some)] += 1
        colluders = self.world.terms.corrupt
        counts = [thins.get(c) or self.world.terms.smallest_cohort for c in some]
        noise = sum(Fraction(1, count - colluders) for count in counts)
        if len(some) >= self.floor and noise >= 1:
            return
        what = f"{len(some)} inputs" if len(some) < self.floor else f"{float(noise):.3f} of the noise"
        stories = "; ".join(
            f"{_say(names)} told roster {_say(r)}, sharers {_say(t)}, survivors {_say(s)}"
            for (r, t, s), names in live.items()
        )
        others = "; ".join(f"{c} told roster {_say(r)}, sharers {_say(t)}" for c, (r, t) in rest.items())
        self.report.attacks.append(f"ATTACK: a sum of {_say(some)} opens with {what}: {stories}; {others}")


def _say(some: Some) -> str:
    return "{" + ",".join(map(str, sorted(some))) + "}"
