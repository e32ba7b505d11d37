"""The plan of a run: what every node is told of it, and what each composes from that with its own installation."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import tomli_w
import torch

from sordino._version import __version__
from sordino.aggregate.secure.session import sum_terms
from sordino.aggregate.secure.terms import SumMechanism, SumTerms
from sordino.aggregate.secure_sum import SecureSum
from sordino.errors import ProtocolError, RecipeError
from sordino.federation.remote import remote
from sordino.layout import Layout
from sordino.recipe import Recipe
from sordino.runs.context import RunContext
from sordino.runs.preparing import apart
from sordino.runs.setup import assemble
from sordino.server.view import reveals
from sordino.terms import Terms

_OWN: dict[str, tuple[str, ...]] = {
    "run": ("seed", "entropy", "notes", "target"),
    "budget": ("clients",),
    "data": ("folder", "file", "cache", "public_fraction"),
    "ledger": (),
    "partition": (),
}
"""What of a recipe is the operator's own business, and is not sent. No names: the whole section."""


PREPARATION = "preparation"
"""The part of a request that names which sum before the first round it belongs to."""

LARGEST = 1 << 20
"""Bytes of a plan that is read at all."""
_KINDS = {"federation": str, "run": str, "recipe": str, "population": int, "registry": int, "public": bool}


@dataclass(frozen=True)
class RunPlan:
    """What a run is going to do, as the operator signs it and every node checks it.

    **Formal guarantees**: a node trusts nothing of it. It composes the mechanism itself, from this text and its own
    code, and holds what comes out against its own policy; a plan that says otherwise composes to something else, whose
    keys, prices and sums fit nobody's.
    """

    federation: str
    run: str
    recipe: str
    """TOML: all of the recipe that shapes what nodes do."""
    population: int
    """Numbers that the registry has given out: clients are 0 … population − 1."""
    registry: int
    """The registry's version."""
    public: bool = False
    """Whether the server has public records (some mechanisms are composed differently then)."""
    version: str = __version__

    def pack(self) -> bytes:
        """Returns the plan as bytes."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def parse(cls, data: bytes) -> RunPlan:
        """Inverts `pack`.

        Raises:
            ProtocolError: it is no plan of this version.
        """
        if len(data) > LARGEST:
            raise ProtocolError(
                f"a run's plan has {len(data)} bytes and at most {LARGEST} are read: shorten the recipe"
            )
        try:
            plan = cls(**json.loads(data))
            for name, kind in _KINDS.items():
                if type(getattr(plan, name)) is not kind:
                    raise ValueError(f"{name} is no {kind.__name__}")
        except (ValueError, TypeError, RecursionError) as error:
            raise ProtocolError(f"a run's plan cannot be read ({error}): update server and nodes") from None
        return plan


def plan_of(context: RunContext, run: str, population: int, registry: int) -> RunPlan:
    """Returns the plan of a run, with its noise multiplier written out, so that no node has to calibrate again."""
    tree: dict[str, Any] = context.recipe.model_dump(mode="json", exclude_none=True)
    for section, fields in _OWN.items():
        kept = {name: value for name, value in tree.pop(section, {}).items() if fields and name not in fields}
        tree |= {section: kept} if kept else {}
    if context.recipe.budget.epsilon is None:
        tree["budget"]["epsilon"] = "none"
    tree["mechanism"].setdefault("noise_multiplier", context.mechanism.adapter.start().noise_multiplier)
    federation = context.federation
    public = federation.public_x is not None and len(federation.public_x) > 0
    return RunPlan(federation.name, run, tomli_w.dumps(tree), population, registry, public)


@lru_cache(maxsize=4)
def recipe_of(plan: RunPlan) -> Recipe:
    """Returns the recipe in a plan.

    Raises:
        SordinoError: it cannot be read.
    """
    try:
        return Recipe.from_dict(tomllib.loads(plan.recipe))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ProtocolError(f"a run's plan cannot be read ({error}): update server and nodes") from None


@lru_cache(maxsize=4)  # where many nodes share a process, they compose once
def composed(plan: RunPlan) -> RunContext:
    """Returns what a node makes of a plan: mechanism, model and trainer; it holds no record, and no randomness of use.

    Raises:
        SordinoError: the plan cannot be composed here.
    """
    recipe = recipe_of(plan)
    shape = recipe.public.shape or (1,)
    public = (torch.zeros(1, *shape), torch.zeros(1, dtype=torch.int64)) if plan.public else None
    federation = remote(recipe, plan.federation, [""] * plan.population, public=public)
    return require_deployable(assemble(recipe, federation=federation))


def require_deployable(context: RunContext) -> RunContext:
    """Returns the context; refuses what a simulation may do and machines of different owners may not.

    Raises:
        RecipeError: the mechanism is a stand-in, or one as printed, that proves nothing.
    """
    mechanism = context.mechanism
    if mechanism.mode != "certified":
        raise RecipeError(
            f"mechanism.mode is {mechanism.mode!r}, which proves nothing: across machines use mode = 'certified'"
        )
    if mechanism.trust == "distributed" and not isinstance(mechanism.aggregator, SecureSum):
        raise RecipeError(
            "aggregate.kind is 'plain' under distributed trust: across machines sums are secure, so leave it out"
        )
    return context


def preparing(context: RunContext, name: str) -> RunContext:
    """Returns a run as one of its charged sums before the first round plays it: a mechanism, a width and streams.

    Raises:
        ProtocolError: the plan has no such sum.
    """
    for one in context.mechanism.preparation:
        if one.mechanism.name == name:
            width = one.statistic.width
            return replace(
                context,
                mechanism=one.mechanism,
                layout=Layout((name,), ((width,),)),
                weights=torch.zeros(width, dtype=torch.float64),
                randomness=apart(context.randomness, name),
            )
    raise ProtocolError(f"the plan has no sum {name!r} before its first round: this node takes no part in one")


def occasion(run: str, parts: Mapping[str, bytes]) -> str:
    """Returns under which name a request is answered once: the run's, or that of a sum before its first round."""
    return f"{run}{_ending(parts)}"


