"""What the trials came to: means, spreads, and a ranking that says where chance could have made it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError
from scipy import stats

from sordino.compare.contest import CEILING, Class, Contender, Trial
from sordino.errors import RecipeError
from sordino.report.reading import read
from sordino.report.view import RunView
from sordino.runs.folder import RunFolder

SIGNIFICANT = 0.05
FEWEST = 3
"""Seeds below which nothing is tested."""
ALIKE = 1e-9
"""Differences that are no further apart are the same but for rounding."""


@dataclass(frozen=True)
class Result:
    """One finished trial."""

    trial: Trial
    score: float
    """Test accuracy; without classes, the test loss with its sign turned."""
    rounds: int
    seconds: float
    certified: float | None
    """ε against the class's observer; None is infinite."""
    claimed: float | None
    bytes_sent: int
    """What a client sends in a round in which it takes part."""


@dataclass(frozen=True)
class Standing:
    """One contender at one budget."""

    contender: Contender
    epsilon: float
    scores: Mapping[int, float]
    """By seed."""
    rank: int
    p_value: float | None
    """That the leader is ahead by chance (paired t-test over seeds, Holm's correction); None for the leader itself."""
    seconds: float
    rounds: float
    certified: float | None
    claimed: float | None
    bytes_sent: int

    @property
    def mean(self) -> float:
        """Mean score over seeds."""
        return float(np.mean(list(self.scores.values())))

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; None for a single one."""
        return float(np.std(list(self.scores.values()), ddof=1)) if len(self.scores) > 1 else None

    @property
    def band(self) -> tuple[float, float]:
        """One standard deviation below and above the mean, or the mean itself."""
        return self.mean - (self.spread or 0.0), self.mean + (self.spread or 0.0)

    def to_json(self) -> dict[str, Any]:
        """Returns the standing as plain data."""
        chosen = self.contender.recipe.mechanism
        return {
            "contender": self.contender.label,
            "mechanism": chosen.name,
            "mode": chosen.mode,
            "followed": list(self.contender.followed.get(self.epsilon, ())),
            "tuned": list(self.contender.tuned.get(self.epsilon, ())),
            "unit": self.contender.kind.unit,
            "trust": self.contender.kind.trust,
            "observer": self.contender.kind.observer,
            "budget_epsilon": self.epsilon,
            "certified_epsilon": self.certified,
            "claimed_epsilon": self.claimed,
            "mean": _finite(self.mean),
            "std": _finite(self.spread),
            "scores": {str(seed): _finite(score) for seed, score in self.scores.items()},
            "rank": self.rank,
            "p_value": self.p_value,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "bytes_per_client": self.bytes_sent,
        }


def result(trial: Trial) -> Result:
    """Reads a finished trial back from its folder.

    Raises:
        RecipeError: a file of the folder is gone or damaged.
    """
    try:
        return _result(trial, read(trial.folder))
    except (OSError, SafetensorError, RecipeError):
        raise RecipeError(
            f"{trial.folder} lacks a file or has a damaged one: remove that folder, and the same command plays it again"
        ) from None


def _result(trial: Trial, view: RunView) -> Result:
    accuracy, loss = view.last("accuracy"), view.last("loss")
    entry = promise(view.certificate, trial.contender.kind)
    return Result(
        trial,
        accuracy if accuracy is not None else -(loss if loss is not None else math.nan),
        len(view.rounds),
        sum(line.get("seconds_total", 0.0) for line in view.rounds),
        entry.get("epsilon"),
        entry.get("claimed_epsilon"),
        _sent(view, trial.contender.kind),
    )


def standings(results: Sequence[Result]) -> dict[Class, list[Standing]]:
    """Returns the ranking of each class, budget by budget; what has no privacy is in none of them."""
    out: dict[Class, list[Standing]] = {}
    rivals = [r for r in results if r.trial.contender.recipe.mechanism.name != CEILING]
    for kind in sorted({r.trial.contender.kind for r in rivals}):
        mine = [r for r in rivals if r.trial.contender.kind == kind]
        out[kind] = [row for epsilon in sorted({r.trial.epsilon for r in mine}) for row in ranking(mine, epsilon)]
    return out


def ceiling(results: Sequence[Result]) -> float | None:
    """Returns the mean score without privacy, if that was played."""
    scores = [r.score for r in results if r.trial.contender.recipe.mechanism.name == CEILING]
    return float(np.mean(scores)) if scores else None


def ranking(results: Sequence[Result], epsilon: float) -> list[Standing]:
    """Returns contenders at one budget, best mean first; equal means have an equal rank, and what diverged the last."""
    groups: dict[str, list[Result]] = {}
    for found in results:
        if found.trial.epsilon == epsilon:
            groups.setdefault(found.trial.contender.label, []).append(found)
    scores = {label: {r.trial.seed: r.score for r in group} for label, group in groups.items()}
    means = {label: float(np.mean(list(mine.values()))) for label, mine in scores.items()}
    order = sorted(groups, key=lambda label: math.inf if math.isnan(means[label]) else -means[label])
    chances = against_leader([scores[label] for label in order])
    return [
        Standing(
            contender=groups[label][0].trial.contender,
            epsilon=epsilon,
            scores=scores[label],
            rank=_rank(means[label], list(means.values())),
            p_value=chance,
            seconds=float(np.mean([r.seconds for r in groups[label]])),
            rounds=float(np.mean([r.rounds for r in groups[label]])),
            certified=_worst([r.certified for r in groups[label]]),
            claimed=_worst([r.claimed for r in groups[label]]) if groups[label][0].claimed is not None else None,
            bytes_sent=groups[label][0].bytes_sent,
        )
        for label, chance in zip(order, chances, strict=True)
    ]


def _rank(mine: float, all_: Sequence[float]) -> int:
    return len(all_) if math.isnan(mine) else 1 + sum(mean > mine for mean in all_)


def against_leader(scores: Sequence[Mapping[int, float]]) -> list[float | None]:
    """Returns p-values of paired t-tests of the first against each other one, with Holm's correction.

    Seeds are shared, so differences seed by seed cancel what a partition or a start does to everybody alike.
    **Edge cases**: None for the leader, and wherever fewer than three seeds are shared or one diverged. Differences
    that are all alike say how coarse the score is and not how sure it is (a t-test would take them for certain): None,
    or 1 if zero.
    """
    raw: list[float | None] = [None]
    for other in scores[1:]:
        shared = sorted(set(scores[0]) & set(other))
        gaps = np.array([scores[0][seed] - other[seed] for seed in shared])
        if len(gaps) >= FEWEST and not gaps.any():
            raw.append(1.0)
        elif len(gaps) < FEWEST or not np.isfinite(gaps).all() or np.ptp(gaps) < ALIKE:
            raw.append(None)
        else:
            raw.append(float(stats.ttest_1samp(gaps, 0.0).pvalue))
    return _holm(raw)


def _holm(raw: Sequence[float | None]) -> list[float | None]:
    known = sorted((p, place) for place, p in enumerate(raw) if p is not None)
    out: list[float | None] = list(raw)
    worst = 0.0
    for step, (p, place) in enumerate(known):
        worst = max(worst, min(1.0, p * (len(known) - step)))
        out[place] = worst
    return out


def promise(certificate: Sequence[Mapping[str, Any]], kind: Class) -> Mapping[str, Any]:
    """Returns what a certificate says to a class; of several promises (by adjacency) the weakest."""
    wanted = (kind.unit, kind.observer)
    entries = [entry for entry in certificate if (entry["unit"], entry["observer"]) == wanted]
    return max(entries, key=lambda e: math.inf if e["epsilon"] is None else e["epsilon"], default={})


def _sent(view: RunView, kind: Class) -> int:
    """Returns payload bytes: one row of the model, in words of a secure sum, and twice where shares are thinned.

    Keys and their shares are left out: they do not grow with the model (docs/secure-aggregation.md has their size).
    """
    from safetensors.numpy import load_file

    width = sum(tensor.size for tensor in load_file(RunFolder(view.path).model_file).values())
    word = 8 if kind.trust == "distributed" and view.recipe.aggregate.kind == "secure" else 4
    thinned = kind.trust == "distributed" and (view.recipe.dropout.rate > 0 or bool(view.recipe.dropout.schedule))
    return width * word * (2 if thinned else 1)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _worst(values: Sequence[float | None]) -> float | None:
    return None if any(value is None for value in values) else max(value for value in values if value is not None)
