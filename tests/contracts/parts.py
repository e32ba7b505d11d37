"""Every part of every mechanism, found through the registry, in a round on a tiny federation that can be played."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, cached_property
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

from sordino.client_state import ClientState
from sordino.data.client_data import ClientData
from sordino.data.federation import Federation
from sordino.data.partition import PartitionTable
from sordino.data.public import PublicCounts
from sordino.errors import RecipeError
from sordino.mechanism import Mechanism
from sordino.mechanisms import MECHANISMS
from sordino.mechanisms.spec import MechanismSpec
from sordino.random.streams import Randomness, Streams
from sordino.recipe import Recipe
from sordino.runs.context import RunContext
from sordino.runs.setup import assemble
from sordino.stages import Bounded, Released, Revealed, Sent, Summed, Update
from sordino.terms import Knobs, Survivors, Terms, Turn, Vanished

CLIENTS, RECORDS, FEATURES = 6, 5, 3
KINDS = ("selector", "local", "bounder", "perturber", "aggregator", "adapter", "opening")
SMALL = (
    "train.steps=2",
    "train.batch_size=3",
    "run.rounds=3",
    "budget.epsilon=50",
    "mechanism.noise_multiplier=2",
    "aggregate.tolerance=0.4",
)
COMPOSED = tuple(f"{name} {mode}" for name in MECHANISMS for mode in ("certified", "faithful"))
"""Every mechanism in both modes."""
WORLDS = (
    (),
    ("aggregate.kind=plain",),
    ("aggregate.kind=secure", "aggregate.tolerance=0.2"),
    ("select.kind=fixed", "select.size=4"),
    ("select.kind=poisson", "select.rate=0.6"),
    ("opening.feature_mean=0.1", "opening.channel_moment=0.2"),
    ("opening.feature_mean=0.1", "opening.channel_moment=0.2", "aggregate.kind=plain"),
)
"""What a recipe can ask for around a mechanism: who sums, who is asked, and what is released beforehand."""


def people() -> Federation:
    """Returns six clients of different sizes, and public records."""
    generator = torch.Generator().manual_seed(0)
    sizes = np.arange(CLIENTS) % 3 + RECORDS - 2
    total = int(sizes.sum())
    x, y = torch.randn(total, FEATURES, generator=generator), torch.arange(total) % 2
    deal = PartitionTable(np.concatenate([[0], np.cumsum(sizes)]), np.arange(total))
    told = PublicCounts(CLIENTS, total, 2, sizes=True)
    return Federation("tiny", x, y, x[:4], y[:4], 2, deal, x[:6], y[:6], told)


def choices(annotation: Any) -> tuple[Any, ...]:
    """Returns the values of an option that has only a few; nothing for numbers and other free ones."""
    if annotation is bool:
        return (False, True)
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    inner = [kind for kind in get_args(annotation) if kind is not NoneType]
    return choices(inner[0]) if len(inner) == 1 and get_origin(annotation) is not tuple else ()


def settings_of(spec: MechanismSpec) -> Iterator[tuple[str, ...]]:
    """Yields settings of a mechanism: its defaults, every choice of every option, and what its audit cases set."""
    yield ()
    for name, field in spec.options.model_fields.items():
        if name not in ("name", "mode"):
            yield from ((f"mechanism.{name}={str(value).lower()}",) for value in choices(field.annotation))
    for case in spec.audit:
        yield tuple(setting for setting in case.settings if setting.startswith("mechanism."))
    # numbers that turn something on; a mechanism that has no such option refuses it
    yield from (
        ("mechanism.obsolete=0.4",),
        ("mechanism.unit=record", "mechanism.trust=distributed"),
        ("mechanism.quantile=0.4", "mechanism.trust=central"),
        ("mechanism.quantile=0.4", "mechanism.trust=central", "mechanism.sampling_rate=0.5"),
    )


@cache
def contexts(composed: str) -> Mapping[str, RunContext]:
    """Returns every distinct composition of a mechanism in a mode, by the settings that lead to it."""
    found, seen, federation = dict[str, RunContext](), set[str](), people()
    name, mode = composed.split()
    for own in settings_of(MECHANISMS[name]):
        for world in WORLDS if not own else WORLDS[:2]:
            settings = [f"mechanism.name={name}", f"mechanism.mode={mode}", *SMALL, *own, *world]
            try:
                context = assemble(Recipe.load(None, settings), federation=federation)
            except RecipeError:
                continue  # a combination that is refused with a sentence: the mechanism's own suite tests it
            for place, played in ((" ".join([*own, *world]), context), *preparations(context, [*own, *world])):
                if (parts := repr([part for _, part in parts_of(played.mechanism)])) not in seen:
                    seen.add(parts)
                    found[place] = played
    return found


def preparations(context: RunContext, settings: list[str]) -> Iterator[tuple[str, RunContext]]:
    """Yields the sums that a mechanism releases before its first round, each as a mechanism of its own."""
    for one in context.mechanism.preparation:
        weights = torch.zeros(one.statistic.width)
        yield " ".join([*settings, one.mechanism.name]), replace(context, mechanism=one.mechanism, weights=weights)


def parts_of(mechanism: Mechanism) -> Iterator[tuple[str, Any]]:
    """Yields a mechanism's parts by kind, those that are wrapped in others included."""
    for kind in KINDS:
        part = getattr(mechanism, kind)
        while part is not None:
            yield kind, part
            part = getattr(part, "inner", None)


def stages(composed: str, **more: Any) -> Iterator[Stage]:
    """Yields a round of every distinct composition of a mechanism in a mode."""
    for settings in contexts(composed):
        yield Stage(composed, settings, **more)


