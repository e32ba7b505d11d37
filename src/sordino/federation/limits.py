"""What a node checks before it answers: the plan, the round's terms and its own records, against its own policy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from sordino.account.accountants.filter import Filter
from sordino.account.ledger.coverage import implies
from sordino.account.ledger.ledger import Ledger
from sordino.adapt.quantile import QuantileClip
from sordino.aggregate.secure.terms import SumTerms
from sordino.data.client_data import ClientData
from sordino.errors import NodeRefused, UnknownEvent
from sordino.events import Charge, Guarantee, Unbounded
from sordino.federation.columns import check_columns
from sordino.federation.declarations import Declarations
from sordino.federation.node_filter import promised
from sordino.federation.node_folder import NodeFolder
from sordino.federation.plan import RunPlan, composed
from sordino.federation.policy import Policy
from sordino.federation.sizes import check_size
from sordino.opening.feature_map import MEAN, TURN
from sordino.runs.context import RunContext
from sordino.stages import Prices
from sordino.terms import Knobs, Terms

HEADROOM = 5.0
"""How far a clip norm that follows the clients' updates must be able to grow for a run to begin."""


def check_plan(folder: NodeFolder, plan: RunPlan) -> RunContext:
    """Returns the mechanism that a plan really is, composed here; refuses one that the policy does not allow.

    Raises:
        NodeRefused: a sentence that names the setting of the policy.
        SordinoError: it cannot be composed.
    """
    policy = folder.policy
    policy.check_federation(plan.federation)
    policy.check_server(folder.server)
    check_size(policy.size, plan)
    context = composed(plan)
    check_columns(policy.data, context.recipe.data)
    knobs, population = context.mechanism.adapter.start(), context.federation.population
    most = min(population, math.ceil(context.mechanism.selector.expected(population)))
    policy.check_mechanism(
        context.mechanism.name, context.mechanism.trust, knobs.clip_norm, knobs.noise_multiplier, most
    )
    _check_headroom(policy, context)
    return context


def _check_headroom(policy: Policy, context: RunContext) -> None:
    """Refuses, before the first round, a run that is likely to outgrow the policy's clip norm in a later one."""
    start, largest = context.mechanism.adapter.start().clip_norm, policy.mechanism.largest_clip_norm
    if isinstance(context.mechanism.adapter, QuantileClip) and start * HEADROOM > largest:
        raise NodeRefused(
            f"{context.mechanism.name} moves its clip norm, from {start:g} on, and the policy's "
            f"mechanism.largest_clip_norm {largest:g} is less than {HEADROOM:g} times that: raise it (privacy does not "
            "depend on it: noise grows along), or let the recipe's mechanism.clip_norm begin lower"
        )


def check_terms(folder: NodeFolder, context: RunContext, terms: Terms, of: str | None = None) -> None:
    """Refuses a round whose terms are outside the policy, or that asks members whom this node does not know.

    `of` names the mechanism that a sum before the first round belongs to: whoever allows that allows the sum, within
    the same limits.

    Raises:
        NodeRefused: a sentence that names the setting of the policy, or the stranger.
    """
    knobs, mechanism = terms.knobs, context.mechanism
    name = mechanism.name if of is None else of
    asked = len(set(terms.cohort.tolist()))  # one member named five times is a cohort of one
    folder.policy.check_mechanism(name, mechanism.trust, knobs.clip_norm, knobs.noise_multiplier, asked)
    _check_schedule(context, terms)
    _check_map(context, knobs)
    if any(torch.isnan(knob.double()).any() for knob in knobs.tensors().values()):
        raise NodeRefused("the round's knobs are not all numbers: this node takes no part")
    if not torch.isfinite(terms.weights).all():
        raise NodeRefused("the broadcast model is not finite: this node takes no part")
    known = folder.registry.public_keys
    strangers = [number for number in terms.cohort.tolist() if number not in known]
    if strangers:
        raise NodeRefused(
            f"the round asks member {strangers[0]}, who is not in this node's registry (version "
            f"{folder.registry.version}): get the newest one from the operator"
        )


def check_cohort(policy: Policy, agreed: SumTerms) -> None:
    """Refuses a secure sum that may be opened with fewer members than the policy wants in one.

    Raises:
        NodeRefused: a sentence that names both settings.
    """
    least = policy.mechanism.smallest_cohort
    if agreed.smallest_cohort < least:
        raise NodeRefused(
            f"{len(agreed.clients)} members are asked and {agreed.smallest_cohort} of them could open the sum "
            f"(aggregate.tolerance), and the policy's mechanism.smallest_cohort is {least}: wait for more members "
            "(`--least`), or tolerate fewer dropouts"
        )


def _check_schedule(context: RunContext, terms: Terms) -> None:
    """Refuses a round that the plan does not have, or with less noise than the plan gives it.

    The node's budget holds without this (its filter admits noise that was chosen from releases); an operator who asks
    for something else than the plan that all members were shown is refused all the same.
    """
    rounds, mechanism = context.recipe.run.rounds, context.mechanism
    if terms.round_ > rounds:
        raise NodeRefused(
            f"the plan has {rounds} rounds and round {terms.round_} was announced: this node has finished"
        )
    if mechanism.adaptive or (mechanism.opening is not None and terms.round_ < 1):
        return
    planned = mechanism.adapter.planned(terms.round_).noise_multiplier
    if not terms.knobs.noise_multiplier >= planned * (1 - 1e-9):
        raise NodeRefused(
            f"round {terms.round_} has a noise multiplier of {terms.knobs.noise_multiplier:g} and the plan fixes "
            f"{planned:g}: this node takes part with what was planned"
        )


