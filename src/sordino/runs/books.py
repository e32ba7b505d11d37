"""Opens the ledger that a run is charged to."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sordino._version import __version__
from sordino.account.ledger.ledger import Ledger
from sordino.data.federation import Federation
from sordino.data.holdings import holdings
from sordino.data.public import FARTHEST
from sordino.errors import BudgetExceeded, RecipeError
from sordino.events import Charge
from sordino.mechanism import Mechanism
from sordino.runs.context import RunContext
from sordino.select.by_score import ByScore
from sordino.server.charging import Charging
from sordino.server.early_end import all_can_pay
from sordino.server.filters import filters_for


@contextmanager
def charging_for(
    context: RunContext,
    path: Path,
    run_id: str,
    fingerprint: str | None = None,
    *,
    create: bool = True,
    head: str | None = None,
    heads: Path | None = None,
    witness: Path | None = None,
) -> Iterator[Charging]:
    """Opens a ledger for the run to charge, and closes it again.

    Args:
        context: the run.
        path: the ledger.
        run_id: the run's name in it.
        fingerprint: names what repeats a round to the bit; by default software, recipe and data.
        create: begin the ledger if it is missing. A run that goes on never does: it would forget what was spent.
        head: a head that the ledger must contain, from the checkpoint of a run that goes on.
        heads: where a new ledger publishes its heads; by default beside it.
        witness: another file to which heads are published.
    """
    recipe, federation, mechanism = context.recipe, context.federation, context.mechanism
    limits, name = recipe.budget, recipe.ledger.federation or federation.name
    digest = hashlib.blake2b(recipe.to_toml().encode(), digest_size=16).hexdigest()
    clients = getattr(federation, "names", None) or federation.population
    with Ledger.open(
        path,
        name,
        clients,
        create=create,
        delta=limits.delta,
        head=head,
        heads=heads,
        witness=witness,
        holders=holdings(federation) if len(federation.train_x) else None,  # else the nodes hold them
    ) as ledger:
        yield Charging(
            ledger,
            run_id,
            mechanism,
            delta=limits.delta,
            epsilon=limits.epsilon,
            accountant=limits.accountant,
            minimum=limits.minimum_clients,
            least=math.ceil(federation.declared.people * (1 - recipe.dropout.late) / FARTHEST),
            repeatable=context.randomness.simulation,
            fingerprint=fingerprint or f"{__version__}/{digest}/{federation.digest}",
            schedule=_schedule(mechanism, recipe.run.rounds),
            limits=_limits(limits.clients, federation),
            filters=filters_for(mechanism, limits.epsilon, limits.delta),
        )


def _limits(told: Mapping[str, float], federation: Federation) -> dict[int, float]:
    """Returns single clients' own limits by their place in this run.

    Raises:
        RecipeError: a client is not here under that name.
    """
    names = getattr(federation, "names", ())
    places = {name: place for place, name in enumerate(names)}
    found = {}
    for name, limit in told.items():
        place = places.get(name) if names else int(name) if name.isdecimal() else None
        if place is None or place >= federation.population:
            known = "no client of that name" if names else f"clients 0 … {federation.population - 1}, without names"
            raise RecipeError(f"budget.clients names {name!r}, but {federation.name} has {known}: correct the name")
        found[place] = limit
    return found


def _schedule(mechanism: Mechanism, rounds: int) -> list[tuple[Charge, ...]]:
    """Returns what each planned round costs; what is released before the first one is charged with it."""
    planned = [mechanism.quote(mechanism.adapter.planned(m), m) for m in range(1, rounds + 1)]
    before = [one.mechanism.quote(one.mechanism.adapter.start(), 0) for one in mechanism.preparation]
    return [tuple(charge for charges in (*before, planned[0]) for charge in charges), *planned[1:]]


def refuse_if_spent(context: RunContext) -> None:
    """Refuses a run before anything is written.

    Raises:
        BudgetExceeded: nobody could pay for the first release, or (where scores choose who pays) somebody not for all.
    """
    path, mechanism = context.recipe.ledger.path, context.mechanism
    shared = path if path and path.exists() else None
    with TemporaryDirectory() as aside, charging_for(context, shared or Path(aside) / "ledger.db", "") as charging:
        present = np.ones(context.federation.population, bool)
        _require_one_price(mechanism, charging)
        try:
            charging.eligible(1, mechanism.quote(mechanism.adapter.start()), present)
        except BudgetExceeded as refusal:
            raise BudgetExceeded("; ".join([str(refusal), *charging.warnings])) from None


def _require_one_price(mechanism: Mechanism, charging: Charging) -> None:
    """Refuses a fixed schedule where released scores choose who is asked, and not everybody could pay for all of it.

    **Formal guarantees**: who is asked pays for all rounds, whoever the scores choose: no path is dearer than the one
    that was taken. Where a client can run out of budget its place goes to the next by score, so releases decide which
    rounds a client pays for; the dearest path need not be one that anybody took, and only a filter would hold that.

    Raises:
        BudgetExceeded: a client may run out under way.
    """
    budget = charging.budget
    chosen = isinstance(mechanism.selector, ByScore) and not mechanism.adaptive and mechanism.claim is None
    if budget is None or mechanism.opening is None or not chosen:
        return
    if not all_can_pay(charging.ledger, "", [mechanism.opening_charges, *charging.schedule], budget):
        raise BudgetExceeded(
            "released scores choose who is asked, and some could not pay for all rounds (budget.epsilon, "
            "budget.clients, or what earlier runs on the ledger spent), so that scores would decide how much a client "
            "pays: set mechanism.schedule = 'plateau', which a filter holds, add noise, or raise the budgets"
        )
