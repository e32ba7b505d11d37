"""What a node checks before it answers: the plan, the round's terms and its own records, against its own policy."""

from __future__ import annotations

import math

import torch

from sordino.account.ledger.ledger import Ledger
from sordino.data.federation import ClientData
from sordino.errors import NodeRefused
from sordino.events import Charge, Unbounded
from sordino.federation.declarations import Declarations
from sordino.federation.node_folder import NodeFolder
from sordino.federation.plan import RunPlan, composed
from sordino.opening.feature_map import MEAN, TURN
from sordino.runs.context import RunContext
from sordino.server.charging import filters_for
from sordino.stages import Prices
from sordino.terms import Knobs, Terms


def check_plan(folder: NodeFolder, plan: RunPlan) -> RunContext:
    """Returns the mechanism that a plan really is, composed here; refuses one that the policy does not allow.

    Raises:
        NodeRefused: a sentence that names the setting of the policy.
        SordinoError: it cannot be composed.
    """
    policy = folder.policy
    policy.check_federation(plan.federation)
    policy.check_server(folder.server)
    context = composed(plan)
    wanted, own = context.recipe.data, policy.data
    if wanted.label is not None and own.kind == "csv" and wanted.label != own.label:
        raise NodeRefused(
            f"the run predicts {wanted.label!r} and the policy's data.label is {own.label!r}: this node's records are "
            "not to be used for it"
        )
    knobs, population = context.mechanism.adapter.start(), context.federation.population
    most = min(population, math.ceil(context.mechanism.selector.expected(population)))
    policy.check_mechanism(
        context.mechanism.name, context.mechanism.trust, knobs.clip_norm, knobs.noise_multiplier, most
    )
    return context


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


def _check_schedule(context: RunContext, terms: Terms) -> None:
    """Refuses a round that the plan does not have, or with less noise than the plan gives it.

    Prices of several releases add up as the ledger says only if their noise was fixed beforehand. A server that chose
    it from what it had seen could do better than that; where the mechanism itself does so, a filter admits releases.
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


def check_budget(folder: NodeFolder, ledger: Ledger, context: RunContext, prices: Prices) -> tuple[Charge, ...]:
    """Returns what a release costs this node; refuses one that its ledger has not left.

    **Formal guarantees**: the price is this node's own, computed by its own code from the terms. Nothing that only the
    server can vouch for is credited: no amplification by who was asked.

    Raises:
        NodeRefused: the release promises nothing, or costs more than the node's own ledger has left.
    """
    charges = tuple(Charge(guarantee, event) for guarantee, event in prices)
    bounded = [charge.guarantee for charge in charges if not isinstance(charge.event, Unbounded)]
    if not bounded:
        raise NodeRefused("the release promises nothing to anybody: this node takes no part without a guarantee")
    budget, accountant = folder.budget, folder.policy.budget.accountant
    filters = filters_for(context.mechanism, budget.epsilon, budget.delta)
    if not ledger.affordable(charges, budget, accountant, bounded, filters).allowed.all():
        raise NodeRefused(
            f"another release would exceed this node's budget.epsilon of {budget.epsilon:g} at δ = {budget.delta:g}: "
            "raise it in its policy, or leave the node out"
        )
    return charges
