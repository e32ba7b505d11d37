"""A federation whose records are elsewhere: the server knows its members by name, and what is declared about them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sordino.data.client_data import ClientData
from sordino.data.federation import Federation
from sordino.data.public import NEEDED, PublicCounts
from sordino.errors import DataError, RecipeError
from sordino.recipe import Recipe
from sordino.types import IntArray


@dataclass(frozen=True)
class Elsewhere:
    """A partition of records that nobody here holds."""

    count: int
    mean: int

    def sizes(self, clients: IntArray) -> IntArray:
        return np.full(len(clients), self.mean, np.int64)

    def indices(self, clients: IntArray) -> tuple[IntArray, IntArray]:
        raise DataError("the records of a federation across machines lie on its nodes: nobody else can gather them.")


@dataclass(frozen=True, eq=False)
class RemoteFederation(Federation):
    """Members by number, declared facts, and the test or public records that the operator may have.

    **Formal guarantees**: no private record is in it, so nothing that is composed from it can depend on one.
    **Edge cases**: declarations are not held against the data, which are not here; each node checks its own.
    """

    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Records that are elsewhere are checked there."""

    def declare(self, told: PublicCounts) -> Federation:
        known = self.declared.plus(told)
        missing = [name for name in NEEDED if getattr(known, name) is None]
        if missing:
            raise DataError(
                f"public.{missing[0]} is missing from the recipe: across machines nobody can count it, so declare it."
            )
        if known.people < self.population:
            raise DataError(
                f"public.population is {known.people}, but the registry has {self.population} members: raise it."
            )
        return replace(self, declared=known, classes=known.classes or 0)

    @cached_property
    def digest(self) -> str:
        return hashlib.blake2b("\n".join(self.names).encode(), digest_size=16).hexdigest()

    def gather(self, clients: IntArray) -> ClientData:
        raise DataError("the records of a federation across machines lie on its nodes: nobody else can gather them.")


Labelled = tuple[Tensor, Tensor]


def remote(
    recipe: Recipe, name: str, names: Sequence[str], test: Labelled | None = None, public: Labelled | None = None
) -> RemoteFederation:
    """Returns the federation that a recipe declares, with these members.

    Raises:
        RecipeError: the shape of a record is not declared.
    """
    shape = recipe.public.shape
    if shape is None:
        raise RecipeError(
            "public.shape is missing: across machines the shape of a record must be declared, e.g. shape = [64]"
        )
    labels = torch.int64 if recipe.public.classes else torch.float32
    nothing = torch.zeros(0, *shape), torch.zeros(0, dtype=labels)
    (test_x, test_y), (public_x, public_y) = test or nothing, public or (None, None)
    counts = recipe.public.counts
    mean = round((counts.records or 1) / max(1, counts.population or len(names)))
    return RemoteFederation(
        name,
        nothing[0],
        nothing[1],
        test_x,
        test_y,
        recipe.public.classes or 0,
        Elsewhere(len(names), max(1, mean)),
        public_x,
        public_y,
        declared=counts,
        names=tuple(names),
    )
