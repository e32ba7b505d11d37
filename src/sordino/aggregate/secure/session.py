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
from sordino.aggregate.secure.client import SumClient
from sordino.aggregate.secure.errors import TooFewClients
from sordino.aggregate.secure.graph import Topology, draw_holders
from sordino.aggregate.secure.keys import Identity, derive
from sordino.aggregate.secure.masks import Mask, add_masks, opposite, pair_mask, self_mask
from sordino.aggregate.secure.policy import SumPolicy
from sordino.aggregate.secure.server import SumServer
from sordino.aggregate.secure.terms import SumTerms, client_ids
from sordino.errors import RecipeError
from sordino.types import IntArray

SumStage = Literal["advertise", "share", "mask", "consent", "unmask"]
STAGES: tuple[SumStage, ...] = get_args(SumStage)

Fidelity = Literal["exact", "masked", "full"]
"""How much of the protocol a simulation plays: integer arithmetic; masks too; or everything, keys and signatures."""

Dropouts = Mapping[SumStage, Collection[int]]
"""Who vanishes, by the first message that it does not send (having sent all before)."""

Vectors = Callable[[int], UIntArray]
"""Given a client, returns its vector."""

RemovableParts = Callable[[int, int], IntArray]
"""Given a client and how many survivors are certain, returns the part of its vector that it reveals."""

Listen = Callable[[SumStage, int, bytes], None]
"""Is told every message that a client sends: stage, client, bytes."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of one stage, summed over the clients that took part in it."""

    clients: int = 0
    sent: int = 0
    received: int = 0


@dataclass(frozen=True)
class SumOutcome:
    """The total of the survivors' vectors (residues), less what the `responders` among them revealed."""

    total: UIntArray
    survivors: IntArray
    responders: IntArray
    traffic: Mapping[SumStage, Traffic] = field(default_factory=dict)
    """What clients sent, and received in answer, by stage (`full` only)."""
    blamed: Mapping[int, str] = field(default_factory=dict)
    """Who broke the rules, and how (`full` only): leave them out of the next round."""


