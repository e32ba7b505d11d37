"""The game of early ends: a run goes on only while enough clients can pay, and everybody sees when it ends.

As many clients are there as a run needs (`budget.minimum_clients`), so without the target it does not even begin. A
promise that credits secret coins, or that the target's presence is hidden (`add_remove`), is false for such a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sordino.account.certificate.document import Promise
from sordino.audit.small_runs import CLIENTS, aside, document_of, small_federation, small_run
from sordino.errors import BudgetExceeded
from sordino.types import Adjacency

ROUNDS = 2
SETTINGS = (
    "mechanism.name=dropout_robust",
    "select.kind=poisson",
    "select.rate=0.5",
    "budget.epsilon=0.5",
    f"budget.minimum_clients={CLIENTS}",
    f"run.rounds={ROUNDS}",
    "aggregate.kind=plain",
)


def promised(seed: int) -> Promise:
    """Returns what a run with the target promises an outsider."""
    with aside() as place:
        small_run(place / "run", SETTINGS, seed, small_federation())
        return document_of(place / "run").promise("client", "outsider")


def play(adjacency: Adjacency) -> Callable[[bool, int], float]:
    """Returns the play of one world: how many rounds are released."""

    def played(present: bool, seed: int) -> float:
        with aside() as place:
            try:
                return small_run(place / "run", SETTINGS, seed, small_federation(present, adjacency=adjacency)).rounds
            except BudgetExceeded:
                return 0.0

    return played


def learn(without: Sequence[float], with_: Sequence[float]) -> Callable[[float], float]:
    """Returns the number of rounds as the score."""
    return lambda seen: seen
