"""How often a node says whether its records fit what an operator declares: each answer tells a little about them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from sordino.errors import NodeRefused
from sordino.files import PRIVATE, replace_file

MOST = 8
"""Different declarations that a node holds its records against, over all runs."""


@dataclass(frozen=True)
class Declarations:
    """What operators have declared to this node about everybody's records.

    **Formal guarantees**: a node tells at most `MOST` times whether its records fit a new declaration; the same one
    again has the same answer and tells nothing. Without that an operator could halve an interval again and again until
    it knew the exact number of records, with nothing paid for it. On the disk before the records are looked at.
    """

    file: Path

    def admit(self, *declared: int | None) -> None:
        """Takes note of a declaration.

        Raises:
            NodeRefused: it is one too many.
        """
        seen = json.loads(self.file.read_text()) if self.file.exists() else []
        if list(declared) in seen:
            return
        if len(seen) >= MOST:
            raise NodeRefused(
                f"this node has held its records against {MOST} different declarations of public.least_records, "
                "most_records and classes, and against no further one: declare one of those, or ask its owner to "
                "remove state/declarations.json"
            )
        replace_file(self.file, json.dumps([*seen, list(declared)]).encode(), PRIVATE)
