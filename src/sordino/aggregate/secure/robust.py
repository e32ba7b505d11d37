"""What one bad client can do to a secure sum, and a limit on it: shards, each summed securely, combined robustly.

A secure sum hides every vector, so nobody can look for one that is too long. One client that sends the largest vector
it can moves the sum as far as it likes. If a cohort is dealt out to shards that are summed apart, it spoils one shard;
a median or a trimmed mean of the shards' means shrugs it off.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sordino.errors import RecipeError
from sordino.types import FloatArray, IntArray

RobustRule = Literal["median", "trimmed_mean"]

ONE_CLIENT_CAN_SPOIL = (
    "the secure sum hides each vector, so nobody can check its length: one client that departs from the protocol can "
    "move a round's sum anywhere; shards with a robust rule limit it to one shard"
)
"""The certificate's remark where a cohort is summed as one."""

SHARDS_ARE_RELEASES = (
    "each shard's sum is a release of its own: the noise target holds for every shard, a client is in one shard, and "
    "what it changes in one shard is what it would change in the whole"
)
"""The certificate's remark where a cohort is summed in shards."""


def combine_shards(sums: FloatArray, sizes: IntArray, rule: RobustRule = "median", trim: int = 1) -> FloatArray:
    """Returns a robust mean vector from the shards' noisy sums `[shards, d]`, coordinate by coordinate.

    Args:
        sums: what each shard's secure sum released.
        sizes: public divisor of each shard: how many clients were dealt to it.
        rule: the median of the shards' means, or their mean without the `trim` largest and `trim` smallest.
        trim: shards that may be spoilt, on either side.

    **Formal guarantees**: post-processing of the releases: costs no privacy. If at most `trim` of the shards (for the
    median: fewer than half) are spoilt, every coordinate lies between the smallest and the largest of the other
    shards' means, whatever the spoilt ones hold.
    **Edge cases**: sums that are not finite are refused.
    **Reference**: Yin, Chen, Ramchandran, Bartlett (2018), "Byzantine-Robust Distributed Learning: Towards Optimal
    Statistical Rates", Definitions 1 and 2; So, Güler, Avestimehr (2021), "Byzantine-Resilient Secure Federated
    Learning", for the combination with secure sums.
    """
    values = np.asarray(sums, np.float64)
    if values.ndim != 2 or len(values) != len(sizes) or not np.isfinite(values).all() or (np.asarray(sizes) < 1).any():
        raise RecipeError("combine_shards needs one finite sum and one positive size for every shard")
    means = np.sort(values / np.asarray(sizes, np.float64)[:, None], axis=0)
    if rule == "median":
        return np.asarray(np.median(means, axis=0))
    if rule != "trimmed_mean" or not 1 <= trim < len(means) / 2:
        raise RecipeError(f"rule {rule} with trim {trim} does not suit {len(means)} shards: trim fewer than half")
    return np.asarray(means[trim:-trim].mean(0))
