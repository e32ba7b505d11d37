"""The run's side of the ledger: who can still pay, what is reserved and settled, and what it all adds up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sordino.account.certificate import Certificate, certify
from sordino.account.ledger import Ledger
from sordino.errors import BudgetExceeded
from sordino.events import Charge, Unbounded
from sordino.mechanism import Claim, Mechanism
from sordino.mechanisms.setting import Budget
from sordino.types import BoolArray, IntArray


@dataclass
class Books:
    """Charges one run to one ledger.

    **Formal guarantees**: nothing is broadcast before its cost is durably reserved; a client that could not pay in full
    is left out of the cohort; a release that is dearer than its quote is refused. Guarantees that are `Unbounded` are
    recorded and reported, but no budget can bind them: where a mechanism proves nothing, the paper's claim is held to
    the budget instead, and the certificate says that it is only a claim.
    """

    ledger: Ledger
    run: str
    budget: Budget
    mechanism: Mechanism
    repeatable: bool
    minimum: int = 1
    rounds: dict[int, int] = field(default_factory=dict)