def secure_sum(
    vectors: UIntArray,
    *,
    clients: IntArray,
    modulus_bits: int,
    topology: Topology,
    round_: int = 0,
    dropouts: Dropouts | None = None,
    fidelity: Fidelity = "exact",
    reveal: RemovableParts | None = None,
    mechanism: bytes = bytes(32),
    policy: SumPolicy | None = None,
    run: str = "",
) -> SumOutcome:
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
        mechanism: digest of what the clients put in (`SumMechanism.digest`), to which all keys are bound.
        policy: what the clients ask for (`full` only; by default, the terms' own floors and 2^-40 on sparse graphs).
        run: name of the run, to which all keys are bound.

    Raises:
        TooFewClients: too few are left at some stage; nothing was learnt, and nothing is released.

    **Formal guarantees**: exactly Σ survivors' vectors − Σ responders' revealed parts, modulo 2^b. In `full`, what the
    server receives is what `SumServer` receives in a deployment. The other two prove nothing about a server; they are
    for simulations, which have no server to hide anything from.
    **Edge cases**: on a sparse graph `full` may abort where a neighbourhood loses too many (see `graph.choose`), which
    the other two do not look for.
    """
    terms = sum_terms(
        clients,
        topology,
        vectors.shape[1],
        modulus_bits,
        round_=round_,
        reveals=reveal is not None,
        mechanism=mechanism,
        run=run,
    )
    if vectors.dtype != word(modulus_bits) or len(vectors) != len(clients) or (np.diff(clients) <= 0).any():
        raise RecipeError(
            f"secure_sum needs one row of {word(modulus_bits).__name__} residues a client, and increasing client ids"
        )
    rows = dict(zip(clients.tolist(), vectors, strict=True))
    if fidelity == "full":
        return play_full(terms, clients, rows.__getitem__, dropouts or {}, reveal, policy=policy)
    play = {"exact": play_exact, "masked": play_masked}[fidelity]
    return play(terms, clients, rows.__getitem__, dropouts or {}, reveal)


def sum_terms(
    clients: IntArray, topology: Topology, width: int, modulus_bits: int, *, round_: int = 0, reveals: bool = False,
    mechanism: bytes = bytes(32), attempt: int = 0, federation: str = "", run: str = "", tagged: bool = False,
) -> SumTerms:  # fmt: skip
    """Returns the terms of a sum over a cohort that is connected like this."""
    return SumTerms(
        round_=round_,
        clients=client_ids(clients.tolist()),
        width=width,
        modulus_bits=modulus_bits,
        threshold=topology.threshold,
        smallest_cohort=topology.smallest_cohort,
        degree=topology.degree,
        margin=topology.margin,
        corrupt=topology.corrupt,
        reveals=reveals,
        mechanism=mechanism,
        attempt=attempt,
        federation=federation,
        run=run,
        tagged=tagged,
    )


def _present(clients: IntArray, dropouts: Dropouts, stage: SumStage) -> IntArray:
    """Returns who still sends the message of a stage."""
    gone = [client for earlier in STAGES[: STAGES.index(stage) + 1] for client in dropouts.get(earlier, ())]
    return np.setdiff1d(clients, np.array(gone, np.int64))


def _outcome(terms: SumTerms, clients: IntArray, dropouts: Dropouts) -> tuple[IntArray, IntArray, int]:
    """Returns survivors, responders, and how many survivors are certain; or aborts as the protocol would."""
    for stage in STAGES[:4]:
        check_enough(terms, len(consenting := _present(clients, dropouts, stage)))
    responders = _present(clients, dropouts, "unmask")
    if len(responders) < terms.threshold:
        raise TooFewClients(
            f"{len(responders)} clients answer and {terms.threshold} are needed: nothing is released; ask more clients"
        )
    return _present(clients, dropouts, "mask"), responders, len(consenting) - terms.margin


def play_exact(
    terms: SumTerms, clients: IntArray, vector: Vectors, dropouts: Dropouts, reveal: RemovableParts | None = None
) -> SumOutcome:
    """Plays a secure sum in integer arithmetic alone."""
    survivors, responders, certain = _outcome(terms, clients, dropouts)
    total = np.zeros(terms.width, word(terms.modulus_bits))
    for client in survivors.tolist():
        total += vector(client)
    return _less_revealed(terms, total, survivors, responders, reveal, certain)


def play_masked(
    terms: SumTerms, clients: IntArray, vector: Vectors, dropouts: Dropouts, reveal: RemovableParts | None = None
) -> SumOutcome:
    """Plays a secure sum with masks, from seeds that are dealt out instead of agreed."""
    survivors, responders, certain = _outcome(terms, clients, dropouts)
    sharers, dealt = _present(clients, dropouts, "share"), os.urandom(32)
    partners = _dealt_partners(sharers, terms.degree, dealt)
    total = np.zeros(terms.width, word(terms.modulus_bits))
    leftover = list[Mask]()
    for client in survivors.tolist():
        own = (self_mask(dealt, terms.context, client), 1)
        pairs = {peer: pair_mask(dealt, terms.context, client, peer) for peer in partners[client]}
        masked = vector(client).copy()
        add_masks(masked, [own, *pairs.values()])
        total += masked
        vanished = np.setdiff1d(list(pairs), survivors).tolist()
        leftover += [opposite(mask) for mask in (own, *(pairs[peer] for peer in vanished))]
    add_masks(total, leftover)
    return _less_revealed(terms, total, survivors, responders, reveal, certain)


def _dealt_partners(sharers: IntArray, degree: int, dealt: bytes) -> dict[int, set[int]]:
    """Returns who masks with whom: those that a client draws, and those that draw it."""
    partners: dict[int, set[int]] = {client: set() for client in sharers.tolist()}
    for place, client in enumerate(sharers.tolist()):
        drawn = draw_holders(derive(dealt, bytes(32), "holders", client), len(sharers), place, degree)
        for peer in sharers[drawn].tolist():
            if peer != client:
                partners[client].add(peer)
                partners[peer].add(client)
    return partners


def _less_revealed(
    terms: SumTerms,
    total: UIntArray,
    survivors: IntArray,
    responders: IntArray,
    reveal: RemovableParts | None,
    certain: int,
) -> SumOutcome:
    if reveal is not None:
        for client in responders.tolist():
            total -= to_residues(reveal(client, certain), terms.modulus_bits)
    return SumOutcome(reduce(total, terms.modulus_bits), survivors, responders)


def play_full(
    terms: SumTerms,
    clients: IntArray,
    vector: Vectors,
    dropouts: Dropouts,
    reveal: RemovableParts | None = None,
    listen: Listen | None = None,
    policy: SumPolicy | None = None,
    identities: Mapping[int, Identity] | None = None,
) -> SumOutcome:
    """Plays a secure sum with everything: identities, keys, shares, signatures; every message as bytes."""
    identities = identities or {client: Identity() for client in clients.tolist()}
    registry = {client: identity.public for client, identity in identities.items()}
    policy = policy or SumPolicy(terms.smallest_cohort, terms.threshold)  # everybody here trusts this process anyway
    server = SumServer(terms, registry)
    parties = {client: SumClient(terms, client, identity, registry, policy) for client, identity in identities.items()}
    speak: dict[SumStage, Callable[[SumClient, bytes], bytes]] = {
        "advertise": lambda party, _: party.advertise(),
        "share": SumClient.share,
        "mask": lambda party, heard: party.mask(heard, vector(party.client)),
        "consent": SumClient.consent,
        "unmask": lambda party, heard: party.unmask(heard, partial(reveal, party.client) if reveal else None),
    }
    traffic, heard = dict[SumStage, Traffic](), dict.fromkeys(clients.tolist(), b"")
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
    return SumOutcome(opened.total, opened.survivors, opened.responders, traffic, opened.blamed)
