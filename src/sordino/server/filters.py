"""Which privacy filters hold a run: its own where its noise follows releases, and others' where theirs did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sordino.account.accountants.exact import separation
from sordino.account.accountants.filter import Filter, GaussianFilter, NoFilter, RdpFilter, filter_for
from sordino.account.accountants.history import flatten
from sordino.account.ledger.coverage import payments, source
from sordino.account.ledger.ledger import Ledger
from sordino.errors import RecipeError
from sordino.events import ComposedDpEvent, DpEvent, Guarantee, Unbounded
from sordino.mechanism import Mechanism
from sordino.server.early_end import PlannedCharges


def filters_for(mechanism: Mechanism, epsilon: float | None, delta: float) -> dict[Guarantee, Filter]:
    """Returns the filters of an adaptive mechanism, fixed by its plan or first quote; none where the schedule is fixed.

    Raises:
        RecipeError: a filter needs a budget to hold to.
    """
    if not mechanism.adaptive:
        return {}
    if epsilon is None:
        raise RecipeError("budget.epsilon is missing: a mechanism that adapts its noise needs a budget to hold it to")
    return {
        charge.guarantee: filter_for(epsilon, delta, mechanism.planned or charge.event, charge.guarantee.adjacency)
        for charge in mechanism.quote(mechanism.adapter.start())
        if not isinstance(charge.event, Unbounded)
    }


def held(
    ledger: Ledger,
    run: str,
    own: Mapping[Guarantee, Filter],
    schedule: PlannedCharges,
    planned: DpEvent | None,
    epsilon: float | None,
    delta: float,
) -> Mapping[Guarantee, Filter]:
    """Returns a filter for every promise under which this run, or another, chose noise from its releases.

    **Formal guarantees**: adding up prices of releases that were chosen from releases proves nothing, whichever run
    chose them. A filter does the sums of both, with this run's budget, which was fixed by its recipe: as the
    certificate says, recipes of runs on one ledger do not follow from each other's releases. A promise that only
    another run made, and that follows from one of this run's, is paid for by this run's charges under that one: the
    same filter adds them up, and admits each release before it happens (`Ledger.affordable`).
    **Edge cases**: without a budget, or where no promise of this run implies it, nothing is promised. Where other runs
    released other than plain Gaussians, which a Gaussian filter cannot add up, a Rényi filter does: of an order that
    follows from this run's plan, and from nothing that was released.
    """
    others = [entry for entry in ledger.beside(run) if entry.charges]
    found = dict(own)
    for guarantee in {*ledger.guarantees, *(c.guarantee for charges in schedule for c in charges)} - own.keys():
        if (mine := source(own, guarantee)) is not None:
            found[guarantee] = own[mine]
        elif any(payments(entry, guarantee) for entry in others if entry.adaptive):
            found[guarantee] = _holding(_plan(schedule, guarantee), epsilon, delta, guarantee)
    for guarantee, chosen in found.items():
        paid = (payment.event for entry in others for payment in payments(entry, guarantee) or [])
        if isinstance(chosen, GaussianFilter) and not all(map(_plain, paid)):
            plan = planned or ComposedDpEvent(tuple(_plan(schedule, guarantee)))
            found[guarantee] = RdpFilter.planned(chosen.epsilon, delta, plan, guarantee.adjacency)
    return found


def _plan(schedule: PlannedCharges, guarantee: Guarantee) -> list[DpEvent]:
    """Returns what the run is planned to pay under a promise, or under the one of its own from which that follows."""
    mine = source((charge.guarantee for charges in schedule for charge in charges), guarantee)
    return [charge.event for charges in schedule for charge in charges if charge.guarantee == mine]


def _holding(plan: Sequence[DpEvent], epsilon: float | None, delta: float, guarantee: Guarantee) -> Filter:
    """Returns a filter for what a run is planned to release under a promise, with its budget."""
    if epsilon is None or not plan or any(isinstance(event, Unbounded) for event in plan):
        return NoFilter(delta)
    return filter_for(epsilon, delta, ComposedDpEvent(tuple(plan)), guarantee.adjacency)


def _plain(event: DpEvent) -> bool:
    return isinstance(event, Unbounded) or separation(flatten(event)) is not None
