"""The audit of a run: canary clients, canary records and shadow models, played on the run's own recipe and people."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from sordino import strict_json
from sordino.account.certificate.audit_bound import AuditBound
from sordino.account.certificate.certificate import Assurance, Certificate
from sordino.audit.canaries import client_canaries, record_canaries, takes_client_canaries
from sordino.audit.counts import CONFIDENCE
from sordino.audit.membership import Membership, infer
from sordino.audit.network import Network
from sordino.audit.people import undeclared
from sordino.audit.published_bound import publish_bound
from sordino.audit.roc import Roc
from sordino.charts import Axis, Chart, Series
from sordino.data.federation import Federation
from sordino.errors import RecipeError
from sordino.files import PRIVATE, make_folder, replace_file
from sordino.recipe import Recipe
from sordino.report import static
from sordino.runs.folder import RunFolder
from sordino.runs.setup import assemble
from sordino.runs.subject import recall, refuse_own_mechanism
from sordino.types import Adjacency

AuditWatcher = Callable[[int, int, str], None]
"""Is told how many of how many models are done, and what is being played."""

_LOOKS = 4
"""Bounds that are looked at, two for each kind of canary: they share the risk of error."""
_EACH = 1 - (1 - CONFIDENCE) / _LOOKS
_FITTING: tuple[Adjacency, ...] = ("add_remove", "zero_out", "replace")
"""Canaries come and go, so the first of these that is promised is put to the test; each covers a unit's silence."""


@dataclass(frozen=True)
class Effort:
    """How much is played."""

    shadows: int = 25
    trials: int = 50
    pool: int = 10_000
    records: int = 1000
    """Canary records."""
    clients: int | None = None
    """Canary clients (default: a tenth of the number of parameters, at most 1,000)."""

    @property
    def models(self) -> int:
        """How many models are trained in all."""
        return 4 + (self.shadows + self.trials if self.trials else 0)


@dataclass(frozen=True)
class RunAudit:
    """What the attacks on a run came to, beside what is promised about it."""

    run: str
    unit: str
    adjacency: str
    certified: float | None
    """The run's own certificate, against the outsider; None is ∞."""
    claimed: float | None
    promised: tuple[float | None, ...]
    """What the books of the runs with canaries in them certify: noise may be calibrated for other numbers there."""
    canary_clients: dict[str, Any] | None
    canary_records: dict[str, Any]
    membership: Membership | None
    seconds: float
    published: AuditBound | None = None
    """What may be told of the mechanism's audit, without the clients' records; it is in `public/audit.json`."""

    @property
    def lower_bound(self) -> float:
        """ε that is refuted below this, at 95 % confidence over everything that was looked at."""
        parts = [*(self.canary_clients or {}).values(), *self.canary_records.values()]
        return max((part["lower_bound"] for part in parts), default=0.0)

    @property
    def certificate_broken(self) -> bool:
        """Whether more was found than is certified, for the run and for those with canaries."""
        return self.lower_bound > max(_infinite(epsilon) for epsilon in (self.certified, *self.promised))

    @property
    def claim_broken(self) -> bool:
        """Whether more was found than the paper claims."""
        return self.claimed is not None and self.lower_bound > self.claimed

    @property
    def verdict(self) -> str:
        """`violated` if the certificate or a paper's claim is refuted."""
        return "violated" if self.certificate_broken or self.claim_broken else "consistent"

    @property
    def words(self) -> str:
        """The verdict in a sentence."""
        found = f"at 95 % confidence the run gives away ε ≥ {self.lower_bound:.3g}"
        if self.certificate_broken:
            return f"{found}: more than is certified, {_infinite(self.certified):.3g}"
        if self.claim_broken:
            proved = "nothing is certified" if self.certified is None else f"certified is {self.certified:.3g}"
            return f"{found}: more than the claimed ε of {self.claimed:.3g} ({proved})"
        if self.certified is None and self.claimed is None:
            return f"{found}, and nothing was promised"
        return f"{found}, no more than is promised"

    def to_json(self) -> dict[str, Any]:
        """Returns everything as plain JSON."""
        return {
            "run": self.run,
            "unit": self.unit,
            "observer": "outsider",
            "adjacency": self.adjacency,
            "lower_bound": self.lower_bound,
            "certified": self.certified,
            "claimed": self.claimed,
            "verdict": self.verdict,
            "words": self.words,
            "certified_with_canaries": list(self.promised),
            "canary_clients": self.canary_clients,
            "canary_records": self.canary_records,
            "membership": self.membership.to_json() if self.membership else None,
            "published": asdict(self.published) if self.published else None,
            "seconds": round(self.seconds, 2),
        }


