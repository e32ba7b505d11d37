"""What an observer sees of a run, enumerated: a promise is made against a view, and holds for nobody who sees more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sordino.types import Observer

Messages = Literal["each", "sums", "none"]

PUBLIC_FILES = (
    "model.safetensors",
    "certificate.json",
    "metrics.jsonl",
    "recipe.toml",
    "heads.jsonl",
    "report.html",
    "audit.json",
    "scores.json",
)
"""What lies in `public/`."""


@dataclass(frozen=True)
class View:
    """What one observer sees, field by field.

    **Formal guarantees**: promises against this observer are computed for exactly this. Sampling hides a client only
    from an observer with `cohort = False`; `credits_sampling` says so, and the certificate asks it.
    """

    observer: Observer
    messages: Messages
    """Every client's message, sums of them, or none at all."""
    bare: bool
    """Whether messages are seen before any noise is on them."""
    revealed: bool
    """Parts of noise shares that are subtracted again once survivors are counted."""
    cohort: bool
    """Who was asked, who vanished, who is counted."""
    aborts: bool = True
    """Whether a round released nothing."""
    extra_noise: bool = True
    """How much more noise than planned was in a release."""
    stopping_time: bool = True
    """After which round the run ended."""
    most_asked: bool = True
    """How often the client that was asked most took part; whose count that is, nobody is told. Coins alone decide it,
    never data, so it may be told unless a promise rests on those coins being secret."""
    models: bool = True
    """The model and the public settings of every round."""
    files: tuple[str, ...] = PUBLIC_FILES

    @property
    def credits_sampling(self) -> bool:
        """Whether not knowing who took part may count: only for who sees neither the cohort nor messages."""
        return not self.cohort and self.messages == "none"

    def words(self) -> tuple[str, ...]:
        """Returns what is seen, and what is not, a phrase each."""
        yes = ["the model and the public settings of every round"] if self.models else []
        yes += {"each": ["every client's message"], "sums": ["sums of messages, none alone"], "none": []}[self.messages]
        yes += ["messages before noise is added"] if self.bare else []
        yes += ["the parts of noise shares that are taken back"] if self.revealed else []
        yes += ["who was asked, who vanished and who is counted"] if self.cohort else []
        yes += ["how often the client that was asked most took part"] if self.most_asked and not self.cohort else []
        yes += ["which rounds were aborted"] if self.aborts else []
        yes += ["after which round the run ended"] if self.stopping_time else []
        yes += ["more noise than planned, where there is any"] if self.extra_noise else []
        yes += [f"files: {', '.join(self.files)}"] if self.files else []
        no = [] if self.cohort else ["not who took part"]
        return (*yes, *no, "not private/ (ledger, seed, exact losses, costs by client)")
