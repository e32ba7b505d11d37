"""Tests that tell two worlds apart: the likelihood ratio where the certified event has one, a learned one otherwise.

A view is all that the observer sees in one trial, as a row of numbers: first `main`, the release that the event
describes, round by round; then whatever else there is to see (other messages, revealed noise, side releases).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Protocol

import numpy as np

from sordino.errors import UnknownEvent
from sordino.events import DpEvent, GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent, Skellam
from sordino.types import FloatArray

_RIDGE = 1e-12
"""Variances below this share of the largest are rounding errors."""
_FAINT = 1e-6
_LARGEST = 1e15


@dataclass(frozen=True)
class Views:
    """What the observer saw in many trials: `main` is `[trials, rounds, width]`, `rest` `[trials, more]`."""

    main: FloatArray
    rest: FloatArray

    @property
    def rows(self) -> FloatArray:
        """Everything, one row a trial; what is not finite is as large as numbers get here."""
        rows = np.concatenate([self.main.reshape(len(self.main), -1), self.rest], axis=1, dtype=np.float64)
        return np.clip(np.nan_to_num(rows, nan=_LARGEST), -_LARGEST, _LARGEST)


class Statistic(Protocol):
    """Scores trials: the higher, the more it looks as if the unit was there."""

    @property
    def name(self) -> str:
        """How reports call it."""

    def score(self, views: Views) -> FloatArray:
        """Returns one number a trial."""


@dataclass(frozen=True)
class LikelihoodRatio:
    """Sums over the rounds the log-likelihood ratio of the certified event at the release's place between the worlds.

    `origin` is what the release is on average without the unit and `step` what the unit adds, `[rounds, width]`. A
    trial's place is 0 at the first and 1 at the second, where an event of multiplier z has noise z.
    """

    events: tuple[DpEvent, ...]
    origin: FloatArray
    step: FloatArray

    @property
    def name(self) -> str:
        return "likelihood ratio"

    @classmethod
    def fit(cls, events: Sequence[DpEvent], without: Views, with_: Views) -> Statistic | None:
        """Returns the test, or None when an event has no closed form or its release does not move."""
        if all(isinstance(event, LaplaceDpEvent) for event in events):
            return LaplaceRatio.fit(without, with_)
        try:
            for event in events:
                ratio(event, np.zeros(1))
        except UnknownEvent:
            return None
        origin = without.main.mean(axis=0, dtype=np.float64)
        step = with_.main.mean(axis=0, dtype=np.float64) - origin
        scale = [_rate(event) for event in events]
        return cls(tuple(events), origin, step / np.array(scale)[:, None]) if step.any() else None

    def score(self, views: Views) -> FloatArray:
        size = np.maximum(np.square(self.step).sum(axis=1), 1e-300)
        weights = (self.step / size[:, None]).astype(views.main.dtype)
        places = np.einsum("trw,rw->tr", views.main - self.origin.astype(views.main.dtype), weights)
        rounds = [ratio(event, places[:, at].astype(np.float64)) for at, event in enumerate(self.events)]
        return np.asarray(np.sum(rounds, axis=0))


@dataclass(frozen=True)
class LaplaceRatio:
    """Sums |x − origin| − |x − origin − step|, each in units of its own noise, over all coordinates and rounds."""

    origin: FloatArray
    step: FloatArray
    scale: FloatArray

    @property
    def name(self) -> str:
        return "likelihood ratio"

    @classmethod
    def fit(cls, without: Views, with_: Views) -> LaplaceRatio:
        """Returns the test, with noise as wide as it is in the pilot."""
        origin = without.main.mean(axis=0, dtype=np.float64)
        scale = np.abs(without.main - origin).mean(axis=0, dtype=np.float64)
        return cls(origin, with_.main.mean(axis=0, dtype=np.float64) - origin, np.maximum(scale, 1e-300))

    def score(self, views: Views) -> FloatArray:
        gap = views.main - self.origin
        return np.asarray(((np.abs(gap) - np.abs(gap - self.step)) / self.scale).sum(axis=(1, 2)))


@singledispatch
def ratio(event: DpEvent, place: FloatArray) -> FloatArray:
    """Returns ln p(place | unit) − ln p(place | no unit) for noise of the event's multiplier around 1 and around 0."""
    raise UnknownEvent(f"no closed likelihood ratio is known for {type(event).__name__}: a learned test takes over")


