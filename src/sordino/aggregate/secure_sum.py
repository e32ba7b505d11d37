"""The secure sum as a part: integers in, integers out, with as much of the protocol played as is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch

from sordino.aggregate.integers import UIntArray, from_residues, reduce, to_residues, word
from sordino.aggregate.plain import require
from sordino.aggregate.secure.errors import TooFewClients
from sordino.aggregate.secure.graph import choose
from sordino.aggregate.secure.session import Dropouts, Fidelity, secure_sum
from sordino.errors import SordinoError
from sordino.mechanism import Reveal, Turn, Vanished
from sordino.stages import Shielded, Summed
from sordino.types import IntArray

Pair = tuple[Shielded, IntArray | None]
"""A chunk of messages, and what its clients reveal."""


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
    modulus_bits: Callable[[Turn], int]
    fidelity: Fidelity = "exact"
    corrupt: float = 0.0
    """Share of a cohort that may work with the server: it raises the protocol's threshold."""

    def sum(self, messages: Iterable[Shielded], turn: Turn, vanished: Vanished, reveal: Reveal) -> Summed:
        survivors = np.setdiff1d(turn.cohort, vanished.silent, assume_unique=True)
        require(len(survivors), len(turn.cohort), self.tolerance)
        bits = self.modulus_bits(turn)
        pairs = ((message, _revealed(message, survivors, turn, reveal)) for message in messages)
        add = self._add if self.fidelity == "exact" else self._play
        total = add(pairs, turn, vanished, bits)
        return Summed(torch.from_numpy(from_residues(total, bits)), survivors, self.denominator)

    def _add(self, pairs: Iterable[Pair], turn: Turn, vanished: Vanished, bits: int) -> UIntArray:
        asked, gone = len(turn.cohort), len(vanished.silent) + len(vanished.unmask)
        majority = (asked + math.floor(self.corrupt * asked)) // 2 + 1
        if asked - gone < majority:
            raise TooFewClients(
                f"{asked - gone} of {asked} clients help to unmask and {majority} are needed: nothing is released; "
                "ask more clients"
            )
        total = np.zeros(len(turn.weights), word(bits))
        for message, revealed in pairs:
            total += to_residues(message.rows.numpy(), bits).sum(0, dtype=total.dtype)
            if revealed is not None:
                answers = ~np.isin(message.clients, vanished.unmask)
                total -= to_residues(revealed[answers], bits).sum(0, dtype=total.dtype)
        return reduce(total, bits)

    def _play(self, pairs: Iterable[Pair], turn: Turn, vanished: Vanished, bits: int) -> UIntArray:
        vectors = np.zeros((len(turn.cohort), len(turn.weights)), word(bits))
        removable = dict[int, IntArray]()
        for message, revealed in pairs:
            vectors[np.searchsorted(turn.cohort, message.clients)] = to_residues(message.rows.numpy(), bits)
            if revealed is not None:
                removable |= zip(message.clients.tolist(), revealed, strict=True)
        dropouts: Dropouts = {
            "share": set(vanished.train.tolist()),
            "mask": set(vanished.upload.tolist()),
            "unmask": set(vanished.unmask.tolist()),
        }
        return secure_sum(
            vectors,
            clients=turn.cohort,
            modulus_bits=bits,
            topology=choose(len(turn.cohort), dropout=self.tolerance, corrupt=self.corrupt),
            round_=turn.round_,
            dropouts=dropouts,
            fidelity=self.fidelity,
            reveal=(lambda client, survivors: removable[client]) if removable else None,
        ).total


def _revealed(message: Shielded, survivors: IntArray, turn: Turn, reveal: Reveal) -> IntArray | None:
    if message.rows.is_floating_point() or message.side:
        raise SordinoError("a secure sum adds rows of integers and nothing else: use a perturber that rounds")
    revealed = reveal(message, survivors, turn)
    return None if revealed is None else revealed.numpy()
