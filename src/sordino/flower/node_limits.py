"""What a node allows, whatever the operator's run configuration says: from its own node configuration.

flower-supernode … --node-config "sordino.epsilon=2.0 sordino.delta=1e-5 sordino.ledger='/var/lib/node/ledger.db'"
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sordino.account.accountants.filter import GaussianFilter
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.coverage import implies
from sordino.account.ledger.ledger import Ledger
from sordino.errors import BudgetExceeded, ProtocolError, RecipeError
from sordino.events import Charge, GaussianDpEvent, Guarantee
from sordino.flower.settings import PREFIX
from sordino.flower.wire import FlowerTerms
from sordino.types import Adjacency

_KNOWN = ("trust", "largest-clip-norm", "least-noise-multiplier", "epsilon", "delta", "ledger")


@dataclass(frozen=True)
class NodeLimits:
    """Limits of one node, and its own ledger.

    **Formal guarantees**: terms outside the limits are refused before any training. With a ledger (local trust), every
    answer is charged to it durably before it leaves, and one that would exceed ε is not made: a server that asks twice
    for a round pays twice, out of the same ε.
    **Edge cases**: under central trust a message is not private by itself, so an ε of the node's own is refused there:
    nothing the node could count would bound what the server learns.
    """

    trust: str | None = None
    largest_clip_norm: float = math.inf
    least_noise_multiplier: float = 0.0
    epsilon: float | None = None
    delta: float | None = None
    ledger: Path | None = None

    @classmethod
    def read(cls, node_config: Mapping[str, Any]) -> NodeLimits:
        """Returns the limits that a node configuration holds now.

        Raises:
            RecipeError: one is misspelt, incomplete, negative or not a number.
        """
        told = {key.removeprefix(PREFIX): value for key, value in node_config.items() if key.startswith(PREFIX)}
        if unknown := sorted(set(told) - set(_KNOWN)):
            raise RecipeError(f"node-config {PREFIX}{unknown[0]} is unknown: choose one of {', '.join(_KNOWN)}")
        if len({"epsilon", "delta", "ledger"} & set(told)) not in (0, 3):
            raise RecipeError(
                "node-config sordino.epsilon, sordino.delta and sordino.ledger go together: set all three"
            )
        try:
            limits = cls(
                None if "trust" not in told else str(told["trust"]),
                float(told.get("largest-clip-norm", math.inf)),
                float(told.get("least-noise-multiplier", 0.0)),
                float(told["epsilon"]) if "epsilon" in told else None,
                float(told["delta"]) if "delta" in told else None,
                Path(str(told["ledger"])) if "ledger" in told else None,
            )
        except (TypeError, ValueError) as error:
            raise RecipeError(f"node-config {PREFIX}*: {error}; give numbers") from None
        for name in ("largest_clip_norm", "least_noise_multiplier", "epsilon", "delta"):
            if (value := getattr(limits, name)) is not None and not value >= 0:
                raise RecipeError(f"node-config {PREFIX}{name.replace('_', '-')} is {value:g}: give a number from 0 on")
        return limits

    def admit(self, terms: FlowerTerms) -> None:
        """Refuses terms that this node does not accept.

        Raises:
            ProtocolError: with the sentence that reaches the operator.
        """
        if self.trust is not None and terms.trust != self.trust:
            raise ProtocolError(f"this node takes part under {self.trust} trust and the round asks for {terms.trust}")
        if terms.clip_norm > self.largest_clip_norm:
            raise ProtocolError(
                f"the round's clip norm is {terms.clip_norm:g} and this node allows at most {self.largest_clip_norm:g}"
            )
        if terms.noise_multiplier < self.least_noise_multiplier:
            raise ProtocolError(
                f"the round's noise multiplier is {terms.noise_multiplier:g} and this node wants at least "
                f"{self.least_noise_multiplier:g}"
            )
        if self.epsilon is not None and terms.trust != "local":
            raise ProtocolError("this node has an ε of its own, which only local trust can keep: ask under local trust")

    def admit_unprotected(self) -> None:
        """Refuses an answer without noise, where the node has limits that only noise keeps.

        Raises:
            ProtocolError: with the sentence that reaches the operator.
        """
        if self.epsilon is not None or self.trust == "local" or self.least_noise_multiplier > 0:
            raise ProtocolError(
                "this node has an ε, a least noise or local trust of its own, and this answer would leave without "
                "noise: evaluate on public records at the server"
            )

    def charge(self, terms: FlowerTerms, run: str, adjacency: Adjacency) -> None:
        """Writes the cost of one answer into the node's ledger, durably, before it is made.

        Raises:
            BudgetExceeded: the answer would exceed the node's ε, or break its older promise; nothing is written.
            LedgerMoved: another answer was charged at the same moment; nothing is written.
        """
        if self.ledger is None or self.epsilon is None or self.delta is None:
            return
        multiplier = terms.noise_multiplier / (2 if adjacency == "replace" else 1)
        charge = Charge(Guarantee("client", "server", adjacency), GaussianDpEvent(multiplier))
        me = np.zeros(1, np.int64)
        create = not self.ledger.exists()
        with Ledger.open(self.ledger, "this node", 1, create=create, delta=self.delta) as ledger:
            head = ledger.newest  # another process of this node may answer at the same time
            # whoever asks may choose the noise from earlier answers: a filter admits them, which loses nothing here
            filters = dict.fromkeys([charge.guarantee, *ledger.guarantees], GaussianFilter(self.epsilon, self.delta))
            if broken := [one for one in ledger.guarantees if not implies(charge.guarantee, one)]:
                raise BudgetExceeded(
                    f"this node has promised sordino.adjacency = '{broken[0].adjacency}' and the round asks for "
                    f"'{adjacency}', which would break that: go on under the first one"
                )
            if not ledger.affordable([charge], Budget(self.epsilon, self.delta), filters=filters).allowed.all():
                raise BudgetExceeded(
                    f"this node's ε of {self.epsilon:g} does not allow another answer: ask its owner for more"
                )
            ledger.reserve(run, terms.round_, me, [charge], head=head)