@ratio.register
def _(event: GaussianDpEvent, place: FloatArray) -> FloatArray:
    return np.asarray((place - 0.5) / event.noise_multiplier**2)


@ratio.register
def _(event: Skellam, place: FloatArray) -> FloatArray:
    # nearly normal at the variances in use, and a test need not be optimal to be valid
    return np.asarray((place - 0.5) * event.l2_sensitivity**2 / event.variance)


@ratio.register
def _(event: PoissonSampledDpEvent, place: FloatArray) -> FloatArray:
    rate = event.sampling_probability
    inside = ratio(event.event, place)
    return np.logaddexp(math.log1p(-rate) if rate < 1 else -np.inf, math.log(rate) + inside)


def _rate(event: DpEvent) -> float:
    """Returns how often the unit is in: with sampling, the mean moves by that share of a step only."""
    return event.sampling_probability if isinstance(event, PoissonSampledDpEvent) else 1.0


@dataclass(frozen=True)
class Discriminant:
    """Two Gaussians fitted to all that is seen, and their likelihood ratio: linear for one shape, quadratic for two.

    It learns what no closed form expects: noise that is used twice, shared, revealed, or of a size that tells.
    """

    name: str
    origin: FloatArray
    whiten: FloatArray
    """`[seen, seen]`: turns rows into coordinates in which the two shapes together are a standard normal's."""
    linear: FloatArray
    quadratic: FloatArray | None = None

    @classmethod
    def fit(cls, without: Views, with_: Views, quadratic: bool) -> Discriminant:
        """Learns the test from pilot trials of both worlds."""
        rows = [without.rows, with_.rows]
        means = [row.mean(axis=0) for row in rows]
        shapes = [np.atleast_2d(np.cov(row, rowvar=False)) for row in rows]
        middle, whiten = (means[0] + means[1]) / 2, _whitening((shapes[0] + shapes[1]) / 2, means[1] - means[0])
        step = (means[1] - means[0]) @ whiten
        if not quadratic:
            return cls("learned, linear", middle, whiten, step)
        inverses = [np.linalg.inv(whiten.T @ shape @ whiten + _FAINT * np.eye(len(shape))) for shape in shapes]
        bend = (inverses[0] - inverses[1]) / 2
        return cls("learned, quadratic", middle, whiten, (inverses[0] + inverses[1]) @ step / 2, bend)

    def score(self, views: Views) -> FloatArray:
        centred = views.rows - self.origin
        if self.quadratic is None:
            return np.asarray(centred @ (self.whiten @ self.linear))
        white = centred @ self.whiten
        return np.asarray(white @ self.linear + np.einsum("ti,ti->t", white @ self.quadratic, white))


def separation(without: Views, with_: Views, laplace: bool = False) -> float:
    """Returns how far apart two worlds are, in standard deviations of the best linear test (Mahalanobis distance).

    Under Laplace noise every coordinate adds what it moves by, in absolute value, in units of its own noise.

    Played with the same randomness, additive noise cancels in the difference, so a small pilot suffices to compare
    attacks.
    """
    rows = [without.rows, with_.rows]
    step = rows[1].mean(axis=0) - rows[0].mean(axis=0)
    shape = np.atleast_2d(np.cov(rows[0], rowvar=False) + np.cov(rows[1], rowvar=False)) / 2
    if laplace:
        return float((np.abs(step) / np.sqrt(np.maximum(np.diag(shape), 1e-300))).sum())
    return float(np.linalg.norm(step @ _whitening(shape, step)))


def widening(without: Views, with_: Views) -> float:
    """Returns how much wider a number is in one world than in the other, as a logarithm; 0 for what may be chance.

    Numbers that overflow are as often huge and positive as huge and negative: no mean shows them.
    """
    spreads = [np.maximum(view.rows.std(axis=0), 1e-300) for view in (without, with_)]
    ratios = np.abs(np.log(spreads[1] / spreads[0])) if len(spreads[0]) else np.zeros(1)
    return max(0.0, float(ratios.max()) - _CHANCE)


_CHANCE = 1.0


def _whitening(shape: FloatArray, step: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(shape)
    # what hardly varies may be what tells most: it is kept, down to rounding errors
    floor = _RIDGE * max(float(values[-1]), float(np.square(step).max()), 1e-300)
    return np.asarray(vectors / np.sqrt(np.maximum(values, floor)))
