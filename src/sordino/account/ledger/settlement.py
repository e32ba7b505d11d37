"""A release must not cost more than was reserved for it."""

from __future__ import annotations

from collections.abc import Sequence

from sordino.account.accountants.accountant import price
from sordino.errors import LedgerError
from sordino.events import Charge

_COMPARED_DELTAS = (1e-3, 1e-5, 1e-7, 1e-9)
_SLACK = 1e-9


def refuse_dearer(quoted: Sequence[Charge], realised: Sequence[Charge], reservation: int) -> None:
    """Raises a LedgerError when, in any guarantee and at any δ compared, what happened is dearer than the quote."""
    if quoted == realised:
        return
    for guarantee in {charge.guarantee for charge in realised}:
        allowed = [charge for charge in quoted if charge.guarantee == guarantee]
        asked = [charge for charge in realised if charge.guarantee == guarantee]
        if {charge.payers for charge in asked} - {charge.payers for charge in allowed}:
            raise LedgerError(f"reservation {reservation} never named {guarantee}: reserve what will be released")
        ceiling = price([charge.event for charge in allowed], adjacency=guarantee.adjacency)
        found = price([charge.event for charge in asked], adjacency=guarantee.adjacency)
        for delta in _COMPARED_DELTAS:
            if found.epsilon(delta) > ceiling.epsilon(delta) + _SLACK:
                raise LedgerError(
                    f"reservation {reservation} allowed ε = {ceiling.epsilon(delta):.6g} at δ = {delta:g} and the "
                    f"release cost {found.epsilon(delta):.6g}: quote the dearest release that can happen"
                )
