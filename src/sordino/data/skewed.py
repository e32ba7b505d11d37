"""Partitions in which every record has exactly one holder, and clients differ in kind: each sees its own classes."""

from __future__ import annotations

import heapq

import numpy as np

from sordino.data.disjoint import apportion, even_sizes, require_enough, stream
from sordino.data.partition import PartitionTable, offsets_of
from sordino.errors import DataError
from sordino.types import IntArray


def dirichlet(labels: IntArray, clients: int, alpha: float, seed: int) -> PartitionTable:
    """Spreads each class over the clients in Dirichlet(α) shares: small α, few classes a client and unequal sizes.

    **Edge cases**: a client that the draw leaves without data takes one record from whoever then holds most (small α
    makes such clients the rule, and a client without data cannot take part).

    **Reference**: Yurochkin et al. (2019), "Bayesian Nonparametric Federated Learning of Neural Networks"; Hsu, Qi,
    Brown (2019), "Measuring the Effects of Non-Identical Data Distribution".
    """
    require_enough(len(labels), clients)
    rng = stream(seed, "dirichlet")
    owners = np.empty(len(labels), np.int64)
    for records in by_class(labels):
        sizes = apportion(len(records), rng.dirichlet(np.full(clients, alpha)))
        owners[rng.permutation(records)] = np.repeat(np.arange(clients), sizes)
    return PartitionTable.of_owners(_fill_empty(owners, clients))


def pathological(labels: IntArray, clients: int, classes_per_client: int, seed: int) -> PartitionTable:
    """Gives each client records of exactly `classes_per_client` classes; a class is dealt out evenly to its holders.

    **Formal guarantees**: all classes have equally many holders, to within one.

    **Edge cases**: a class with fewer records than holders is refused, and a class without any holder.

    **Reference**: after McMahan et al. (2017), whose equal shards can straddle two classes; ours never do.
    """
    require_enough(len(labels), clients)
    rng = stream(seed, "pathological")
    pools = by_class(labels)
    holders = _balanced_holders(clients, len(pools), classes_per_client, rng)
    owners = np.empty(len(labels), np.int64)
    for label, records in enumerate(pools):
        if len(records) < len(holders[label]):
            raise DataError(
                f"partition.classes_per_client is {classes_per_client}: class {label} has {len(records)} records for "
                f"{len(holders[label])} clients; use fewer clients, or set partition.size to draw records repeatedly."
            )
        owners[rng.permutation(records)] = np.repeat(holders[label], even_sizes(len(records), len(holders[label])))
    return PartitionTable.of_owners(owners)


def label_skew(
    labels: IntArray, clients: int, share: float, seed: int, share_min: float | None = None
) -> PartitionTable:
    """Gives a share of each client's records by label and the rest at random; sizes are even.

    A share of 0 is IID, a share of 1 sorts everything by label. With `share_min`, each client's own share is uniform
    between the two, as in Figure 3 of the A-DPFL paper. The labelled part is cut from a sorted list, so a client at the
    border of two classes may hold both.

    **Reference**: A-DPFL §6.1; Hsieh et al. (2020), "The Non-IID Data Quagmire of Decentralized Machine Learning".
    """
    require_enough(len(labels), clients)
    rng = stream(seed, "label_skew")
    totals = even_sizes(len(labels), clients)
    shares = rng.uniform(share if share_min is None else share_min, share, clients)
    sorted_sizes = np.floor(shares * totals + rng.uniform(size=clients)).astype(np.int64).clip(0, totals)
    balanced = _interleaved(labels, rng)
    taken = int(sorted_sizes.sum())
    by_label = balanced[:taken][np.argsort(labels[balanced[:taken]], kind="stable")]
    turns = rng.permutation(clients)  # or client numbers would follow the labels
    owners = np.empty(len(labels), np.int64)
    owners[by_label] = np.repeat(turns, sorted_sizes[turns])
    owners[rng.permutation(balanced[taken:])] = np.repeat(np.arange(clients), totals - sorted_sizes)
    return PartitionTable.of_owners(owners)


def by_class(labels: IntArray) -> list[IntArray]:
    """Returns the records of each class 0 … max, in order."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def _interleaved(labels: IntArray, rng: np.random.Generator) -> IntArray:
    """Orders records so that every prefix has the classes in their overall proportions."""
    place = np.empty(len(labels))
    for records in by_class(labels):
        place[records] = (rng.permutation(len(records)) + 0.5) / max(len(records), 1)
    return np.argsort(place, kind="stable")


def _balanced_holders(clients: int, classes: int, each: int, rng: np.random.Generator) -> list[IntArray]:
    if not 1 <= each <= classes:
        raise DataError(f"partition.classes_per_client is {each}: the data has {classes} classes; use 1 … {classes}.")
    if clients * each < classes:
        raise DataError(
            f"partition.classes_per_client is {each}: {clients} clients cannot hold all {classes} classes; use more "
            "clients, more classes a client, or partition.size."
        )
    used = np.zeros(classes, np.int64)
    holders: list[list[int]] = [[] for _ in range(classes)]
    for client in range(clients):
        chosen = np.argsort(used + rng.uniform(size=classes))[:each]  # least used first, ties at random
        used[chosen] += 1
        for label in chosen:
            holders[label].append(client)
    return [np.array(who, np.int64) for who in holders]


def _fill_empty(owners: IntArray, clients: int) -> IntArray:
    sizes = np.bincount(owners, minlength=clients)
    richest = [(-int(size), client) for client, size in enumerate(sizes) if size > 1]
    heapq.heapify(richest)
    order, offsets = np.argsort(owners, kind="stable"), offsets_of(sizes)
    filled = owners.copy()
    for empty in np.flatnonzero(sizes == 0):
        size, donor = richest[0]
        filled[order[offsets[donor] - size - 1]] = empty
        heapq.heapreplace(richest, (size + 1, donor))
    return filled
