"""What one client went through: a multiset of releases in one canonical form, so that equal ones are priced once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import singledispatch

from sordino.errors import AccountingError
from sordino.events import (
    ComposedDpEvent,
    CorrelatedGaussian,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    Unbounded,
)

History = Mapping[DpEvent, int]
Key = frozenset[tuple[DpEvent, int]]


def flatten(history: History | DpEvent | Iterable[DpEvent]) -> Counter[DpEvent]:
    """Returns the leaves of an event, a sequence of events, or a multiset of events, each with its count.

    Formal guarantees: composition is order-free, so `flatten(SelfComposed(e, n)) == flatten([e] * n)`.

    Edge cases: `NoOp` vanishes; a count that is negative or not whole is refused; a sampled composition of plain
    Gaussians becomes one sampled Gaussian (a query with pre- and post-processing, arXiv:1812.06210 section 3).
    """
    if isinstance(history, Mapping):
        pairs: Iterable[tuple[DpEvent, int]] = history.items()
    else:
        pairs = ((event, 1) for event in ([history] if isinstance(history, DpEvent) else history))
    total: Counter[DpEvent] = Counter()
    for event, count in pairs:
        if count != int(count) or count < 0:
            raise AccountingError(f"event {event} is counted {count} times: a count must be a whole number, 0 or more")
        for leaf, times in _leaves(event):
            total[leaf] += times * int(count)
    return Counter({event: count for event, count in total.items() if count})


def key(history: History) -> Key:
    """Returns the hashable identity of a flattened history."""
    return frozenset(history.items())


def reason_unbounded(history: History) -> str | None:
    """Returns in words why nothing bounds this history, or None when something does."""
    reasons = [event.reason for event in history if isinstance(event, Unbounded)]
    reasons += ["a release without any protection" for event in history if isinstance(event, NonPrivateDpEvent)]
    return "; ".join(sorted(set(reasons))) or None


@singledispatch
def _leaves(event: DpEvent) -> Iterator[tuple[DpEvent, int]]:
    yield event, 1


@_leaves.register
def _(event: NoOpDpEvent) -> Iterator[tuple[DpEvent, int]]:
    yield from ()


@_leaves.register
def _(event: GaussianDpEvent) -> Iterator[tuple[DpEvent, int]]:
    yield _or_unbounded(event, event.noise_multiplier), 1


@_leaves.register
def _(event: CorrelatedGaussian) -> Iterator[tuple[DpEvent, int]]:
    yield _or_unbounded(event, event.noise_multiplier), 1


@_leaves.register
def _(event: ComposedDpEvent) -> Iterator[tuple[DpEvent, int]]:
    for part in event.events:
        yield from _leaves(part)


@_leaves.register
def _(event: SelfComposedDpEvent) -> Iterator[tuple[DpEvent, int]]:
    if event.count != int(event.count) or event.count < 0:
        raise AccountingError(f"count {event.count} of a repeated event must be a whole number, 0 or more")
    for leaf, count in _leaves(event.event):
        yield leaf, count * int(event.count)


@_leaves.register
def _(event: PoissonSampledDpEvent) -> Iterator[tuple[DpEvent, int]]:
    q = event.sampling_probability
    if not (math.isfinite(q) and 0 <= q <= 1):
        raise AccountingError(f"sampling rate {q} must lie in (0, 1]")
    inner = flatten(event.event)
    if q == 0 or not inner:
        return
    if q == 1 or reason_unbounded(inner):
        yield from inner.items()
    elif all(isinstance(leaf, GaussianDpEvent) for leaf in inner):
        precision = sum(count / leaf.noise_multiplier**2 for leaf, count in inner.items())
        yield PoissonSampledDpEvent(q, GaussianDpEvent(precision**-0.5)), 1
    elif sum(inner.values()) == 1:
        yield PoissonSampledDpEvent(q, next(iter(inner))), 1
    else:
        parts = tuple(leaf for leaf, count in sorted(inner.items(), key=str) for _ in range(count))
        yield PoissonSampledDpEvent(q, ComposedDpEvent(parts)), 1


def _or_unbounded(event: DpEvent, noise_multiplier: float) -> DpEvent:
    if math.isnan(noise_multiplier) or math.isinf(noise_multiplier) or noise_multiplier < 0:
        raise AccountingError(f"noise_multiplier {noise_multiplier} must be finite and not negative")
    return event if noise_multiplier else Unbounded("no noise is added (noise_multiplier is 0)")
