"""Noise shares for a cohort that is summed in shards: each shard's sum carries the whole target."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from sordino.mechanism import Perturber
from sordino.perturb.integer_shares import IntegerShares
from sordino.perturb.price import prices, realised
from sordino.stages import Bounded, Kept, Prices, Released, Revealed, Sensitivity, Sent, Summed
from sordino.terms import HONEST_NOISE, CohortShard, Knobs, Sharding, Survivors, Terms, Turn
from sordino.types import IntArray


@dataclass(frozen=True)
class ShardedShares(Perturber):
    """Lets every client add its share for *its shard*, so that each shard's sum is a release with full noise.

    **Formal guarantees**: trust distributed. A unit is in one shard and leaves all others as they are (`Sharding`), so
    the server's view of all shards' sums costs what one of them costs (parallel composition), which is the price of
    `inner`. How shards are combined is post-processing. Against an outsider nothing is gained by the cohort's secrecy:
    whether a shard is large enough to be summed depends on who was asked.
    **Edge cases**: all corrupt clients of the cohort may sit in one shard, and its noise suffices even then. A shard
    that is too small is not summed; its clients send what nobody opens.
    """

    inner: IntegerShares
    sharding: Sharding

    @property
    def arithmetic(self) -> str:
        return self.inner.arithmetic

    def refuses(self, bound: Sensitivity | None) -> str | None:
        return self.inner.refuses(bound)

    def price(self, knobs: Knobs, round_: int = 1) -> Prices:
        inner = self.inner
        multiplier = knobs.noise_multiplier
        return prices(inner.unit, "distributed", inner.adjacency, multiplier, inner._event, True)

    def shield(self, bounded: Bounded, turn: Turn) -> Sent:
        sent = list[tuple[IntArray, Sent]]()
        for shard in self.sharding.shards(turn.terms):
            at = np.flatnonzero(shard.of(bounded.clients))
            if len(at):
                sent.append((at, self._part(shard).shield(_rows(bounded, at), replace(turn, terms=shard.terms))))
        if not sent:
            return self.inner.shield(bounded, turn)
        order = torch.from_numpy(np.argsort(np.concatenate([at for at, _ in sent])))
        messages, kept = [one.message for _, one in sent], [one.kept for _, one in sent if one.kept is not None]
        stated = torch.cat([one.squared_multipliers for one in messages])[order]
        message = bounded.shielded(torch.cat([one.rows for one in messages])[order], stated)
        if len(kept) < len(sent):
            return Sent(message)
        noise = torch.cat([one.noise for one in kept])[order]
        return Sent(message, Kept(bounded.clients, noise, bounded.weights, bounded.norm))

    def reveal(self, kept: Kept, survivors: Survivors, turn: Turn) -> Revealed | None:
        revealed = list[Revealed]()
        for shard in self.sharding.shards(turn.terms):
            at, left = np.flatnonzero(shard.of(kept.clients)), survivors.clients[shard.of(survivors.clients)]
            if len(at) and shard.summed:
                mine = Kept(kept.clients[at], kept.noise[at], kept.weights[at], kept.norm)
                told = self._part(shard).reveal(
                    mine, replace(survivors, clients=left), replace(turn, terms=shard.terms)
                )
                revealed += [] if told is None else [told]
        if not revealed:
            return None
        clients = np.concatenate([one.clients for one in revealed])
        order = torch.from_numpy(np.argsort(clients))
        return Revealed(
            np.sort(clients),
            torch.cat([one.rows for one in revealed])[order],
            torch.cat([one.squared_multipliers for one in revealed])[order],
        )

    def release(self, summed: Summed, turn: Turn) -> Released:
        if summed.empty:
            return self.inner.release(summed, turn)
        mean = summed.total.double() / (self.inner.rounding.scale * summed.weight)
        stddev = math.sqrt(max(0.0, summed.squared_multiplier)) * summed.norm / summed.weight
        honest = float(summed.side[HONEST_NOISE].min())
        return Released(mean.to(turn.weights.dtype), stddev, realised(self, turn, honest))

    def modulus_bits(self, terms: Terms, corrupt: float = 0.0) -> int:
        """Returns the bits with which the sum of a shard does not wrap."""
        return replace(self.inner, corrupt=corrupt).modulus_bits(terms)

    def _part(self, shard: CohortShard) -> IntegerShares:
        return replace(self.inner, corrupt=shard.corrupt)


def _rows(bounded: Bounded, at: IntArray) -> Bounded:
    return replace(
        bounded,
        clients=bounded.clients[at],
        rows=bounded.rows[at],
        weights=bounded.weights[at],
        clipped=bounded.clipped[at],
        state=None,
    )
