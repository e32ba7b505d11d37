"""The secure sum as a part: integers in, integers out, with as much of the protocol played as is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from sordino.aggregate.integers import UIntArray, from_residues, reduce, to_residues, word
from sordino.aggregate.plain import NO_NOISE, StatedNoise, require
from sordino.aggregate.secure.errors import TooFewClients
from sordino.aggregate.secure.graph import Topology, choose
from sordino.aggregate.secure.robust import ONE_CLIENT_CAN_SPOIL
from sordino.aggregate.secure.session import Dropouts, Fidelity, secure_sum
from sordino.aggregate.secure.terms import SumMechanism
from sordino.errors import SordinoError
from sordino.stages import Revealed, Sensitivity, Shielded, Summed
from sordino.terms import Terms, Vanished, without
from sordino.types import IntArray


@dataclass(frozen=True, eq=False)
class SecureTotal:
    """A secure sum under way: what the clients would hand to the protocol."""

    terms: Terms
    bits: int
    sensitivity: Sensitivity | None
    messages: tuple[tuple[IntArray, UIntArray], ...] = ()
    revealed: tuple[tuple[IntArray, IntArray], ...] = ()
    noise: StatedNoise = NO_NOISE


@dataclass(frozen=True)
class SecureSum:
    """Adds the survivors' integer rows modulo 2^b and takes away what they reveal; divides by a public constant.

    `exact` adds residues without cryptography, a chunk of clients at a time; `masked` and `full` hand the cohort's
    residues to the protocol. A client that does not train vanishes after it has sent its keys, one that does not
    upload after it has shared its secrets, and one that does not unmask after its vector is in the sum.

    **Formal guarantees**: the server learns the sum, who is in it, and what was revealed. All fidelities give the same
    sum for the same messages, exactly that of the survivors, unless it wraps (see `modulus_bits`).
    **Edge cases**: too few survivors for the noise, or too few answers to unmask, abort the round: nothing is learned.
    `exact` asks for a majority of the cohort, as the complete graph does; on the sparse graph of a large cohort the
    others count neighbours instead.
    """

    denominator: float
    tolerance: float
    modulus_bits: Callable[[Terms], int]
    fidelity: Fidelity = "exact"
    corrupt: float = 0.0
    """Share of a cohort that may work with the server: it raises the protocol's threshold."""
    scale: float = 1.0
    """How many integers lie between 0 and 1: clients bind it, with clip norm and noise, into all their keys."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a certificate has to say of such sums."""
        return (ONE_CLIENT_CAN_SPOIL,)

    @property
    def shards(self) -> int:
        """Into how many sums a cohort is dealt out."""
        return 1

    def parts(self, terms: Terms) -> list[tuple[Terms, SecureSum]]:
        """Returns the sums that a cohort is dealt out to, each with terms of its own: here one, of everybody."""
        return [(terms, self)]

    def joined(self, sums: Sequence[tuple[Terms, SecureSum, Summed]]) -> Summed:
        """Returns what the sums of `parts` that could be opened give together."""
        ((_, _, only),) = sums
        return only

    def start(self, terms: Terms, sensitivity: Sensitivity | None) -> SecureTotal:
        return SecureTotal(terms, self.modulus_bits(terms), sensitivity)

    def counted(self, terms: Terms, survivors: IntArray) -> IntArray:
        if not len(terms.cohort):
            return survivors
        topology = self.topology(len(terms.cohort))
        return survivors[: max(0, len(survivors) - topology.margin)]

    def add(self, partial: SecureTotal, message: Shielded) -> SecureTotal:
        if message.rows.is_floating_point() or message.side:
            raise SordinoError("a secure sum adds rows of integers and nothing else: use a perturber that rounds")
        rows = to_residues(message.rows.numpy(), partial.bits)
        if self.fidelity == "exact":
            rows = rows.sum(0, dtype=rows.dtype, keepdims=True)
        noise = partial.noise.plus(message, partial.sensitivity)
        return replace(partial, messages=(*partial.messages, (message.clients, rows)), noise=noise)

    def subtract(self, partial: SecureTotal, revealed: Revealed) -> SecureTotal:
        rows: IntArray = revealed.rows.numpy()
        if self.fidelity == "exact":
            rows = rows.sum(0, keepdims=True)
        noise = partial.noise.minus(revealed)
        return replace(partial, revealed=(*partial.revealed, (revealed.clients, rows)), noise=noise)

    def finish(self, partial: SecureTotal, vanished: Vanished) -> Summed:
        cohort = partial.terms.cohort
        survivors = without(cohort, vanished.silent)
        require(len(survivors), len(cohort), self.tolerance)
        if len(cohort) and len(survivors) < (needed := self.topology(len(cohort)).consents):
            raise TooFewClients(
                f"{len(survivors)} of {len(cohort)} clients are left and {needed} are needed: nothing is released; "
                "ask more clients"
            )
        if not len(cohort):
            total = np.zeros(len(partial.terms.weights), word(partial.bits))
        else:
            total = (self._add if self.fidelity == "exact" else self._play)(partial, vanished)
        return Summed(
            torch.from_numpy(from_residues(total, partial.bits)),
            survivors,
            self.denominator,
            partial.noise.total,
            partial.noise.least,
            partial.sensitivity,
        )

    def _add(self, partial: SecureTotal, vanished: Vanished) -> UIntArray:
        asked, gone = len(partial.terms.cohort), len(vanished.silent) + len(vanished.unmask)
        majority = (asked + self.topology(asked).corrupt) // 2 + 1
        if asked - gone < majority:
            raise TooFewClients(
                f"{asked - gone} of {asked} clients help to unmask and {majority} are needed: nothing is released; "
                "ask more clients"
            )
        total = np.zeros(len(partial.terms.weights), word(partial.bits))
        for _, rows in partial.messages:
            total += rows[0]
        for _, removed in partial.revealed:
            total -= to_residues(removed[0], partial.bits)
        return reduce(total, partial.bits)

    def _play(self, partial: SecureTotal, vanished: Vanished) -> UIntArray:
        cohort, bits, topology = partial.terms.cohort, partial.bits, self.topology(len(partial.terms.cohort))
        vectors = np.zeros((len(cohort), len(partial.terms.weights)), word(bits))
        for clients, rows in partial.messages:
            vectors[np.searchsorted(cohort, clients)] = rows
        removable = {
            c: row for clients, rows in partial.revealed for c, row in zip(clients.tolist(), rows, strict=True)
        }
        dropouts: Dropouts = {
            "share": set(vanished.train.tolist()),
            "mask": set(vanished.upload.tolist()),
            "unmask": set(vanished.unmask.tolist()),
        }
        return secure_sum(
            vectors,
            clients=cohort,
            modulus_bits=bits,
            topology=topology,
            round_=partial.terms.round_,
            dropouts=dropouts,
            fidelity=self.fidelity,
            reveal=(lambda client, survivors: removable[client]) if removable else None,
            mechanism=self._mechanism(partial.terms, bits, topology).digest,
        ).total

    def topology(self, cohort: int) -> Topology:
        """Returns threshold, smallest cohort and graph of a cohort of this size."""
        return choose(cohort, dropout=self.tolerance, corrupt=self.corrupt)

    def _mechanism(self, terms: Terms, bits: int, topology: Topology) -> SumMechanism:
        """What the clients of this round put in, as far as its privacy rests on it."""
        clip_norm, noise = terms.knobs.clip_norm, terms.knobs.noise_multiplier
        return SumMechanism(clip_norm, self.scale, noise, topology.smallest_cohort, topology.corrupt, bits)
