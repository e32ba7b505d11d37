"""Flower's nodes as the clients of a ledger: by name there, by place in a round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from sordino.errors import RecipeError
from sordino.types import BoolArray


@dataclass(frozen=True)
class NodeSlots:
    """The nodes that a run has seen, in the order in which they came.

    **Formal guarantees**: a node keeps its place, and its name in the ledger is its Flower id, which lasts where
    nodes are authenticated. With `filled`, places that nobody took yet are there too, so that cohorts of a fixed size
    are drawn from the declared population, whoever is connected.
    """

    population: int
    filled: bool = False
    nodes: tuple[int, ...] = ()

    def joined(self, nodes: Iterable[int]) -> NodeSlots:
        """Returns the slots with newcomers at the end.

        Raises:
            RecipeError: more nodes came than the population that was declared.
        """
        known = set(self.nodes)
        everyone = (*self.nodes, *sorted(node for node in set(nodes) if node not in known))
        if len(everyone) > self.population:
            raise RecipeError(
                f"{len(everyone)} nodes took part and sordino.population is {self.population}: raise it, and give "
                "SuperNodes keys (--auth-supernode-private-key), without which a node counts anew at each start"
            )
        return self if len(everyone) == len(self.nodes) else replace(self, nodes=everyone)

    def joined_in_order(self, nodes: tuple[int, ...]) -> NodeSlots:
        """Returns the slots that a run had before, each node at its place."""
        return replace(self, nodes=nodes)

    def __len__(self) -> int:
        return self.population if self.filled else len(self.nodes)

    @property
    def names(self) -> list[str]:
        """The clients' names in the ledger, by place."""
        empty = range(len(self.nodes), len(self))
        return [*(f"node {node}" for node in self.nodes), *(f"nobody yet, place {place}" for place in empty)]

    def present(self, nodes: Iterable[int]) -> BoolArray:
        """Returns which places are taken by nodes that are connected."""
        here = set(nodes)
        present = np.zeros(len(self), bool)
        present[: len(self.nodes)] = [node in here for node in self.nodes]
        return present
