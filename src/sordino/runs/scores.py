"""How good a model is, in the words of its task: accuracy, AUC and who is taken for whom; or RMSE and R², in units."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from sordino.data.catalogue import DATASETS
from sordino.runs.context import RunContext
from sordino.strict_json import finite
from sordino.types import BoolArray, FloatArray

_AT_ONCE = 4096
FEW_CLASSES = 12
"""A table of who is taken for whom is shown up to this many classes."""


@dataclass(frozen=True)
class Scores:
    """Scores on some records. What does not fit the task is None.

    **Formal guarantees**: none; whoever scores private records learns about them. Runs publish scores only of test
    records that were declared public.
    """

    records: int
    loss: float
    accuracy: float | None = None
    auc: float | None = None
    """Area under the ROC curve; of more than two classes the mean over each class against the others."""
    confusion: tuple[tuple[int, ...], ...] | None = None
    """How many records of each class (rows) were taken for each class (columns)."""
    rmse: float | None = None
    """Root of the mean squared error, in the target's own unit."""
    r2: float | None = None
    """Share of the target's variance that is explained; 0 is what naming the mean explains."""
    unit: str = ""

    def words(self) -> str:
        """Returns the scores in one line."""
        if self.rmse is not None:
            unit = f" {self.unit}" if self.unit else ""
            explained = "" if self.r2 is None else f", R² {self.r2:.3f}"
            return f"test loss {self.loss:.4g}, RMSE {self.rmse:.4g}{unit}{explained}"
        area = "" if self.auc is None else f", AUC {self.auc:.3f}"
        return f"{self.accuracy or 0:.1%} test accuracy{area}, loss {self.loss:.4g}"

    def to_json(self) -> dict[str, Any]:
        """Returns the scores as plain JSON: what is not finite, or does not fit the task, is null."""
        told: dict[str, Any] = finite(asdict(self))
        return told


def score(context: RunContext, weights: Tensor, x: Tensor, y: Tensor) -> Scores | None:
    """Returns the scores of a model on records; None where there are none."""
    if not len(y):
        return None
    loss, accuracy = context.trainer.evaluate(weights, x, y)
    outputs = torch.cat([context.trainer.outputs(weights, part) for part in x.split(_AT_ONCE)]).double()
    if y.is_floating_point():
        error = (outputs.reshape(len(y), -1) - y.reshape(len(y), -1).double()).square().mean()
        spread = (y.double() - y.double().mean(0)).square().mean()
        r2 = 1 - float(error / spread) if float(spread) > 0 else None
        return Scores(len(y), loss, rmse=math.sqrt(float(error)), r2=r2, unit=_unit(context))
    scores, truth = np.asarray(outputs.flatten(1).numpy()), np.asarray(y.numpy())
    guessed = scores.argmax(1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(np.int64)
    classes = max(context.federation.classes, 2)
    table = np.bincount(truth * classes + np.minimum(guessed, classes - 1), minlength=classes**2)
    confusion = tuple(tuple(int(n) for n in row) for row in table.reshape(classes, classes))
    return Scores(len(y), loss, accuracy, auc(scores, truth, classes), confusion)


def auc(scores: FloatArray, truth: Any, classes: int) -> float | None:
    """Returns how often a record of a class scores higher for it than one of another class, ties counted half.

    **Edge cases**: None where only one class is there, or a score is not finite.
    """
    if not np.isfinite(scores).all():
        return None
    if classes == 2:
        lead = scores[:, 1] - scores[:, 0] if scores.shape[1] > 1 else scores[:, 0]
        return _area(lead, truth == 1)
    softmax = np.exp(scores - scores.max(1, keepdims=True))
    softmax /= softmax.sum(1, keepdims=True)
    areas = [_area(softmax[:, k], truth == k) for k in range(min(classes, scores.shape[1]))]
    known = [area for area in areas if area is not None]
    return float(np.mean(known)) if known else None


def _area(scores: FloatArray, inside: BoolArray) -> float | None:
    n, m = int(inside.sum()), int((~inside).sum())
    if not n or not m:
        return None
    return float((rankdata(scores)[inside].sum() - n * (n + 1) / 2) / (n * m))


def _unit(context: RunContext) -> str:
    chosen = context.recipe.data
    return chosen.target_unit or (DATASETS[chosen.name].unit if chosen.name in DATASETS else "")
