"""Fuzzes the decoders and both state machines of the secure sum with atheris (`pip install atheris`; not a test).

    python tests/fuzz/secure_messages.py -max_total_time=600
    SORDINO_TAGGED=1 python tests/fuzz/secure_messages.py -max_total_time=600     (consents by tags)

The first byte picks a target: a body's parser, or a server or client at one stage, for which the rest is given a valid
header and, from a client, a valid signature, so that the fuzzer gets past both; it starts from honest messages. Only a
`ProtocolError` may come out, and a message that was refused must leave the server as it was: now and then the round is
finished, and its sum checked.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["sordino.aggregate"]):
    import numpy as np

    from sordino.aggregate.secure import messages
    from sordino.aggregate.secure.client import SumClient
    from sordino.aggregate.secure.keeper import MemoryKeeper
    from sordino.aggregate.secure.keys import Identity
    from sordino.aggregate.secure.policy import SumPolicy
    from sordino.aggregate.secure.server import SumServer
    from sordino.aggregate.secure.session import STAGES
    from sordino.aggregate.secure.state import SumState
    from sordino.aggregate.secure.terms import SumTerms
    from sordino.aggregate.secure.wire import (
        HEADER,
        MessageKind,
        Reader,
        from_client,
        from_server,
        open_client,
        open_server,
    )
    from sordino.errors import ProtocolError

TAGGED = bool(os.environ.get("SORDINO_TAGGED"))
TERMS = SumTerms(1, (1, 2, 3), 5, 20, threshold=2, smallest_cohort=2, reveals=True, tagged=TAGGED)
POLICY = SumPolicy(2, 2)
IDS = [1, 2, 3]
IDENTITIES = {client: Identity() for client in IDS}
REGISTRY = {client: identity.public for client, identity in IDENTITIES.items()}
SENT = (MessageKind.ADVERTISE, MessageKind.SHARES, MessageKind.MASKED, MessageKind.CONSENT, MessageKind.UNMASK)
HEARD = (MessageKind.ROSTER, MessageKind.INBOX, MessageKind.SURVIVORS, MessageKind.REQUEST)
REVEALED = np.arange(5)


def say(party: SumClient, stage: str, heard: bytes) -> bytes:
    match stage:
        case "advertise":
            return party.advertise()
        case "mask":
            return party.mask(heard, np.ones(5, np.uint32))
        case "unmask":
            return party.unmask(heard, lambda survivors: REVEALED)
        case _:
            return getattr(party, stage)(heard)


class Round:
    """A round that stops before one stage."""

    def __init__(self, stage: int) -> None:
        self.stage = stage
        self.server = SumServer(TERMS, REGISTRY)
        self.clients = {client: SumClient(TERMS, client, IDENTITIES[client], REGISTRY, POLICY) for client in IDS}
        self.heard = dict.fromkeys(IDS, b"")
        for name in STAGES[:stage]:
            self.play(name)
        self.saved = self.clients[1]._state.pack()

    def play(self, name: str) -> None:
        for client, heard in self.heard.items():
            self.server.receive(say(self.clients[client], name, heard))
        self.heard = self.server.close() if name != "unmask" else {}

    def to_server(self, data: bytes) -> bool:
        """Whether the server accepted it (properly signed by client 1)."""
        self.server.receive(from_client(TERMS, SENT[self.stage], 1, data, IDENTITIES[1]))
        return True

    def to_client(self, data: bytes) -> None:
        """A refused message must leave the client as it was; one that is answered takes it further once."""
        message = from_server(TERMS, HEARD[self.stage - 1], data)
        try:
            say(self.clients[1], STAGES[self.stage], message)
        except ProtocolError:
            assert self.clients[1]._state.pack() == self.saved, "a refused message left its mark"
            raise
        self.restore()

    def restore(self) -> None:
        """Puts client 1 back to where the round stops."""
        state = SumState.parse(self.saved)
        keeper = MemoryKeeper()
        keeper.claim(state, 1)
        self.clients[1] = SumClient.resume(TERMS, IDENTITIES[1], REGISTRY, POLICY, keeper)

    def check(self) -> None:
        self.restore()
        for name in STAGES[self.stage :]:
            self.play(name)
        assert (self.server.open().total == (3 - 3 * REVEALED) % 2**20).all(), "a refused message left its mark"


ROUNDS = [Round(stage) for stage in range(5)]
SEEN = [0] * 5


def server_at(stage: int, data: bytes) -> None:
    SEEN[stage] += 1
    accepted = False
    try:
        accepted = ROUNDS[stage].to_server(data)
    except ProtocolError:
        if SEEN[stage] % 50_000 == 0:
            ROUNDS[stage].check()
            accepted = True
        raise
    finally:
        if accepted:
            ROUNDS[stage] = Round(stage)


def body(kind: type, data: bytes) -> None:
    terms = [TERMS] if kind in (messages.Masked, messages.Unmask) else []
    kind.parse(Reader(data), *terms)


BODIES = (
    messages.Advertise, messages.Roster, messages.Shares, messages.Inbox, messages.Masked, messages.SurvivorList,
    messages.Consent, messages.UnmaskRequest, messages.Unmask,
)  # fmt: skip
TARGETS = [
    *(partial(body, kind) for kind in BODIES),
    *(
        partial(opener, TERMS, kind)
        for opener in (open_client, open_server)
        for kind in (MessageKind.MASKED, MessageKind.ROSTER)
    ),
    *(partial(server_at, stage) for stage in range(5)),
    *(ROUNDS[stage].to_client for stage in range(1, 5)),
    SumTerms.parse,
    SumState.parse,
]


FIRST_SERVER, FIRST_CLIENT = 13, 18


def honest(folder: Path) -> None:
    """Writes what an honest client and an honest server would say, for every target, to start from."""
    for stage in range(5):
        heard = ROUNDS[stage].heard[1][HEADER:]
        said = say(ROUNDS[stage].clients[1], STAGES[stage], ROUNDS[stage].heard[1])
        ROUNDS[stage].restore()
        spoken = said[HEADER + 8 : -64]
        seeds = {2 * stage: spoken, FIRST_SERVER + stage: spoken}
        if stage:
            seeds |= {2 * stage - 1: heard, FIRST_CLIENT + stage - 1: heard}
        seeds |= {FIRST_CLIENT + 4: TERMS.pack(), FIRST_CLIENT + 5: ROUNDS[stage].saved}
        for target, data in seeds.items():
            (folder / f"{target}").write_bytes(bytes([target]) + data)


def test_one_input(data: bytes) -> None:
    if data:
        with suppress(ProtocolError):
            TARGETS[data[0] % len(TARGETS)](data[1:])


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        honest(Path(folder))
        atheris.Setup([*sys.argv, folder], test_one_input)
        atheris.Fuzz()