def _check_map(context: RunContext, knobs: Knobs) -> None:
    """Refuses a map of records that does not fit them; whatever fits acts on each record alone, and is harmless."""
    shape = context.federation.input_shape
    fitting = {MEAN: tuple(shape), TURN: (shape[0], shape[0])}
    for name, wanted in fitting.items():
        if name in knobs and tuple(knobs[name].shape) != wanted:
            raise NodeRefused(
                f"the round's {name} has the shape {list(knobs[name].shape)} and records want {list(wanted)}: this "
                "node takes no part"
            )


def check_data(folder: NodeFolder, context: RunContext, data: ClientData) -> None:
    """Refuses records that contradict what the plan declares public about everybody's.

    **Formal guarantees**: the shape of a record is public. Whether its records fit a declaration of sizes and classes
    a node answers for few declarations, ever (`declarations.py`), and without saying how many records it has.

    Raises:
        NodeRefused: the node's records have another shape, other labels, or are more or fewer than declared.
    """
    told, count, shape = context.recipe.public, len(data.y), context.federation.input_shape
    if data.input_shape != shape:
        raise NodeRefused(
            f"this node's records have the shape {list(data.input_shape)} and the run wants {list(shape)}: correct "
            "the policy's [data]"
        )
    Declarations(folder.state_dir / "declarations.json").admit(told.least_records, told.most_records, told.classes)
    if told.most_records is not None and count > told.most_records:
        raise NodeRefused(f"this node holds more records than public.most_records, {told.most_records}")
    if told.least_records is not None and count < told.least_records:
        raise NodeRefused(f"this node holds fewer records than public.least_records, {told.least_records}")
    if told.classes and not _labelled(data, told.classes):
        raise NodeRefused(f"this node's labels are not 0 … {told.classes - 1}, as public.classes declares")


def _labelled(data: ClientData, classes: int) -> bool:
    whole = not data.y.is_floating_point()
    return whole and (not len(data.y) or 0 <= int(data.y.min()) <= int(data.y.max()) < classes)


@dataclass(frozen=True)
class Cost:
    """What a release costs a node, and the filters that admit it."""

    charges: tuple[Charge, ...] = ()
    filters: Mapping[Guarantee, Filter] = field(default_factory=dict)


def check_budget(folder: NodeFolder, ledger: Ledger, whole: RunContext, prices: Prices) -> Cost:
    """Returns what a release costs this node; refuses one that its ledger has not left.

    `whole` is the run as its plan composes, also where the release is one of its sums before the first round.

    **Formal guarantees**: the price is this node's own, computed by its own code from the terms. Nothing that only the
    server can vouch for is credited: no amplification by who was asked, no noise of others in a sum of messages that
    the server could show one by one (local trust), and no plan that was fixed beforehand, since each run may be chosen
    from what earlier ones released (`node_filter.py`). A promise that was made stays a promise.

    Raises:
        NodeRefused: the release promises nothing, breaks an older promise, or costs more than the ledger has left.
    """
    charges = tuple(_uncredited(prices))
    bounded = [charge.guarantee for charge in charges if not isinstance(charge.event, Unbounded)]
    if not bounded:
        raise NodeRefused("the release promises nothing to anybody: this node takes no part without a guarantee")
    _check_promises(ledger, bounded)
    budget, accountant = folder.budget, folder.policy.budget.accountant
    filters = folder.filters.admitting(ledger, whole.mechanism, whole.recipe.run.rounds, budget)
    try:
        allowed = ledger.affordable(charges, budget, accountant, bounded, filters).allowed.all()
    except UnknownEvent:
        raise NodeRefused(
            "this node's ledger began with plain Gaussian noise, whose filter does not know the noise of this run: "
            "take a mechanism without sampled records and without Laplace noise"
        ) from None
    if not allowed:
        raise NodeRefused(
            f"another release would exceed this node's budget.epsilon of {budget.epsilon:g} at δ = {budget.delta:g}: "
            "raise it in its policy, or leave the node out"
        )
    return Cost(charges, {guarantee: filters[guarantee] for guarantee in dict.fromkeys([*bounded, *promised(ledger)])})


def _uncredited(prices: Prices) -> Iterator[Charge]:
    """Yields a release's charges: an outsider's are the server's, wherever the server is promised the same.

    How many messages a sum holds, whose noise would hide each of them, is the plan's word (`public.population`).
    """
    seen = {(told.unit, told.adjacency): event for told, event in prices if told.observer == "server"}
    for told, event in prices:
        shown = seen.get((told.unit, told.adjacency), event)
        yield Charge(told, event if isinstance(shown, Unbounded) else shown)


def _check_promises(ledger: Ledger, bounded: Sequence[Guarantee]) -> None:
    """Refuses a release from which a promise that this node made earlier does not follow: it would become infinite."""
    for older in promised(ledger):
        if any(implies(given, older) for given in bounded) or ledger.unpromised(older)[1]:
            continue
        raise NodeRefused(
            f"this node has promised something to a {older.unit} against the {older.observer} ({older.adjacency}), and "
            f"a run that promises something to a {bounded[0].unit} ({bounded[0].adjacency}) alone would break that: "
            "take a mechanism of the same unit and adjacency"
        )
