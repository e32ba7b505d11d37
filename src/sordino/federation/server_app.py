"""The ServerApp: plays a run over a Flower grid, with the run folder and the ledger of a simulation.

It keeps nothing in Flower. Killed at any moment and started again, it goes on from the run folder: a round that had
been announced and not finished stays paid for and is given up, and the next one is played.
"""

from __future__ import annotations

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from sordino.errors import FederationError
from sordino.federation.deadlines import Deadlines
from sordino.federation.deployment import Deployment
from sordino.federation.folder import FederationFolder
from sordino.federation.operator_records import operator_records

app = ServerApp()


def main(grid: Grid, context: Context) -> None:
    """Plays or resumes the federation's run."""
    folder = FederationFolder.here()
    deadlines, least, app_hash = deadlines_of(context), least_of(context), _app_hash(grid)
    test, public = operator_records(folder, "test"), operator_records(folder, "public")
    Deployment(folder, grid, deadlines=deadlines, least=least, test=test, public=public, app_hash=app_hash).play()


app.main()(main)


def deadlines_of(context: Context) -> Deadlines:
    """Returns the deadlines that the operator set in the run's configuration (`stage-seconds`, …), in seconds.

    Raises:
        FederationError: one of them is no positive number.
    """
    told = {}
    for name in ("stage", "train", "gather", "lifetime"):
        value = context.run_config.get(f"{name}-seconds")
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise FederationError(f"run-config {name}-seconds is {value!r}: give a positive number of seconds")
        told[name] = float(value)
    return Deadlines(**told)


def least_of(context: Context) -> int | None:
    """Returns how many members must be there before a round (`least-nodes`); None, or 0 there: more than half.

    Raises:
        FederationError: it is no number of members.
    """
    value = context.run_config.get("least-nodes", 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value != int(value):
        raise FederationError(f"run-config least-nodes is {value!r}: give a number of members")
    return int(value) or None


def _app_hash(grid: Grid) -> str:
    return str(getattr(grid.run, "fab_hash", "") or "")
