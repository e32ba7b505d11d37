"""How records are spread over clients, as settings; and the one place that reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sordino.data import disjoint, drawn, skewed
from sordino.data.partition import Partition, PartitionTable
from sordino.errors import DataError
from sordino.types import IntArray

PartitionKind = Literal["iid", "dirichlet", "pathological", "label_skew", "quantity_skew", "by_key"]


@dataclass(frozen=True)
class PartitionSettings:
    """Settings of a partition (recipe table `partition`).

    Attributes:
        kind: how records are spread.
        clients: number of clients; None gives every record a client of its own, or with `by_key` every owner.
        size: None shares each record out to exactly one client. A number instead lets each client draw that many
            records from all of them (on average, for `quantity_skew`), so that records may have several holders and
            there may be more clients than records.
        alpha: concentration for `dirichlet` and `quantity_skew`; smaller is more skewed.
        classes_per_client: for `pathological`.
        share: for `label_skew`: the share of a client's records that has one label.
        share_min: for `label_skew`: if given, each client's share is uniform between this and `share`.
    """

    kind: PartitionKind = "iid"
    clients: int | None = None
    size: int | None = None
    alpha: float = 0.5
    classes_per_client: int = 2
    share: float = 0.8
    share_min: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(PartitionKind):
            raise DataError(f"partition.kind is {self.kind!r}: use one of {', '.join(get_args(PartitionKind))}.")
        if not (0.0 < self.alpha < float("inf")):
            raise DataError(f"partition.alpha is {self.alpha}: it must be positive and finite.")
        low = self.share if self.share_min is None else self.share_min
        if not 0.0 <= low <= self.share <= 1.0:
            raise DataError(
                f"partition.share is {self.share} and share_min {low}: they must satisfy 0 ≤ share_min ≤ share ≤ 1."
            )


def spread(
    settings: PartitionSettings, labels: IntArray | None, owners: NDArray[np.generic] | None, records: int, seed: int
) -> Partition:
    """Returns the partition of `records` records that the settings describe.

    Args:
        settings: what to do.
        labels: the class of each record, or None for regression (label-based kinds are then refused).
        owners: the natural owner of each record, or None (then `by_key` is refused).
        records: number of records.
        seed: keys every draw.
    """
    if settings.kind == "by_key":
        return _natural(settings, owners)
    if settings.size is not None:
        return _drawn(settings, settings.size, labels, records, seed)
    count = records if settings.clients is None else settings.clients
    make: dict[str, Callable[[], PartitionTable]] = {
        "iid": lambda: disjoint.iid(records, count, seed),
        "quantity_skew": lambda: disjoint.quantity_skew(records, count, settings.alpha, seed),
        "dirichlet": lambda: skewed.dirichlet(_known(labels, settings), count, settings.alpha, seed),
        "pathological": lambda: skewed.pathological(_known(labels, settings), count, settings.classes_per_client, seed),
        "label_skew": lambda: skewed.label_skew(
            _known(labels, settings), count, settings.share, seed, settings.share_min
        ),
    }
    return make[settings.kind]()


def _natural(settings: PartitionSettings, owners: NDArray[np.generic] | None) -> Partition:
    if owners is None:
        raise DataError("partition.kind is 'by_key' but this data names no owners; use another kind, or other data.")
    if settings.clients is not None or settings.size is not None:
        raise DataError("partition.kind is 'by_key': its clients are the owners; remove partition.clients and .size.")
    return disjoint.by_key(owners)


def _drawn(settings: PartitionSettings, size: int, labels: IntArray | None, records: int, seed: int) -> Partition:
    if settings.clients is None:
        raise DataError("partition.size is set, so partition.clients must say how many clients draw that many records.")
    if settings.kind in ("iid", "quantity_skew"):
        skew = settings.alpha if settings.kind == "quantity_skew" else None
        return drawn.Drawn(settings.clients, size, seed, drawn.one_pool(records), drawn.alike, skew)
    pools = _pools(_known(labels, settings))
    if settings.kind == "pathological" and not 1 <= settings.classes_per_client <= pools.count:
        raise DataError(
            f"partition.classes_per_client is {settings.classes_per_client}: the data has {pools.count} classes; "
            f"use 1 … {pools.count}."
        )
    mixes: dict[str, drawn.Mix] = {
        "dirichlet": drawn.DirichletMix(settings.alpha),
        "label_skew": drawn.LabelMix(settings.share, settings.share_min),
        "pathological": drawn.FewClasses(settings.classes_per_client),
    }
    return drawn.Drawn(settings.clients, size, seed, pools, mixes[settings.kind])


def _pools(labels: IntArray) -> PartitionTable:
    """One pool for each class that has records (a class without any cannot be drawn from)."""
    _, numbers = np.unique(labels, return_inverse=True)
    return PartitionTable.of_owners(numbers.astype(np.int64))


def _known(labels: IntArray | None, settings: PartitionSettings) -> IntArray:
    if labels is None:
        raise DataError(f"partition.kind is {settings.kind!r} but the targets are not classes; use iid or by_key.")
    return labels
