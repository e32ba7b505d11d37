"""The findings of the review, put back one by one: which check is taken out, and in which world that shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from sordino.aggregate.secure import client as client_module
from sordino.aggregate.secure import policy as policy_module
from sordino.aggregate.secure.errors import SplitView

from .lies import Report, Search
from .world import World, complete, sparse

FIVE = {0: {1, 2}, 1: {2, 3}, 2: {3, 4}, 3: {4, 0}, 4: {0, 1}}
RING = {0: {1, 2}, 1: {2, 3}, 2: {3, 4}, 3: {4, 5}, 4: {5, 0}, 5: {0, 1}}
SPLIT = {0: {1, 5, 2}, 1: {0, 5, 3}, 2: {3, 4, 0}, 3: {2, 4, 1}, 4: {2, 3, 0}, 5: {2, 3, 4}}


def nothing(*_: object) -> None:
    """A check that checks nothing."""


@contextmanager
def s1() -> Iterator[None]:
    """Nobody looks at its own neighbourhood."""
    with patch.object(client_module, "check_around", nothing):
        yield


@contextmanager
def s2() -> Iterator[None]:
    """The roster may be larger than what the threshold is for."""
    with (
        patch.object(client_module, "check_invited", nothing),
        patch.object(client_module, "check_threshold", nothing),
        patch("sordino.aggregate.secure.wire.most_bytes", lambda *_: 10**6),
    ):
        yield


@contextmanager
def s3() -> Iterator[None]:
    """Clients believe the server's count of survivors, once `threshold` of those around them agree with them."""
    real = client_module.check_consents

    def believed(view, story, alive, consents, registry, own):  # type: ignore[no-untyped-def]
        verified = real(view, story, alive, consents, registry, own)
        if len(verified) < view.terms.threshold:
            raise SplitView("too few around")
        return set(np.flatnonzero(alive).tolist())

    with patch.object(client_module, "check_consents", believed):
        yield


@contextmanager
def s5() -> Iterator[None]:
    """Clients have no floors of their own."""
    with patch.object(policy_module, "_floor", nothing):
        yield


def terms_below_the_floor(name: str, seconds: float) -> Report:
    """Proposes every cohort, threshold and smallest cohort to a client with floors, and plays what it accepts."""
    report = Report(name)
    for clients in (1, 2, 3):
        for least in range(1, clients + 1):
            world = complete(clients, least=least)
            world.policy = policy_module.SumPolicy(3, 2)
            report.lies += 1
            try:
                world.policy.check(world.terms, 0)
            except policy_module.BelowPolicy:
                continue
            found = Search(world, name, 3, seconds, first=True).run()
            report.states, report.lies = report.states + found.states, report.lies + found.lies
            report.asked, report.sums = report.asked + found.asked, report.sums + found.sums
            report.attacks += found.attacks
            report.seconds += found.seconds
    return report


DEFECTS: dict[str, tuple[Callable[[], object], Callable[[], Report]]] = {
    "S1": (s1, lambda: Search(sparse(RING, 2, 2, 2), "S1 put back", 2, 120, first=True).run()),
    "S2": (s2, lambda: Search(complete(4, strangers=2), "S2 put back", 3, 120, first=True).run()),
    "S3": (s3, lambda: Search(sparse(SPLIT, 3, 5), "S3 put back", 5, 120, first=True).run()),
    "S5": (s5, lambda: terms_below_the_floor("S5 put back", 60)),
}


def worlds(long: bool) -> list[tuple[str, World, int]]:
    """The worlds in which nothing must be found: name, world, fewest honest inputs that a sum may have."""
    made = [
        ("3 clients", complete(3), 2),
        ("4 clients", complete(4), 3),
        ("4 clients, a stranger", complete(4, strangers=1), 3),
        ("4 clients, 1 corrupt", complete(4, corrupt=1), 2),
        ("5 clients, 1 corrupt", complete(5, corrupt=1), 3),
        ("4 clients, consents by tags", complete(4, tagged=True), 3),
        ("5 clients, 1 corrupt, consents by tags", complete(5, corrupt=1, tagged=True), 3),
        ("5 clients on a ring of 2", sparse(FIVE, 2, 2, 1), 2),
        ("6 clients, 3 holders", sparse(SPLIT, 3, 5), 5),
    ]
    if long:
        made += [
            ("5 clients", complete(5), 3),
            ("5 clients, a stranger", complete(5, strangers=1), 3),
            ("6 clients, 1 corrupt", complete(6, corrupt=1), 3),
            ("6 clients", complete(6), 4),
            ("6 clients on a ring of 2", sparse(RING, 2, 2, 2), 2),
        ]
    return made
