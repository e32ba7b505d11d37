"""The lower bound that an audit of a run published beside its certificate: what a reader can hold against ε.

It was made with made-up records on the run's own mechanism and settings, so it holds nothing private; what an audit
finds with the clients' records stays in `private/audit`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from sordino.errors import RecipeError
from sordino.types import Adjacency, Observer, Unit

FILE = "audit.json"
"""Its name in `public/`."""


@dataclass(frozen=True)
class AuditBound:
    """What the strongest attack of an audit found, beside what is certified for just what it attacked.

    Attributes:
        certified: ε of a unit that takes part in all `rounds` rounds; None is infinite.
        lower_bound: ε below this is refuted, with probability at least `confidence`.
        trials: plays of each world that were counted.
        attack: in words.
    """

    mechanism: str
    mode: str
    unit: Unit
    observer: Observer
    adjacency: Adjacency
    rounds: int
    delta: float
    certified: float | None
    lower_bound: float
    confidence: float
    trials: int
    verdict: str
    attack: str
    code_version: str

    def words(self) -> str:
        """Returns the bound in a sentence; its file is signed by nobody, which stands in it."""
        held = "nothing is certified" if self.certified is None else f"ε = {self.certified:.4g} is certified"
        return (
            f"{self.verdict}: an attack with made-up records on {self.mechanism} ({self.mode}) with these settings "
            f"shows ε ≥ {self.lower_bound:.3g} for one {self.unit} against the {self.observer} ({self.adjacency}) over "
            f"{self.rounds} rounds, with {self.confidence:.0%} confidence, where {held} (δ = {self.delta:g}, "
            f"{self.trials:,} trials, sordino {self.code_version}; {FILE} is signed by nobody)"
        )

    def to_json(self) -> str:
        """Returns the file's text."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def audit_bound(folder: Path) -> AuditBound | None:
    """Returns what an audit of the run in this folder published; None when nobody audited it.

    Raises:
        RecipeError: the file is damaged.
    """
    inside = folder / "public" / FILE
    path = inside if inside.exists() else folder / FILE  # the public part may have been handed over alone
    try:
        return _READER.validate_python(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError):
        raise RecipeError(f"{path} is damaged: remove it, and run `sordino audit {folder}` again") from None


_READER: TypeAdapter[AuditBound] = TypeAdapter(AuditBound)