@cache
def distinct(kind: str) -> Mapping[str, tuple[Any, Mechanism]]:
    """Returns every distinct part of a kind by what it looks like, and a mechanism in which it is used."""
    mechanisms = [context.mechanism for composed in COMPOSED for context in contexts(composed).values()]
    return {
        repr(part): (part, mechanism)
        for mechanism in reversed(mechanisms)
        for found, part in parts_of(mechanism)
        if found == kind
    }


@dataclass(frozen=True)
class Stage:
    """One composition in one round, its stages computed as they are asked for; nobody vanishes."""

    composed: str
    settings: str
    round_: int = 1
    seed: int = 0
    randomness: Randomness | None = None
    factor: float = 1.0
    """What everybody's features are multiplied by: other data, under the same terms."""
    memory: ClientState | None = None

    @property
    def context(self) -> RunContext:
        return contexts(self.composed)[self.settings]

    @property
    def mechanism(self) -> Mechanism:
        return self.context.mechanism

    @property
    def preparation(self) -> bool:
        """Whether it is a sum that is released before the first round."""
        return hasattr(self.mechanism.local, "conclude")

    @property
    def draws(self) -> Randomness:
        return self.randomness or Streams(self.seed)

    @cached_property
    def data(self) -> ClientData:
        data = self.context.federation.gather(np.arange(CLIENTS))
        return ClientData(data.clients, data.offsets, data.x * self.factor, data.y)

    @cached_property
    def opening_turn(self) -> Turn:
        return Turn(Terms(0, self.context.weights, self.mechanism.adapter.start()), self.draws)

    @cached_property
    def knobs(self) -> Knobs:
        knobs, opening = self.mechanism.adapter.start(), self.mechanism.opening
        return knobs if opening is None else knobs.plus(opening.conclude(opening.tell(self.data, self.opening_turn)))

    @cached_property
    def turn(self) -> Turn:
        return Turn(Terms(self.round_, self.context.weights, self.knobs, np.arange(CLIENTS)), self.draws)

    @cached_property
    def state(self) -> ClientState:
        return self.memory or ClientState.blank(CLIENTS)

    @cached_property
    def update(self) -> Update:
        return replace(self.mechanism.local.train(self.context.trainer, self.turn, self.data), state=self.state)

    @cached_property
    def bounded(self) -> Bounded:
        return replace(self.mechanism.bounder.bound(self.update, self.turn), state=self.state)

    @cached_property
    def sent(self) -> Sent:
        return self.mechanism.perturber.shield(self.bounded, self.turn)

    @cached_property
    def survivors(self) -> Survivors:
        return Survivors(self.round_, np.arange(CLIENTS))

    @cached_property
    def revealed(self) -> Revealed | None:
        kept = self.sent.kept
        return None if kept is None else self.mechanism.perturber.reveal(kept, self.survivors, self.turn)

    @cached_property
    def partials(self) -> list[Any]:
        """The sum: empty, with all messages, and without what was revealed."""
        aggregator = self.mechanism.aggregator
        empty = aggregator.start(self.turn.terms, self.mechanism.bounder.sensitivity(self.knobs))
        added = aggregator.add(empty, self.sent.message)
        return [empty, added, added if self.revealed is None else aggregator.subtract(added, self.revealed)]

    @cached_property
    def summed(self) -> Summed:
        return self.mechanism.aggregator.finish(self.partials[-1], Vanished())

    @cached_property
    def released(self) -> Released:
        return self.mechanism.perturber.release(self.summed, self.turn)

    def calls(self) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
        """Yields every call that a round makes to a part: name, function, arguments."""
        mechanism, turn, everybody = self.mechanism, self.turn, np.ones(CLIENTS, bool)
        public = {"loss": 0.7, "accuracy": 0.5}
        if mechanism.opening is not None:
            yield "opening.tell", mechanism.opening.tell, (self.data, self.opening_turn)
            told = mechanism.opening.tell(self.data, self.opening_turn)
            yield "opening.conclude", mechanism.opening.conclude, (told,)
            yield "opening.price", mechanism.opening.price, ()
        yield "selector.select", mechanism.selector.select, (turn, everybody)
        yield "local.train", mechanism.local.train, (self.context.trainer, turn, self.data)
        yield "bounder.sensitivity", mechanism.bounder.sensitivity, (self.knobs,)
        yield "bounder.bound", mechanism.bounder.bound, (self.update, turn)
        yield "perturber.price", mechanism.perturber.price, (self.knobs, self.round_)
        yield "perturber.shield", mechanism.perturber.shield, (self.bounded, turn)
        if self.sent.kept is not None:
            yield "perturber.reveal", mechanism.perturber.reveal, (self.sent.kept, self.survivors, turn)
        yield "aggregator.start", mechanism.aggregator.start, (turn.terms, self.bounded.sensitivity)
        yield "aggregator.add", mechanism.aggregator.add, (self.partials[0], self.sent.message)
        if self.revealed is not None:
            yield "aggregator.subtract", mechanism.aggregator.subtract, (self.partials[1], self.revealed)
        yield "aggregator.finish", mechanism.aggregator.finish, (self.partials[2], Vanished())
        yield "perturber.release", mechanism.perturber.release, (self.summed, turn)
        yield "adapter.start", mechanism.adapter.start, ()
        yield "adapter.adapt", mechanism.adapter.adapt, (turn, self.released, public)


def picture(value: Any) -> Any:
    """Returns all that there is to see of a value, to be compared: bits of arrays, fields of records."""
    if isinstance(value, Tensor):
        value = value.detach().numpy()
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, *(picture(getattr(value, field.name)) for field in fields(value)))
    if isinstance(value, Mapping):
        return tuple(sorted((name, picture(inner)) for name, inner in value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(picture, value))
    if isinstance(value, torch.nn.Module):
        return picture(dict(value.named_parameters()))
    return repr(value)
