"""The server's table of shares: who holds whose, what their owners committed to, and which of them came back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sordino.aggregate.secure.errors import BadShare, ForeignShare, TooFewClients
from sordino.aggregate.secure.messages import DIGEST, SEALED, SECRET, NamedFields, Shares, Unmask
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
        holders = np.stack([list(one.digests) for one in dealt]).astype(np.int64)
        digests = np.frombuffer(b"".join(b"".join(one.digests.values()) for one in dealt), np.uint8)
        boxes, size = np.zeros((*holders.shape, SEALED), np.uint8), holders.shape
        sealed = np.frombuffer(b"".join(b"".join(one.sealed) for one in dealt), np.uint8)
        boxes[holders != owners[:, None]] = sealed.reshape(-1, SEALED)
        return cls(view, owners, [one.commitment for one in dealt], holders, digests.reshape(*size, DIGEST), boxes,
                   np.zeros((*size, SECRET), np.uint8), np.zeros(size, bool))  # fmt: skip

    @cached_property
    def rows(self) -> dict[int, int]:
        """The row of each owner, by place."""
        return {owner: row for row, owner in enumerate(self.owners.tolist())}

    @cached_property
    def _by_holder(self) -> tuple[IntArray, IntArray]:
        """All cells in the order of their holders (and of their owners, for each), and where each holder's begin."""
        flat = self.holders.ravel()
        order = np.argsort(flat, kind="stable")
        return order, np.searchsorted(flat[order], np.arange(self.view.size + 1))

    def cells(self, holder: int) -> IntArray:
        """Returns the cells of all shares that a client holds, its own included, in the order of their owners."""
        order, starts = self._by_holder
        return order[starts[holder] : starts[holder + 1]]

    def owners_of(self, cells: IntArray) -> IntArray:
        """Returns whose shares these are, by place."""
        owners: IntArray = self.owners[cells // self.holders.shape[1]]
        return owners

    def inbox(self, holder: int) -> NamedFields:
        """Returns what was sealed for a holder: digests and box, by their sender."""
        cells = self.cells(holder)
        cells = cells[self.owners_of(cells) != holder]
        lines = np.empty(len(cells), _LINE)
        lines["place"] = self.owners_of(cells)
        lines["digests"] = self.digests.reshape(-1, DIGEST)[cells]
        lines["box"] = self.boxes.reshape(-1, SEALED)[cells]
        return NamedFields(lines.tobytes(), DIGEST + SEALED)

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
        cells = self.cells(holder)
        if denied:
            cells = cells[~np.isin(self.owners_of(cells), list(denied))]
        owners = self.owners_of(cells)
        client, live = self.view.client(holder), alive[owners]
        asked = (answer.seeds, cells[live], owners[live]), (answer.keys, cells[~live], owners[~live])
        if not all(list(given) == wanted.tolist() for given, _, wanted in asked):
            raise ForeignShare(f"client {client} sent shares that it was not asked for, or not all: drop them")
        whole = [b"".join(given.values()) for given, _, _ in asked]
        for kind, ((_, kept, wanted), given) in enumerate(zip(asked, whole, strict=True)):
            committed = self.digests.reshape(-1, 2, SECRET)[kept, kind].tobytes()
            if (bad := _first_difference(committed, held_digests(self.view, wanted, holder, kind, given))) is not None:
                raise BadShare(
                    f"client {client} returned another share of client {self.view.client(int(wanted[bad]))} than "
                    "it was given: drop its answer",
                    client,
                )
        for (_, kept, _), given in zip(asked, whole, strict=True):
            self.returned.reshape(-1, SECRET)[kept] = np.frombuffer(given, np.uint8).reshape(-1, SECRET)
            self.came.reshape(-1)[kept] = True

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
