"""A cast of clients and a server that can be stopped at any stage, so that a test can meddle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from sordino.aggregate.integers import reduce, word
from sordino.aggregate.secure.client import SumClient
from sordino.aggregate.secure.keys import Identity
from sordino.aggregate.secure.policy import SumPolicy
from sordino.aggregate.secure.server import Opened, SumServer
from sordino.aggregate.secure.session import STAGES, SumStage
from sordino.aggregate.secure.terms import SumTerms

IDS = (2, 3, 5, 7, 11)
IDENTITIES = {client: Identity() for client in IDS}
POLICY = SumPolicy(smallest_cohort=3, smallest_threshold=3)
REGISTRY = {client: identity.public for client, identity in IDENTITIES.items()}


@dataclass
class Cast:
    """Five clients and a server in one round; `heard` is what the server last sent to each."""

    terms: SumTerms
    server: SumServer = field(init=False)
    clients: dict[int, SumClient] = field(init=False)
    heard: dict[int, bytes] = field(init=False)
    said: dict[SumStage, dict[int, bytes]] = field(default_factory=dict)
    told: dict[SumStage, dict[int, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server = SumServer(self.terms, REGISTRY)
        self.clients = {client: SumClient(self.terms, client, IDENTITIES[client], REGISTRY, POLICY) for client in IDS}
        self.heard = dict.fromkeys(IDS, b"")

    def vector(self, client: int) -> np.ndarray:
        values = np.random.default_rng((self.terms.round_, client)).integers(0, 2**63, self.terms.width)
        return reduce(values.astype(word(self.terms.modulus_bits)), self.terms.modulus_bits)

    def say(self, stage: SumStage, client: int, heard: bytes | None = None) -> bytes:
        """Lets one client answer what it heard, or something else."""
        party, heard = self.clients[client], self.heard[client] if heard is None else heard
        match stage:
            case "advertise":
                return party.advertise()
            case "share":
                return party.share(heard)
            case "mask":
                return party.mask(heard, self.vector(client))
            case "consent":
                return party.consent(heard)
            case "unmask":
                return party.unmask(heard)

    def play(self, stage: SumStage, without: tuple[int, ...] = ()) -> None:
        """Plays one stage, in which some are silent."""
        self.told[stage] = dict(self.heard)
        self.said[stage] = {client: self.say(stage, client) for client in self.heard if client not in without}
        for message in self.said[stage].values():
            self.server.receive(message)
        self.heard = self.server.close() if stage != "unmask" else {}

    def until(self, stage: SumStage, **without: tuple[int, ...]) -> Cast:
        """Plays all stages before this one."""
        for earlier in STAGES[: STAGES.index(stage)]:
            self.play(earlier, without.get(earlier, ()))
        return self

    def finish(self, **without: tuple[int, ...]) -> Opened:
        """Plays all that is left."""
        for stage in STAGES[len(self.said) :]:
            self.play(stage, without.get(stage, ()))
        return self.server.open()

    def expected(self, *clients: int) -> np.ndarray:
        """The sum that these clients' vectors should give."""
        return reduce(
            np.sum([self.vector(c) for c in clients], 0, word(self.terms.modulus_bits)), self.terms.modulus_bits
        )


TERMS = SumTerms(round_=4, clients=IDS, width=9, modulus_bits=20, threshold=3, smallest_cohort=3)


@pytest.fixture
def cast() -> Callable[..., Cast]:
    """Makes a cast, with other terms than usual if asked."""
    return lambda **changes: Cast(replace(TERMS, **changes))
