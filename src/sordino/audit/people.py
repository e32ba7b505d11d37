"""Federations with other people in them: canaries added, records left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sordino.data.federation import Federation
from sordino.data.partition import Partition, PartitionTable
from sordino.data.public import PublicCounts
from sordino.recipe import Recipe
from sordino.sections.data import PublicSection
from sordino.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class AuditCrowd:
    """A partition with further clients at its end, each with one record of its own, `size` times over."""

    inner: Partition
    records: IntArray
    size: int = 1

    @property
    def count(self) -> int:
        return self.inner.count + len(self.records)

    def sizes(self, clients: IntArray) -> IntArray:
        sizes = np.full(len(clients), self.size, np.int64)
        hosts = clients < self.inner.count
        sizes[hosts] = self.inner.sizes(clients[hosts])
        return sizes

    def indices(self, clients: IntArray) -> tuple[IntArray, IntArray]:
        sizes = self.sizes(clients)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        out = np.empty(int(offsets[-1]), np.int64)
        hosts = clients < self.inner.count
        owner = np.repeat(hosts, sizes)
        out[owner] = self.inner.indices(clients[hosts])[1]
        out[~owner] = np.repeat(self.records[clients[~hosts] - self.inner.count], self.size)
        return offsets, out


def with_canary_clients(federation: Federation, x: Tensor, y: Tensor, alike: bool = False) -> Federation:
    """Returns the federation with one more client for each of these records.

    With `alike` it holds its record as often as the smallest of the others holds records: nothing that a mechanism
    computes from sizes is then changed by them.
    """
    first, size = len(federation.train_y), int(federation.sizes().min()) if alike else 1
    return replace(
        federation,
        train_x=torch.cat([federation.train_x, x]),
        train_y=torch.cat([federation.train_y, y]),
        hashes=None,
        partition=AuditCrowd(federation.partition, first + np.arange(len(y)), size),
        declared=_more(federation.declared, len(y), size * len(y), size),
    )


def with_records(federation: Federation, x: Tensor, y: Tensor, seed: int) -> Federation:
    """Returns the federation with these records given to its clients, to one at random each."""
    offsets, dealt = _dealt(federation)
    owner = np.repeat(np.arange(federation.population), np.diff(offsets))
    hosts = np.random.default_rng(seed).integers(federation.population, size=len(y))
    owners = np.concatenate([owner, hosts])
    indices = np.concatenate([dealt, len(federation.train_y) + np.arange(len(y))])
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners, minlength=federation.population)
    return replace(
        federation,
        train_x=torch.cat([federation.train_x, x]),
        train_y=torch.cat([federation.train_y, y]),
        hashes=None,
        partition=PartitionTable(np.concatenate([[0], np.cumsum(counts)]), indices[order]),
        declared=_more(federation.declared, 0, len(y), int(counts.max())),
    )


def only(federation: Federation, kept: BoolArray) -> Federation:
    """Returns the federation without the records that are not kept; who has none left is not in it."""
    offsets, dealt = _dealt(federation)
    owner = np.repeat(np.arange(federation.population), np.diff(offsets))
    stays = kept[dealt]
    counts = np.bincount(owner[stays], minlength=federation.population)
    counts = counts[counts > 0]
    told = replace(
        federation.declared,
        population=len(counts),
        records=int(counts.sum()),
        most_records=int(counts.max()),
        least_records=int(counts.min()),
    )
    deal = PartitionTable(np.concatenate([[0], np.cumsum(counts)]), dealt[stays])
    return replace(federation, partition=deal, declared=told)


def undeclared(recipe: Recipe) -> Recipe:
    """Returns the recipe without its own declaration: the federation with other people in it carries one."""
    return recipe.model_copy(update={"public": PublicSection()})


def _more(told: PublicCounts, people: int, records: int, most: int) -> PublicCounts:
    """Returns a declaration that leaves room for further people and records, whether or not they are there."""
    return replace(
        told,
        population=None if told.population is None else told.population + people,
        records=None if told.records is None else told.records + records,
        most_records=None if told.most_records is None else max(told.most_records, most),
        least_records=None if told.least_records is None else min(told.least_records, most),
    )


def held(federation: Federation) -> IntArray:
    """Returns the records that somebody holds, in increasing order."""
    return np.unique(_dealt(federation)[1])


def _dealt(federation: Federation) -> tuple[IntArray, IntArray]:
    return federation.partition.indices(np.arange(federation.population))