def run_of(occasion: str, parts: Mapping[str, bytes]) -> str:
    """Inverts `occasion`: the run that a request belongs to."""
    return occasion.removesuffix(_ending(parts))


def _ending(parts: Mapping[str, bytes]) -> str:
    return f"/{parts[PREPARATION].decode(errors='replace')}" if PREPARATION in parts else ""


@dataclass(frozen=True, eq=False)
class PartSum:
    """One secure sum of a round: of the whole cohort, or of a shard of it."""

    agreed: SumTerms
    terms: Terms
    """The round's terms, with those who are in this sum as its cohort."""
    part: SecureSum


def alike(plan: bytes, terms: bytes) -> bytes:
    """Returns the digest of what all members of a secure sum are told alike: the plan and the round's whole terms.

    **Formal guarantees**: it goes into the sum's own terms, so members that were shown another plan, another model or
    other knobs share no key, and their sum is never opened. A server cannot set one member apart by the model it sends.
    """
    return hashlib.sha256(hashlib.sha256(plan).digest() + hashlib.sha256(terms).digest()).digest()


def sums_of(context: RunContext, plan: RunPlan, terms: Terms, attempt: int, told: bytes) -> list[PartSum]:
    """Returns the secure sums of a round, whose members were `told` alike; server and nodes each compute them."""
    parts = secure(context).parts(terms)
    return [PartSum(_agreed(context, plan, own, part, attempt, told), own, part) for own, part in parts]


def sum_terms_of(context: RunContext, plan: RunPlan, terms: Terms, attempt: int, member: int, told: bytes) -> SumTerms:
    """Returns the terms of the secure sum that a member is in.

    Raises:
        ProtocolError: it is in none: its shard is too small to be summed.
    """
    for one in sums_of(context, plan, terms, attempt, told):
        if member in one.agreed.clients:
            return one.agreed
    raise ProtocolError(f"member {member} is in no secure sum of round {terms.round_}: it is not asked in it")


def _agreed(context: RunContext, plan: RunPlan, terms: Terms, part: SecureSum, attempt: int, told: bytes) -> SumTerms:
    topology, bits, knobs = part.topology(len(terms.cohort)), part.modulus_bits(terms), terms.knobs
    put_in = SumMechanism(
        knobs.clip_norm, part.scale, knobs.noise_multiplier, topology.smallest_cohort, topology.corrupt, bits
    )
    return sum_terms(
        terms.cohort,
        topology,
        context.layout.width,
        bits,
        round_=terms.round_,
        reveals=reveals(context.mechanism.perturber) and part.tolerance > 0,
        mechanism=hashlib.sha256(put_in.digest + told).digest(),
        attempt=attempt,
        federation=plan.federation,
        run=plan.run,
    )


def secure(context: RunContext) -> SecureSum:
    """Returns the secure sum of a mechanism that has one."""
    summing = context.mechanism.aggregator
    if not isinstance(summing, SecureSum):
        raise ProtocolError(f"{context.mechanism.name} has no secure sum: its messages go to the server one by one")
    return summing
