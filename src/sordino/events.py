"""Privacy events: frozen descriptions of what a release does, which accountants interpret and never guess at.

We use dp_accounting's events where it has one, and our own where it has none. Every event here is hashable, so that
histories that are equal are priced once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import attrs
from dp_accounting.dp_event import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from sordino.errors import UnknownEvent
from sordino.types import Adjacency, Observer, Unit

__all__ = [
    "BestOfMany",
    "Charge",
    "ComposedDpEvent",
    "CorrelatedGaussian",
    "DiscreteGaussian",
    "DpEvent",
    "GaussianDpEvent",
    "Guarantee",
    "LaplaceDpEvent",
    "NoOpDpEvent",
    "NonPrivateDpEvent",
    "PoissonSampledDpEvent",
    "SampledWithoutReplacementDpEvent",
    "SelfComposedDpEvent",
    "Skellam",
    "Unbounded",
    "decode",
    "describe",
    "encode",
    "know",
    "named",
]


@attrs.frozen
class Unbounded(DpEvent):
    """A release that nothing bounds: its certified ε is infinite, for the reason given in words."""

    reason: str


@attrs.frozen
class Skellam(DpEvent):
    """An integer vector plus Skellam noise of the given variance on each coordinate.

    Attributes:
        variance: total variance of the noise on each coordinate of the sum.
        l2_sensitivity: L2 bound on what one unit changes, of the *rounded* integer vector.
        l1_sensitivity: L1 bound on the same.

    Reference: Agarwal, Kairouz, Liu (2021), "The Skellam Mechanism for Differentially Private Federated Learning".
    """

    variance: float
    l2_sensitivity: float
    l1_sensitivity: float


@attrs.frozen
class DiscreteGaussian(DpEvent):
    """An integer vector plus discrete Gaussian noise on each coordinate: P(n) is proportional to exp(−n²/(2·stddev²)).

    Attributes:
        stddev: the parameter σ of the noise, of the whole sum if several noises are added.
        l2_sensitivity: L2 bound on what one unit changes, of the *rounded* integer vector.
        summands: how many independent discrete Gaussians of parameter σ/√summands were added to make the noise.

    Reference: Canonne, Kamath, Steinke (2020), "The Discrete Gaussian for Differential Privacy"; Kairouz, Liu, Steinke
    (2021), "The Distributed Discrete Gaussian Mechanism", for sums.
    """

    stddev: float
    l2_sensitivity: float
    summands: int = 1


@attrs.frozen
class CorrelatedGaussian(DpEvent):
    """One participation in a stream of releases whose noises are correlated in time (fed_cad).

    Its innovation φ_t = u_t − r_t·u_{t−1} has sensitivity and fresh noise in the same proportion, so by induction over
    the released past one participation costs exactly one Gaussian of this multiplier.
    """

    noise_multiplier: float


@attrs.frozen
class BestOfMany(DpEvent):
    """Independent trials, a random number of times, of which only the best is released (its settings included).

    The number of trials follows the truncated negative binomial law of parameters `shape` (η > −1; 0 is the logarithmic
    law, 1 the geometric one) and `stop` (0 < γ < 1), and is kept secret, as all other trials are.

    Attributes:
        event: what one trial releases, the same for every choice of settings.
        shape: η.
        stop: γ.

    Reference: Papernot and Steinke (2022), "Hyperparameter Tuning with Renyi Differential Privacy", Theorem 2.
    """

    event: DpEvent
    shape: float
    stop: float


@attrs.frozen
class Guarantee:
    """A kind of promise: whose presence is hidden, from whom, under which adjacency."""

    unit: Unit
    observer: Observer
    adjacency: Adjacency


def named(guarantees: Iterable[Guarantee]) -> dict[str, Guarantee]:
    """Returns guarantees by `unit/observer`, or by `unit/observer/adjacency` where several would share that name."""
    known = list(dict.fromkeys(guarantees))
    sharing = Counter((one.unit, one.observer) for one in known)
    return {
        f"{one.unit}/{one.observer}" + (f"/{one.adjacency}" if sharing[one.unit, one.observer] > 1 else ""): one
        for one in known
    }


@attrs.frozen(cache_hash=True)
class Charge:
    """What one release costs every unit that pays for it, in one guarantee.

    Attributes:
        guarantee: the kind of promise that is charged.
        event: what the release does, with the selection's amplification already wrapped around it.
        payers: `participants` when only clients whose message left them pay; `eligible` when everyone who could have
            been selected pays (the price of amplification: the coin is part of the mechanism).
    """

    guarantee: Guarantee
    event: DpEvent
    payers: str = "participants"


_KNOWN: dict[str, type[DpEvent]] = {
    kind.__name__: kind
    for kind in (
        BestOfMany,
        ComposedDpEvent,
        CorrelatedGaussian,
        DiscreteGaussian,
        GaussianDpEvent,
        LaplaceDpEvent,
        NoOpDpEvent,
        NonPrivateDpEvent,
        PoissonSampledDpEvent,
        SampledWithoutReplacementDpEvent,
        SelfComposedDpEvent,
        Skellam,
        Unbounded,
    )
}


def know(kind: type[DpEvent]) -> None:
    """Makes a kind of event known, so that `encode` writes it and `decode` reads it back by its class name.

    Edge cases: saying it twice changes nothing. Accountants learn what it costs by `account.registry.register_event`.

    Raises:
        UnknownEvent: it is not a frozen, hashable attrs class of events, or its name is taken by another kind.
    """
    name = kind.__name__
    if not (issubclass(kind, DpEvent) and "__attrs_attrs__" in vars(kind) and kind.__hash__ is not None):
        raise UnknownEvent(f"event {name} cannot be registered: make it an attrs.frozen subclass of DpEvent")
    if _KNOWN.setdefault(name, kind) is not kind:
        raise UnknownEvent(f"event {name} cannot be registered: another kind has that name, so choose a new one")


def encode(event: DpEvent) -> dict[str, Any]:
    """Returns the event as plain JSON: its class name under `kind`, and its fields.

    Raises:
        UnknownEvent: the event is of a kind that could not be read back.
    """
    name = type(event).__name__
    if _KNOWN.get(name) is not type(event):
        raise UnknownEvent(f"event {name} cannot be written to a ledger: use one of {', '.join(sorted(_KNOWN))}")
    fields = {field.name: getattr(event, field.name) for field in attrs.fields(type(event))}
    return {"kind": name} | {key: _encode_field(value) for key, value in fields.items()}


def _encode_field(value: Any) -> Any:
    if isinstance(value, DpEvent):
        return encode(value)
    return [encode(part) for part in value] if isinstance(value, list | tuple) else value


def decode(record: Mapping[str, Any]) -> DpEvent:
    """Inverts `encode`. Lists come back as tuples, so that the event is hashable."""
    kind = _KNOWN.get(str(record.get("kind"))) or _from_outside(str(record.get("kind")))
    if kind is None:
        raise UnknownEvent(f"event {record.get('kind')!r} is unknown to this version: upgrade sordino to read it")
    return kind(**{key: _decode_field(value) for key, value in record.items() if key != "kind"})


@cache
def _from_outside(name: str) -> type[DpEvent] | None:
    """Returns a kind of event that an installed package registers when it is imported, if there is one."""
    for entry in entry_points(group="sordino.mechanisms"):
        entry.load()
    return _KNOWN.get(name)


def _decode_field(value: Any) -> Any:
    if isinstance(value, Mapping):
        return decode(value)
    return tuple(decode(part) for part in value) if isinstance(value, list) else value


def describe(event: DpEvent) -> str:
    """Returns the event in a few words, for tables: `PoissonSampled(0.01, Gaussian(1))`."""
    fields = (getattr(event, field.name) for field in attrs.fields(type(event)))
    return f"{type(event).__name__.removesuffix('DpEvent')}({', '.join(map(_describe_field, fields))})"


def _describe_field(value: Any) -> str:
    if isinstance(value, DpEvent):
        return describe(value)
    if isinstance(value, list | tuple):
        return " + ".join(map(describe, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