def audit_run(
    path: Path,
    effort: Effort,
    seed: int,
    watcher: AuditWatcher = lambda done, total, words: None,
    model: nn.Module | None = None,
    federation: Federation | None = None,
) -> RunAudit:
    """Attacks a run end to end, and leaves `audit/audit.json` and `audit/roc.svg` in its private part.

    What is found without the clients' records, on the mechanism alone, is published beside the certificate. A model or
    data of the user's own have to be given again, and are held against what the run remembers of them.

    **Edge cases**: mechanisms whose clients cannot send what they like have no canary clients, and data without classes
    no membership inference; their places are then empty.
    """
    began = time.perf_counter()
    entry = _fitting(_certificate(path))
    recipe, rounds = RunFolder(path).recipe(), len(RunFolder(path).metrics())
    refuse_own_mechanism(RunFolder(path), "the audit")
    subject = recall(RunFolder(path), model, federation)
    federation, model, alone = subject.federation, subject.model, entry.unit == "client"
    count = effort.clients or min(1000, max(20, Network.of(recipe, federation, model).layout.width // 10))
    watcher(0, effort.models, f"{count} canary clients")
    heard = takes_client_canaries(assemble(undeclared(recipe), model, federation).mechanism.local)
    singers = client_canaries(recipe, federation, count, rounds, seed + 1, alone, _EACH, model) if heard else None
    watcher(1, effort.models, f"{effort.records} canary records")
    planted = record_canaries(recipe, federation, effort.records, rounds, seed + 2, alone, _EACH, model)
    guessed = None
    if effort.trials and federation.classes > 1:

        def told(done: int) -> None:
            watcher(3 + done, effort.models, f"{effort.shadows} shadow models, {effort.trials} attacked")

        guessed = infer(recipe, federation, effort.shadows, effort.trials, effort.pool, rounds, seed + 3, told, model)
    watcher(effort.models - 1, effort.models, "the mechanism, with made-up records")
    shown = publish_bound(RunFolder(path), federation.declared.people, seed + 4)
    audit = RunAudit(
        str(path),
        entry.unit,
        entry.adjacency,
        entry.epsilon,
        entry.claimed_epsilon,
        tuple(_fitting(canaries.certificate).epsilon for canaries in (singers, planted) if canaries),
        singers.found if singers else None,
        planted.found,
        guessed,
        time.perf_counter() - began,
        shown,
    )
    _keep(RunFolder(path).private / "audit", audit, recipe)
    return audit


def _certificate(path: Path) -> Certificate:
    """Returns the certificate of a run that has ended."""
    try:
        return Certificate.from_json((RunFolder(path).private / "certificate.json").read_text())
    except OSError:
        raise RecipeError(f"{path} has no certificate yet: let the run end (--resume) before you audit it") from None


def _fitting(certificate: Certificate) -> Assurance:
    """Returns what is promised against the outsider when a unit comes or goes."""
    outside = [entry for entry in certificate.entries if entry.observer == "outsider"]
    if not outside:
        raise RecipeError("the certificate promises nothing against the outsider: play a round before the audit")
    return min(outside, key=lambda entry: _FITTING.index(entry.adjacency))


def _infinite(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _keep(folder: Path, audit: RunAudit, recipe: Recipe) -> None:
    make_folder(folder, PRIVATE)
    replace_file(folder / "audit.json", f"{strict_json.dumps(audit.to_json(), indent=2)}\n".encode(), PRIVATE)
    if audit.membership is not None:
        static.save(roc_chart({recipe.mechanism.name: audit.membership.curve}), folder)


def roc_chart(curves: dict[str, Roc]) -> Chart:
    """Returns ROC curves in log scale, where an attack that is sure of a few members shows."""
    fpr = np.geomspace(1e-4, 1, 200)
    series = [
        Series(name, fpr.tolist(), [max(curve.tpr_at(f), 1e-5) for f in fpr], color=place)
        for place, (name, curve) in enumerate(curves.items())
    ]
    chance = Series("guessing", fpr.tolist(), fpr.tolist(), color=len(series), dashed=True)
    return Chart(
        "roc",
        "Membership inference",
        "Share of members found (LiRA) at each share of false alarms; on the dashed line they are guessed.",
        Axis("false positive rate", log=True, range=(1e-4, 1)),
        Axis("true positive rate", log=True, range=(1e-4, 1)),
        (*series, chance),
    )
