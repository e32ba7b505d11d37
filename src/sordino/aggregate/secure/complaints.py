"""Complaints about boxes, as the server keeps them: who could not use whose box, and whose fault that is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from sordino.aggregate.secure.boxes import check_complaint, justified
from sordino.aggregate.secure.checks import KeyRegistry
from sordino.aggregate.secure.errors import ForeignShare, SplitView
from sordino.aggregate.secure.messages import DIGEST
from sordino.aggregate.secure.share_table import ShareTable


@dataclass(frozen=True)
class Complaints:
    """The complaints of one secure sum, by the places of accuser and accused.

    **Formal guarantees**: nobody is blamed who kept to the protocol, if no more than `terms.corrupt` lie.
    """

    table: ShareTable
    registry: KeyRegistry
    against: dict[int, dict[int, bytes]] = field(default_factory=dict)
    """By accused, by accuser: its signature."""
    _denied: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def take(self, accuser: int, complaints: Mapping[int, bytes]) -> None:
        """Takes in all complaints of one client, by accused, or none of them.

        Raises:
            ForeignShare: one is about a box that it was not sent.
        """
        view = self.table.view
        for accused, complaint in complaints.items():
            box = self.table.box(accused, accuser)
            if box is None or not self._signed(accuser, accused, box, complaint[DIGEST:]):
                raise ForeignShare(f"client {view.client(accuser)} complains about a box that it was not sent")
        for accused, complaint in complaints.items():
            self.against.setdefault(accused, {})[accuser] = complaint[DIGEST:]
        self._denied[accuser] = tuple(complaints)

    def denied(self, accuser: int) -> tuple[int, ...]:
        """Returns whose boxes a client could not use."""
        return self._denied.get(accuser, ())

    def judged(self, accused: int, openings: Mapping[int, bytes]) -> Iterator[tuple[int, str]]:
        """Yields whom to blame, and why, once an accused client has opened its boxes for its accusers."""
        view = self.table.view
        for accuser in self.against.get(accused, {}):
            box, opening = self.table.box(accused, accuser), openings.get(accuser)
            if box is None or justified(view, accused, accuser, box, opening):
                yield view.client(accused), f"its box for client {view.client(accuser)} was useless"
            else:
                yield view.client(accuser), f"it denied a good box of client {view.client(accused)}"

    def unanswered(self, answered: Collection[int]) -> Iterator[tuple[int, str]]:
        """Yields who vanished without a word to more complaints than corrupt clients can make up among themselves."""
        view = self.table.view
        for accused, accusers in self.against.items():
            if accused not in answered and len(accusers) > view.terms.corrupt:
                why = f"its boxes for {len(accusers)} clients were useless, and it vanished before it could be asked"
                yield view.client(accused), why

    def _signed(self, accuser: int, accused: int, box: bytes, signature: bytes) -> bool:
        try:
            identity = self.registry[self.table.view.client(accuser)]
            check_complaint(self.table.view, accuser, accused, box, signature, identity)
        except SplitView:
            return False
        return True
