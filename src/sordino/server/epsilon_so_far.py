"""What the worst client has spent so far, told after a round without composing everything anew."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sordino.account.accountants.running import RunningCost
from sordino.account.ledger.ledger import Ledger
from sordino.events import Guarantee, named


@dataclass(frozen=True)
class EpsilonSoFar:
    """ε by guarantee, from a ledger.

    Where all charges fell on everybody, all histories are one, and its composed loss is kept between rounds; the
    certificate is computed from the books at the end.
    """

    ledger: Ledger
    delta: float
    accountant: str
    _running: dict[Guarantee, tuple[int, RunningCost, bool]] = field(default_factory=dict, repr=False, compare=False)
    """The composed loss so far: entries that are in it, and whether every client paid all of them."""

    def told(self) -> dict[str, float | None]:
        """Returns the worst client's ε by guarantee (`events.named`); None where nothing bounds it.

        Scores are told with it, so that what was settled is written down first (`Ledger.write`).
        """
        self.ledger.write()
        worst = {name: self._worst(guarantee) for name, guarantee in named(self.ledger.guarantees).items()}
        return {name: epsilon if math.isfinite(epsilon) else None for name, epsilon in worst.items()}

    def _worst(self, guarantee: Guarantee) -> float:
        done, cost, shared = self._running.get(guarantee, (0, RunningCost(guarantee.adjacency), True))
        entries = self.ledger.entries
        for entry in entries[done:] if self.accountant == "pld" and shared else []:
            mine = [charge for charge in entry.charges if charge.guarantee == guarantee]
            shared = shared and bool(mine) and all(charge.payers == "eligible" for charge in mine)
            for charge in mine if shared else []:
                cost = cost.add(charge.event)
        self._running[guarantee] = len(entries), cost, shared
        if shared and self.accountant == "pld":
            return cost.epsilon(self.delta)
        return float(self.ledger.epsilons(guarantee, self.delta, self.accountant).max())
