"""What a server writes down before it announces something, and of what came of it: killed, it does nothing twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load, save
from torch import Tensor

from sordino.files import PRIVATE, replace_file

ROUND = "round"
"""What rounds are called; openings have names of their own."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come, by what was announced, or by what a member has paid for."""

    round_: int = 0
    """The newest round."""
    openings: int = 0
    """Releases before the first round."""

    def within(self, other: Progress) -> bool:
        """Whether the other has come as far."""
        return self.round_ <= other.round_ and self.openings <= other.openings


@dataclass(frozen=True)
class Journal:
    """Files in the private part of a run folder, each written whole and synced before anything leaves the server."""

    folder: Path

    def announced(self, what: str) -> int:
        """Returns the last round that was announced, or how often an opening was; 0 for none."""
        path = self.folder / f"announced-{what}.json"
        return int(json.loads(path.read_text())) if path.exists() else 0

    def announce(self, what: str, number: int) -> None:
        """Writes down, durably, that something is about to be announced."""
        replace_file(self.folder / f"announced-{what}.json", json.dumps(number).encode(), PRIVATE)

    @property
    def progress(self) -> Progress:
        """All that was ever announced."""
        names = (path.stem.removeprefix("announced-") for path in self.folder.glob("announced-*.json"))
        return Progress(self.announced(ROUND), sum(self.announced(name) for name in names if name != ROUND))

    def concluded(self, what: str) -> dict[str, Tensor] | None:
        """Returns what an opening came to; nothing by name where it was given up, None where it was never played."""
        path = self.folder / f"concluded-{what}.safetensors"
        return {name: told.clone() for name, told in load(path.read_bytes()).items()} if path.exists() else None

    def conclude(self, what: str, told: Mapping[str, Tensor]) -> None:
        """Keeps what an opening came to, so that it is never played again."""
        data = save({name: tensor.contiguous() for name, tensor in told.items()})
        replace_file(self.folder / f"concluded-{what}.safetensors", data, PRIVATE)
