"""The likelihood ratio attack: is a record's score more like those of models that saw it, or of models that did not?

**Reference**: Carlini, Chien, Nasr, Song, Terzis, Tramèr (2022), "Membership Inference Attacks From First Principles",
Algorithm 1 (online), with one variance for all records, which is better with few shadow models (their section VI-C).
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from sordino.types import BoolArray, FloatArray

_LEAST = 1e-6


def logits(confidence: FloatArray) -> FloatArray:
    """Returns ln(p/(1−p)) of the probability of the true label: nearly normal, where probabilities are not."""
    p = np.clip(confidence, 1e-12, 1 - 1e-12)
    return np.asarray(np.log(p) - np.log1p(-p))


def lira(shadow: FloatArray, member: BoolArray, target: FloatArray) -> FloatArray:
    """Returns ln p(target | in) − ln p(target | out) for every record.

    Args:
        shadow: scores of every record under every shadow model, `[shadows, records]`.
        member: which records each shadow model was trained on, `[shadows, records]`.
        target: scores under the attacked model, `[records]`.

    **Edge cases**: a record that all (or no) shadows saw gets the mean of all records in the place of its own.
    """
    inside, outside = _means(shadow, member), _means(shadow, ~member)
    spread_in = _spread(shadow, member, inside)
    spread_out = _spread(shadow, ~member, outside)
    return np.asarray(stats.norm.logpdf(target, inside, spread_in) - stats.norm.logpdf(target, outside, spread_out))


def _means(shadow: FloatArray, where: BoolArray) -> FloatArray:
    count = where.sum(axis=0)
    means = (shadow * where).sum(axis=0) / np.maximum(count, 1)
    return np.where(count > 0, means, means[count > 0].mean() if (count > 0).any() else 0.0)


def _spread(shadow: FloatArray, where: BoolArray, means: FloatArray) -> float:
    """Returns one standard deviation for all records, around each one's own mean."""
    freedom = max(1, int(np.maximum(where.sum(axis=0) - 1, 0).sum()))
    return max(_LEAST, float(np.sqrt((np.square(shadow - means) * where).sum() / freedom)))
