"""The server's table of shares: who holds whose, what their owners committed to, and which of them came back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sordino.aggregate.secure.errors import BadShare, ForeignShare, TooFewClients
from sordino.aggregate.secure.messages import DIGEST, SEALED, SECRET, Shares, Unmask
from sordino.aggregate.secure.named import NamedFields, named
from sordino.aggregate.secure.shares import combine_all
from sordino.aggregate.secure.view import RosterView, held_digests
from sordino.types import BoolArray, IntArray

_LINE = np.dtype([("place", "<u4"), ("digests", "u1", (DIGEST,)), ("box", "u1", (SEALED,))])


@dataclass(frozen=True)
class ShareTable:
    """One row for each client that shared its secrets, one column for each of its holders, in their order.

    A cell is known by its number, row by row; all rows have as many columns, which the server has checked.
    """

    view: RosterView
    owners: IntArray
    """Places, by row."""
    commitments: list[bytes]
    holders: IntArray
    digests: NDArray[np.uint8]
    boxes: NDArray[np.uint8]
    returned: NDArray[np.uint8]
    """The share that a holder has handed back: of the seed if its owner is alive, of the key if it vanished."""
    came: BoolArray

    @classmethod
    def of(cls, view: RosterView, shares: Mapping[int, Shares]) -> ShareTable:
        """Returns the table of what clients have shared, by place, before anything comes back."""
        owners = np.array(sorted(shares), np.int64)
        dealt = [shares[owner] for owner in owners.tolist()]
        lines = np.stack([named(one.digests).table for one in dealt])
        holders, size = lines["place"].astype(np.int64), lines.shape
        boxes, sealed = np.zeros((*size, SEALED), np.uint8), b"".join(b"".join(one.sealed) for one in dealt)
        boxes[holders != owners[:, None]] = np.frombuffer(sealed, np.uint8).reshape(-1, SEALED)
        return cls(view, owners, [one.commitment for one in dealt], holders, np.ascontiguousarray(lines["field"]),
                   boxes, np.zeros((*size, SECRET), np.uint8), np.zeros(size, bool))  # fmt: skip

    @cached_property
    def rows(self) -> dict[int, int]:
        """The row of each owner, by place."""
        return {owner: row for row, owner in enumerate(self.owners.tolist())}

    @cached_property
    def _by_holder(self) -> tuple[IntArray, IntArray, list[int]]:
        """All cells by holder (and by owner, for each), their owners, and where each holder's cells begin."""
        flat = self.holders.ravel()
        order = np.argsort(flat, kind="stable")
        starts = np.searchsorted(flat[order], np.arange(self.view.size + 1))
        return order, self.owners[order // self.holders.shape[1]], starts.tolist()

    def held(self, holder: int) -> tuple[IntArray, IntArray]:
        """Returns the cells of all shares that a client holds, its own included, and their owners, increasing."""
        order, owners, starts = self._by_holder
        these = slice(starts[holder], starts[holder + 1])
        return order[these], owners[these]

    def inboxes(self) -> dict[int, NamedFields]:
        """Returns, by holder, what was sealed for it: digests and box, by their sender."""
        order, owners, _ = self._by_holder
        holders = self.holders.ravel()[order]
        others = owners != holders
        lines = np.empty(int(others.sum()), _LINE)
        lines["place"], cells = owners[others], order[others]
        lines["digests"] = self.digests.reshape(-1, DIGEST)[cells]
        lines["box"] = self.boxes.reshape(-1, SEALED)[cells]
        starts = np.searchsorted(holders[others], np.arange(self.view.size + 1)).tolist()
        return {
            owner: NamedFields(lines[starts[owner] : starts[owner + 1]].tobytes(), DIGEST + SEALED)
            for owner in self.owners.tolist()
        }

    def box(self, owner: int, holder: int) -> bytes | None:
        """Returns digests and box that an owner sent to a holder, if it did."""
        row = self.rows.get(owner)
        if row is None or owner == holder or holder not in (held := self.holders[row].tolist()):
            return None
        column = held.index(holder)
        return bytes(self.digests[row, column]) + bytes(self.boxes[row, column])

    def take(self, holder: int, answer: Unmask, alive: BoolArray, denied: Collection[int]) -> None:
        """Takes in the shares that a holder hands back: all that it has, but for boxes that it `denied`.

        Raises:
            ForeignShare: it hands back other shares than it was asked for.
            BadShare: one of them is not what its owner committed to.
        """
        cells, owners = self.held(holder)
        if denied:
            kept = ~np.isin(owners, list(denied))
            cells, owners = cells[kept], owners[kept]
        client, live, given = self.view.client(holder), alive[owners], (named(answer.seeds), named(answer.keys))
        asked = [(cells[chosen], owners[chosen]) for chosen in (live, ~live)]
        if any(fields.places.tolist() != wanted.tolist() for fields, (_, wanted) in zip(given, asked, strict=True)):
            raise ForeignShare(f"client {client} sent shares that it was not asked for, or not all: drop them")
        for kind, (fields, (those, wanted)) in enumerate(zip(given, asked, strict=True)):
            committed = self.digests.reshape(-1, 2, SECRET)[those, kind].tobytes()
            digests = held_digests(self.view, wanted, holder, kind, fields.fields)
            if (bad := _first_difference(committed, digests)) is not None:
                raise BadShare(
                    f"client {client} returned another share of client {self.view.client(int(wanted[bad]))} than "
                    "it was given: drop its answer",
                    client,
                )
        for fields, (those, _) in zip(given, asked, strict=True):
            self.returned.reshape(-1, SECRET)[those] = fields.table["field"]
            self.came.reshape(-1)[those] = True

    def secrets(self, owners: IntArray) -> list[bytes]:
        """Returns the secrets of these clients, as far as enough shares of each came back."""
        rows = np.searchsorted(self.owners, owners)
        back, threshold = self.came[rows].sum(1), self.view.terms.threshold
        if len(few := np.flatnonzero(back < threshold)):
            raise TooFewClients(
                f"{back[few[0]]} shares of a secret of client {self.view.client(int(owners[few[0]]))} came back and "
                f"{threshold} are needed: nothing is released; ask more clients, or tolerate fewer"
            )
        whole = combine_all(self.returned[rows], self.came[rows]).tobytes()
        return [whole[start : start + SECRET] for start in range(0, len(whole), SECRET)]


def _first_difference(one: bytes, other: bytes) -> int | None:
    """Returns the first block of 16 bytes in which two texts differ."""
    if one == other:
        return None
    starts = range(0, len(one), SECRET)
    return next(at // SECRET for at in starts if one[at : at + SECRET] != other[at : at + SECRET])
