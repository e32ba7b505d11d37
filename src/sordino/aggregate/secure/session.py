"""A whole secure sum in one process: every client, the server, and whoever vanishes on the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import numpy as np

from sordino.aggregate.integers import UIntArray, reduce, to_residues, word
from sordino.aggregate.secure.checks import check_enough
from sordino.aggregate.secure.client import Client
from sordino.aggregate.secure.errors import TooFewClients
from sordino.aggregate.secure.graph import Graph, Topology
from sordino.aggregate.secure.keys import Identity
from sordino.aggregate.secure.masks import Mask, add_masks, opposite, pair_mask, self_mask
from sordino.aggregate.secure.server import Server
from sordino.aggregate.secure.terms import Terms
from sordino.errors import RecipeError
from sordino.types import IntArray

Stage = Literal["advertise", "share", "mask", "consent", "unmask"]
STAGES: tuple[Stage, ...] = get_args(Stage)

Fidelity = Literal["exact", "masked", "full"]
"""How much of the protocol a simulation plays: integer arithmetic; masks too; or everything, keys and signatures."""

Dropouts = Mapping[Stage, Collection[int]]
"""Who vanishes, by the first message that it does not send (having sent all before)."""

Vectors = Callable[[int], UIntArray]
"""Given a client, returns its vector."""

Reveal = Callable[[int, int], IntArray]
"""Given a client and the number of survivors, returns the part of its vector that it reveals, to be subtracted."""

Listen = Callable[[Stage, int, bytes], None]
"""Is told every message that a client sends: stage, client, bytes."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of one stage, summed over the clients that took part in it."""

    clients: int = 0
    sent: int = 0
    received: int = 0


@dataclass(frozen=True)
class SecureSum:
    """The total of the survivors' vectors (residues), less what the `responders` among them revealed."""

    total: UIntArray
    survivors: IntArray
    responders: IntArray
    traffic: Mapping[Stage, Traffic] = field(default_factory=dict)
    """What clients sent, and received in answer, by stage (`full` only)."""


def secure_sum(
    vectors: UIntArray,
    *,
    clients: IntArray,
    modulus_bits: int,
    topology: Topology,
    round_: int = 0,
    dropouts: Dropouts | None = None,
    fidelity: Fidelity = "exact",
    reveal: Reveal | None = None,
) -> SecureSum:
    """Sums one vector a client modulo 2^modulus_bits, over the clients that survive.

    Args:
        vectors: residues `[clients, d]` (see `integers.to_residues`), noise shares included.
        clients: ids, distinct and increasing.
        modulus_bits: b.
        topology: neighbours, threshold and smallest cohort (see `graph.choose`).
        round_: the round, to which all keys are bound.
        dropouts: who vanishes, and when.
        fidelity: how much of the protocol is played. The result is the same for all three.
        reveal: the removable part of a client's vector, once the number of survivors is known.

    Raises:
        TooFewClients: too few are left at some stage; nothing was learnt, and nothing is released.

    **Formal guarantees**: exactly Σ survivors' vectors − Σ responders' revealed parts, modulo 2^b. In `full`, what the
    server receives is what `Server` receives in a deployment. The other two prove nothing about a server; they are
    for simulations in which nobody looks.
    **Edge cases**: on a sparse graph `full` may abort where a neighbourhood loses too many (see `graph.choose`), which
    the other two do not look for.
    """
    terms = Terms(
        round_=round_,
        width=vectors.shape[1],
        modulus_bits=modulus_bits,
        threshold=topology.threshold,
        smallest_cohort=topology.smallest_cohort,
        degree=topology.degree,
        reveals=reveal is not None,
    )
    if vectors.dtype != word(modulus_bits) or len(vectors) != len(clients) or (np.diff(clients) <= 0).any():
        raise RecipeError(
            f"secure_sum needs one row of {word(modulus_bits).__name__} residues a client, and increasing client ids"
        )
    rows = dict(zip(clients.tolist(), vectors, strict=True))
    play = {"exact": play_exact, "masked": play_masked, "full": play_full}[fidelity]
    return play(terms, clients, rows.__getitem__, dropouts or {}, reveal)


def _present(clients: IntArray, dropouts: Dropouts, stage: Stage) -> IntArray:
    """Returns who still sends the message of a stage."""
    gone = [client for earlier in STAGES[: STAGES.index(stage) + 1] for client in dropouts.get(earlier, ())]
    return np.setdiff1d(clients, np.array(gone, np.int64))


