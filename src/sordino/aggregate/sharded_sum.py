"""A cohort summed in shards, each securely, and combined by a rule that one spoilt shard cannot sway."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import torch
from torch import Tensor

from sordino.aggregate.secure.errors import TooFewClients
from sordino.aggregate.secure.robust import SHARDS_ARE_RELEASES, RobustRule, combine_shards
from sordino.aggregate.secure_sum import SecureSum, SecureTotal
from sordino.errors import ProtocolError
from sordino.stages import Revealed, Sensitivity, Shielded, Summed
from sordino.terms import HONEST_NOISE, CohortShard, Sharding, Terms, Vanished
from sordino.types import IntArray


@dataclass(frozen=True, eq=False)
class ShardTotals:
    """Secure sums of all shards under way."""

    terms: Terms
    sensitivity: Sensitivity | None
    shards: tuple[CohortShard, ...]
    totals: tuple[SecureTotal, ...]


@dataclass(frozen=True)
class ShardedSum(SecureSum):
    """Deals a cohort out to shards, sums each by itself (`SecureSum`), and combines their sums entry by entry.

    **Formal guarantees**: the server learns one sum a shard, each with the whole noise (`perturb/sharded.py` has the
    price). Bad clients that sit in at most `trim` shards (for the median: in fewer than half) move no coordinate of the
    result beyond what the other shards' sums span, whatever they send.
    **Edge cases**: a shard that is too small, or loses too many clients, is left out; if 2·trim or fewer are left, or
    fewer than 3, the round is aborted. Shards are taken to hold equal parts of the cohort, so the result is divided by
    the public denominator like every other. The mean over s shards carries s times the variance of one sum.
    **Reference**: Yin, Chen, Ramchandran, Bartlett (2018), "Byzantine-Robust Distributed Learning".
    """

    sharding: Sharding = field(default=Sharding(3, 0.0, 0.0))
    rule: RobustRule = "trimmed_mean"
    trim: int = 1
    shard_bits: Callable[[Terms, float], int] | None = None
    """Given a shard's terms and corrupt share, returns the bits of its modulus."""

    @property
    def shards(self) -> int:
        """How many there are."""
        return self.sharding.count

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a certificate has to say of such sums."""
        return (SHARDS_ARE_RELEASES,)

    def parts(self, terms: Terms) -> list[tuple[Terms, SecureSum]]:
        """Returns the sum of each shard that is large enough."""
        return [(shard.terms, self._part(shard)) for shard in self.sharding.shards(terms) if shard.summed]

    def joined(self, sums: Sequence[tuple[Terms, SecureSum, Summed]]) -> Summed:
        """Returns the shards' sums, combined by the rule; too few abort the round."""
        honest = [_honest(part.corrupt, terms, one) for terms, part, one in sums]
        return self._combined([one for _, _, one in sums], honest)

    def start(self, terms: Terms, sensitivity: Sensitivity | None) -> ShardTotals:  # type: ignore[override]
        shards = tuple(shard for shard in self.sharding.shards(terms) if shard.summed)
        totals = tuple(self._part(shard).start(shard.terms, sensitivity) for shard in shards)
        return ShardTotals(terms, sensitivity, shards, totals)

    def counted(self, terms: Terms, survivors: IntArray) -> IntArray:
        shards = [shard for shard in self.sharding.shards(terms) if shard.summed]
        counted = [self._part(shard).counted(shard.terms, survivors[shard.of(survivors)]) for shard in shards]
        return np.sort(np.concatenate([survivors[:0], *counted]))

    def add(self, partial: ShardTotals, message: Shielded) -> ShardTotals:  # type: ignore[override]
        totals = []
        for shard, total in zip(partial.shards, partial.totals, strict=True):
            at = np.flatnonzero(shard.of(message.clients))
            totals.append(self._part(shard).add(total, _messages(message, at)) if len(at) else total)
        return replace(partial, totals=tuple(totals))

    def subtract(self, partial: ShardTotals, revealed: Revealed) -> ShardTotals:  # type: ignore[override]
        totals = []
        for shard, total in zip(partial.shards, partial.totals, strict=True):
            at = np.flatnonzero(shard.of(revealed.clients))
            mine = Revealed(revealed.clients[at], revealed.rows[at], revealed.squared_multipliers[at])
            totals.append(self._part(shard).subtract(total, mine) if len(at) else total)
        return replace(partial, totals=tuple(totals))

    def finish(self, partial: ShardTotals, vanished: Vanished) -> Summed:  # type: ignore[override]
        if not len(partial.terms.cohort):
            return self._whole.finish(self._whole.start(partial.terms, partial.sensitivity), vanished)
        summed, honest = list[Summed](), list[float]()
        for shard, total in zip(partial.shards, partial.totals, strict=True):
            gone = Vanished(*(_within(shard, some) for some in (vanished.train, vanished.upload, vanished.unmask)))
            try:
                one = self._part(shard).finish(total, gone)
            except ProtocolError:
                continue  # that shard is not opened; the others are
            summed.append(one)
            honest.append(_honest(shard.corrupt, shard.terms, one))
        return self._combined(summed, honest)

    def _combined(self, summed: list[Summed], honest: list[float]) -> Summed:
        if len(summed) < max(3, 2 * self.trim + 1 if self.rule == "trimmed_mean" else 3):
            raise TooFewClients(
                f"{len(summed)} of {self.shards} shards could be summed: nothing is released; ask more clients, or set "
                "aggregate.shards lower"
            )
        sums = torch.stack([one.total for one in summed]).double().numpy()
        middle = combine_shards(sums, np.ones(len(summed), np.int64), self.rule, self.trim)
        spread = math.pi / 2 if self.rule == "median" else 1.0
        noise = sum(one.squared_multiplier for one in summed) / len(summed) ** 2 * spread
        return Summed(
            torch.from_numpy(self.shards * middle),
            np.sort(np.concatenate([one.survivors for one in summed])),
            self.denominator,
            noise * self.shards**2,
            min(one.least_squared_multiplier for one in summed),
            summed[0].sensitivity,
            {HONEST_NOISE: torch.tensor(honest, dtype=torch.float64)},
        )

    @property
    def _whole(self) -> SecureSum:
        return SecureSum(**{each.name: getattr(self, each.name) for each in fields(SecureSum)})

    def _part(self, shard: CohortShard) -> SecureSum:
        bits = self.shard_bits
        own = self.modulus_bits if bits is None else (lambda terms: bits(terms, shard.corrupt))
        return replace(self._whole, corrupt=shard.corrupt, modulus_bits=own)


def _honest(corrupt: float, terms: Terms, summed: Summed) -> float:
    """Returns the noise of a shard's sum that does not come from colluders, if all of them sit in it."""
    bad = round(corrupt * len(terms.cohort))
    return summed.squared_multiplier * (len(summed.survivors) - bad) / len(summed.survivors)


def _within(shard: CohortShard, clients: IntArray) -> IntArray:
    inside: IntArray = clients[shard.of(clients)]
    return inside


def _messages(message: Shielded, at: IntArray) -> Shielded:
    def some(column: Tensor) -> Tensor:
        return column[torch.from_numpy(at)]

    return replace(
        message,
        clients=message.clients[at],
        rows=some(message.rows),
        weights=some(message.weights),
        squared_multipliers=some(message.squared_multipliers),
    )
