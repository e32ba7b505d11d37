"""Receiver operating curves, read where it matters: at very few false alarms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.types import BoolArray, FloatArray


@dataclass(frozen=True)
class Roc:
    """True and false positive rates over all thresholds, in rising order."""

    fpr: FloatArray
    tpr: FloatArray

    def tpr_at(self, fpr: float) -> float:
        """Returns the share of members that is found with at most this share of false alarms."""
        return float(self.tpr[np.searchsorted(self.fpr, fpr, side="right") - 1])

    @property
    def area(self) -> float:
        """Returns the area under the curve: the chance to order a member above a non-member."""
        return float(np.trapezoid(self.tpr, self.fpr))

    @property
    def success(self) -> float:
        """Returns the best balanced accuracy of any threshold."""
        return float((1 + self.tpr - self.fpr).max() / 2)


def roc(scores: FloatArray, member: BoolArray) -> Roc:
    """Returns the curve of scores that should be higher for members; tied scores are decided together."""
    order = np.argsort(-scores, kind="stable")
    hits, alarms = np.cumsum(member[order]), np.cumsum(~member[order])
    last = np.append(np.diff(scores[order]) != 0, True)
    return Roc(
        np.concatenate([[0.0], alarms[last] / max(1, int((~member).sum()))]),
        np.concatenate([[0.0], hits[last] / max(1, int(member.sum()))]),
    )