def _outcome(terms: Terms, clients: IntArray, dropouts: Dropouts) -> tuple[IntArray, IntArray]:
    """Returns survivors and responders, or aborts as the protocol would."""
    for stage in STAGES[:3]:
        check_enough(terms, len(_present(clients, dropouts, stage)))
    responders = _present(clients, dropouts, "unmask")
    if len(responders) < terms.threshold:
        raise TooFewClients(
            f"{len(responders)} clients answer and {terms.threshold} are needed: nothing is released; ask more clients"
        )
    return _present(clients, dropouts, "mask"), responders


def play_exact(
    terms: Terms, clients: IntArray, vector: Vectors, dropouts: Dropouts, reveal: Reveal | None = None
) -> SecureSum:
    """Plays a secure sum in integer arithmetic alone."""
    survivors, responders = _outcome(terms, clients, dropouts)
    total = np.zeros(terms.width, word(terms.modulus_bits))
    for client in survivors.tolist():
        total += vector(client)
    return _less_revealed(terms, total, survivors, responders, reveal)


def play_masked(
    terms: Terms, clients: IntArray, vector: Vectors, dropouts: Dropouts, reveal: Reveal | None = None
) -> SecureSum:
    """Plays a secure sum with masks, from seeds that are dealt out instead of agreed."""
    survivors, responders = _outcome(terms, clients, dropouts)
    sharers, dealt = _present(clients, dropouts, "share"), os.urandom(32)
    graph = Graph(dealt, len(sharers), terms.degree)
    total = np.zeros(terms.width, word(terms.modulus_bits))
    leftover = list[Mask]()
    for client in survivors.tolist():
        peers = sharers[graph.neighbours(int(np.searchsorted(sharers, client)))].tolist()
        own = (self_mask(dealt, terms.context, client), 1)
        pairs = {peer: pair_mask(dealt, terms.context, client, peer) for peer in peers}
        masked = vector(client).copy()
        add_masks(masked, [own, *pairs.values()])
        total += masked
        vanished = np.setdiff1d(peers, survivors).tolist()
        leftover += [opposite(mask) for mask in (own, *(pairs[peer] for peer in vanished))]
    add_masks(total, leftover)
    return _less_revealed(terms, total, survivors, responders, reveal)


def _less_revealed(
    terms: Terms, total: UIntArray, survivors: IntArray, responders: IntArray, reveal: Reveal | None
) -> SecureSum:
    if reveal is not None:
        for client in responders.tolist():
            total -= to_residues(reveal(client, len(survivors)), terms.modulus_bits)
    return SecureSum(reduce(total, terms.modulus_bits), survivors, responders)


def play_full(
    terms: Terms,
    clients: IntArray,
    vector: Vectors,
    dropouts: Dropouts,
    reveal: Reveal | None = None,
    listen: Listen | None = None,
) -> SecureSum:
    """Plays a secure sum with everything: fresh identities, keys, shares, signatures; every message as bytes."""
    identities = {client: Identity() for client in clients.tolist()}
    registry = {client: identity.public for client, identity in identities.items()}
    server = Server(terms, clients, registry)
    parties = {client: Client(terms, client, identity, registry) for client, identity in identities.items()}
    speak: dict[Stage, Callable[[Client, bytes], bytes]] = {
        "advertise": lambda party, _: party.advertise(),
        "share": Client.share,
        "mask": lambda party, heard: party.mask(heard, vector(party.client)),
        "consent": Client.consent,
        "unmask": lambda party, heard: party.unmask(heard, partial(reveal, party.client) if reveal else None),
    }
    traffic, heard = dict[Stage, Traffic](), dict.fromkeys(clients.tolist(), b"")
    for stage in STAGES:
        sent = 0
        present = [client for client in _present(clients, dropouts, stage).tolist() if client in heard]
        for client in present:
            message = speak[stage](parties[client], heard.pop(client))
            server.receive(message)
            sent += len(message)
            if listen:
                listen(stage, client, message)
        heard = server.close() if stage != "unmask" else {}
        traffic[stage] = Traffic(len(present), sent, sum(map(len, heard.values())))
    opened = server.open()
    return SecureSum(opened.total, opened.survivors, opened.responders, traffic)
