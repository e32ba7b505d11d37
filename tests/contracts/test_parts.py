"""The contract of every part, whichever mechanism uses it: pure, seeded, fresh, bounded, and charged what it costs."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from contracts.parts import CLIENTS, COMPOSED, FEATURES, KINDS, Stage, distinct, picture, stages
from sordino.client_state import ClientState
from sordino.errors import SordinoError
from sordino.events import Unbounded
from sordino.random.streams import SERVER, Streams
from sordino.stages import Bounded, Update
from sordino.terms import Knobs

PACKAGES = ("select", "bound", "perturb", "aggregate", "adapt", "opening")
MODULES = ("train.local", "train.noisy")
DUTIES = (
    {"select", "charge"},
    {"train"},
    {"sensitivity", "bound"},
    {"shield", "release"},
    {"add", "finish"},
    {"start", "adapt"},
    {"tell", "conclude"},
)
"""By which methods a class is known to be a part."""

composed = pytest.mark.parametrize("composed", COMPOSED)


def public_parts() -> Iterator[type]:
    """Yields every public class in the rooms of parts that does a part's duties."""
    names = [f"sordino.{module}" for module in MODULES]
    for package in PACKAGES:
        room = importlib.import_module(f"sordino.{package}")
        names += [found.name for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")]
    for name in names:
        for _, kind in inspect.getmembers(importlib.import_module(name), inspect.isclass):
            here = kind.__module__ == name and not kind.__name__.startswith("_")
            here = here and not issubclass(kind, torch.nn.Module)  # its `train` sets a mode
            if here and not getattr(kind, "_is_protocol", False) and any(duty <= set(dir(kind)) for duty in DUTIES):
                yield kind


def test_no_part_escapes_this_suite() -> None:
    collected = {type(part) for kind in KINDS for part, _ in distinct(kind).values()}
    public = set(public_parts())
    assert len(public) > 30
    # shards need more clients than there are here: `tests/aggregate/test_sharded.py` plays them
    assert {kind.__qualname__ for kind in public - collected} == {"ShardedShares", "ShardedSum"}


def test_parts_are_frozen_records() -> None:
    for kind in KINDS:
        for part, _ in distinct(kind).values():
            assert is_dataclass(part) and type(part).__dataclass_params__.frozen, part


@composed
def test_every_call_leaves_its_arguments_alone_and_repeats_to_the_bit(composed: str) -> None:
    for stage in stages(composed):
        before = picture(stage.mechanism)
        for name, call, arguments in stage.calls():
            given_ = picture(arguments)
            first = picture(call(*arguments))
            assert picture(arguments) == given_, (name, stage.settings)
            assert picture(call(*arguments)) == first, (name, stage.settings)
        assert picture(stage.mechanism) == before, stage.settings


@composed
def test_the_same_seed_gives_the_same_round(composed: str) -> None:
    for stage in stages(composed):
        again = Stage(stage.composed, stage.settings)
        for one, two in zip(stage.calls(), again.calls(), strict=True):
            assert picture(one[1](*one[2])) == picture(two[1](*two[2])), (one[0], stage.settings)


class Spy(Streams):
    """Keyed streams that count how often each was opened."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        object.__setattr__(self, "opened", Counter())

    def generator(self, purpose: str, round_: int = 0, client: int = SERVER) -> np.random.Generator:
        self.opened["generator", purpose, round_, client] += 1
        return super().generator(purpose, round_, client)

    def keys(self, purpose: str, round_: int, clients: Any) -> list[bytes]:
        self.opened.update(("keys", purpose, round_, int(client)) for client in clients)
        return super().keys(purpose, round_, clients)

    def normals(self, purpose: str, round_: int, clients: Any, width: int) -> torch.Tensor:
        self.opened.update(("normals", purpose, round_, int(client)) for client in clients)
        return super().normals(purpose, round_, clients, width)


@composed
def test_no_stream_of_noise_is_opened_twice_in_two_rounds(composed: str) -> None:
    """Each draw has a name of its own: purpose, round and client; what opens a stream twice reuses its noise."""
    for settings_ in [stage.settings for stage in stages(composed)]:
        spy = Spy(0)
        knobs = Stage(composed, settings_, randomness=spy).knobs  # the opening happens once
        for round_ in (1, 2):
            stage = Stage(composed, settings_, round_, randomness=spy)
            stage.__dict__["knobs"] = knobs
            stage.mechanism.selector.select(stage.turn, np.ones(CLIENTS, bool))
            assert stage.released.mean.shape == stage.context.weights.shape
        assert [name for name, times in spy.opened.items() if times > 1] == [], settings_


def without_data(stage: Stage, **more: Any) -> Bounded:
    """Contributions of nothing at all, so that what is sent is noise."""
    return replace(stage.bounded, rows=torch.zeros_like(stage.bounded.rows), **more)


@composed
def test_noise_is_fresh_in_every_round_for_every_client_and_by_every_seed(composed: str) -> None:
    for stage in stages(composed):
        perturber, turn, nothing = stage.mechanism.perturber, stage.turn, without_data(stage)
        other = replace(turn, randomness=Streams(1))
        rows, later, elsewhere = (
            perturber.shield(nothing, view).message.rows for view in (turn, turn.but(round_=2), other)
        )
        if rows.any():
            assert (rows != later).any(dim=1).all() and (rows != elsewhere).any(dim=1).all(), stage.settings
            assert len(np.unique(rows.numpy(), axis=0)) == len(rows) == CLIENTS, stage.settings
        quiet = replace(stage.summed, total=torch.zeros_like(stage.summed.total))
        mean, next_, third = (perturber.release(quiet, view).mean for view in (turn, turn.but(round_=2), other))
        if mean.any():
            assert not torch.equal(mean, next_) and not torch.equal(mean, third), stage.settings
        if stage.revealed is not None:
            kept = stage.sent.kept
            again = perturber.reveal(kept, stage.survivors, turn.but(round_=2))
            assert (again.rows != stage.revealed.rows).any(dim=1).all(), stage.settings
        # somebody adds noise wherever a finite price is asked
        if any(not isinstance(event, Unbounded) for _, event in stage.released.prices):
            trained = stage.update.noise_multiplier is not None
            assert rows.any() or mean.any() or trained, stage.settings


VALUES = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1e-45, 1e38, -1e38, math.nan, math.inf, -math.inf]),
)
DOUBLES = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([1e308, -1e308, 5e-324]))


@cache
def bounders(composed: str) -> tuple[Stage, ...]:
    """Returns a stage for every distinct bounder of a mechanism in a mode."""
    return tuple({repr(stage.mechanism.bounder): stage for stage in stages(composed)}.values())


def rows_of(dtype: type, values: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    """Rows for everybody, of a model with two classes."""
    return arrays.arrays(dtype, (CLIENTS, 2 * (FEATURES + 1)), elements=values, fill=values)


@composed
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    values=st.one_of(rows_of(np.float32, VALUES), rows_of(np.float64, DOUBLES)),
    sizes=arrays.arrays(np.int64, CLIENTS, elements=st.integers(1, 10**9)),
    clip_norm=st.floats(1e-3, 1e3),
)
def test_no_row_exceeds_the_sensitivity_that_is_stated_whatever_comes_in(
    composed: str, values: Any, sizes: Any, clip_norm: float
) -> None:
    for stage in bounders(composed):
        bounder, turn = stage.mechanism.bounder, stage.turn.but(knobs=stage.knobs.but(clip_norm=clip_norm))
        rows, state = torch.from_numpy(values.copy()), remembering(stage, turn)
        update = Update(np.arange(CLIENTS), rows, sizes, stage.update.trace, state=state)
        try:
            bounded = bounder.bound(update, turn)
        except SordinoError:  # it takes only what a trainer vouches for: then the bound is not on rows
            assert not bounder.sensitivity(turn.knobs).rowwise
            continue
        assert bounded.sensitivity == bounder.sensitivity(turn.knobs)
        if bounded.sensitivity is None:
            assert all(isinstance(event, Unbounded) for _, event in stage.mechanism.perturber.price(turn.knobs))
            continue
        assert torch.isfinite(bounded.rows).all()
        said = bounded.rows.double()
        if not bounded.sensitivity.rowwise:  # what is said is a model, in units in which the weight is divided out
            said = said / bounded.weights.double()[:, None] + turn.weights.double()
        norms = torch.linalg.vector_norm(said, bounded.sensitivity.order, dim=1)
        room = 0.0 if bounded.sensitivity.rowwise else 1e-6
        limit = bounded.sensitivity.norm * (1 + room) + room * float(turn.weights.norm())
        assert (norms <= limit).all(), stage.settings


def remembering(stage: Stage, turn: Any) -> ClientState:
    """What clients remember whose first updates were bounded under the same knobs."""
    if stage.sent.state is None:
        return ClientState.blank(CLIENTS)
    first = stage.mechanism.bounder.bound(replace(stage.update, state=ClientState.blank(CLIENTS)), turn)
    return stage.mechanism.perturber.shield(replace(first, state=ClientState.blank(CLIENTS)), turn).state


def of_client(value: Any, client: int) -> Any:
    """Returns one client's row of everything that a stage holds."""
    if value is None or isinstance(value, str | bool | float | int):
        return value
    if isinstance(value, torch.Tensor | np.ndarray):
        return value[client : client + 1]
    if isinstance(value, dict):
        return {name: of_client(inner, client) for name, inner in value.items()}
    keep = ("sensitivity", "notes", "steps")
    return replace(
        value,
        **{f.name: of_client(getattr(value, f.name), client) for f in fields(value) if f.name not in keep},
    )


@composed
def test_one_client_at_a_time_equals_all_rows_at_once_round_after_round(composed: str) -> None:
    """State that is returned is passed in again, by the many and by each one; both send the same, to the bit."""
    for first in stages(composed):
        if len(first.update.rows) != CLIENTS:
            continue  # summed in training: there are no rows to tell apart
        mechanism, state, alone = first.mechanism, first.state, [ClientState.blank(1)] * CLIENTS
        for round_ in (1, 2, 3):
            stage = Stage(first.composed, first.settings, round_, memory=state)
            for client in range(CLIENTS):
                update = replace(of_client(stage.update, client), state=alone[client])
                bounded = replace(mechanism.bounder.bound(update, stage.turn), state=alone[client])
                sent = mechanism.perturber.shield(bounded, stage.turn)
                for name in ("rows", "weights", "squared_multipliers", "side"):
                    one, all_ = getattr(sent.message, name), getattr(stage.sent.message, name)
                    assert picture(one) == picture(of_client(all_, client)), (name, round_, first.settings)
                if sent.kept is not None:
                    assert torch.equal(sent.kept.noise[0], stage.sent.kept.noise[client])
                alone[client] = sent.state or alone[client]
            state = stage.sent.state or state
            for client in range(CLIENTS):
                assert picture(alone[client]) == picture(of_client(state, client)), first.settings


@composed
def test_what_is_charged_is_what_was_quoted_and_depends_on_public_knobs_alone(composed: str) -> None:
    for stage in stages(composed):
        mechanism, quoted = stage.mechanism, {}
        for round_ in (1, 2, 4):
            for factor in (1.0, 100.0):
                played = Stage(stage.composed, stage.settings, round_, factor=factor)
                played.__dict__["knobs"] = stage.knobs
                quote = mechanism.quote(played.knobs, round_)
                assert mechanism.charges(played.released.prices) == quote, (round_, stage.settings)
                quoted.setdefault(round_, quote)
                assert quoted[round_] == quote
        knobs = stage.knobs
        copied = Knobs(knobs.clip_norm, knobs.noise_multiplier, {name: t.clone() for name, t in knobs.more.items()})
        for round_, quote in quoted.items():
            assert mechanism.quote(copied, round_) == quote
        bounded = [event for _, event in mechanism.perturber.price(knobs) if not isinstance(event, Unbounded)]
        louder = dict(mechanism.perturber.price(knobs.but(noise_multiplier=2 * knobs.noise_multiplier)))
        assert not bounded or not set(bounded) & set(louder.values()), "the price follows the noise"


@composed
def test_shapes_and_types_are_what_the_next_stage_expects(composed: str) -> None:
    for stage in stages(composed):
        width = len(stage.context.weights)
        assert stage.update.rows.dtype in (torch.float32, torch.float64) and stage.update.rows.shape[1] == width
        bounded, message = stage.bounded, stage.sent.message
        assert bounded.rows.shape == stage.update.rows.shape and bounded.rows.dtype == stage.update.rows.dtype
        assert bounded.weights.shape == bounded.clipped.shape == (CLIENTS,) and bounded.clipped.dtype == torch.bool
        assert message.rows.shape == bounded.rows.shape and message.rows.dtype in (bounded.rows.dtype, torch.int64)
        assert message.weights.shape == message.squared_multipliers.shape == (CLIENTS,)
        assert message.squared_multipliers.dtype == torch.float64
        assert message.sensitivity in (None, bounded.sensitivity)
        assert np.array_equal(message.clients, np.arange(CLIENTS))
        assert all(len(column) == CLIENTS for column in message.side.values())
        if stage.revealed is not None:
            assert stage.revealed.rows.shape == message.rows.shape
            assert stage.revealed.rows.dtype == message.rows.dtype or stage.preparation  # float shares are single
            assert stage.revealed.squared_multipliers.shape == (CLIENTS,)
        assert stage.summed.total.shape == (width,) and np.array_equal(stage.summed.survivors, np.arange(CLIENTS))
        assert math.isfinite(stage.summed.weight) and stage.summed.weight > 0
        released = stage.released
        assert released.mean.shape == (width,) and released.mean.dtype == torch.float32
        assert torch.isfinite(released.mean).all() and math.isfinite(released.stddev) and released.stddev >= 0
        after = stage.mechanism.adapter.adapt(stage.turn, released, {"loss": 0.7, "accuracy": 0.5})
        assert set(after.more) == set(stage.knobs.more) and after.clip_norm > 0 and after.noise_multiplier >= 0
        selector, some = stage.mechanism.selector, np.arange(CLIENTS) % 2 == 0
        cohort = selector.select(stage.turn, some)
        assert cohort.dtype == np.int64 and (np.diff(cohort) > 0).all()
        if getattr(selector, "blind", False):  # who could pay is nobody's business: it does not show in who is asked
            assert np.array_equal(cohort, selector.select(stage.turn, ~some))
        else:
            assert some[cohort].all()
