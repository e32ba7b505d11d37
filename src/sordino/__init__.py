"""sordino: differentially private federated learning with adaptive noise, and a truthful certificate of what it costs.

    import sordino

    federation = sordino.Federation.of(x, y, clients=owners)
    outcome = sordino.run(model=my_module, federation=federation, public=federation.proposed())
    print(outcome.accuracy, outcome.certificate)

Names are loaded when they are first used, so `import sordino` (and `sordino account`) does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sordino._version import __version__

if TYPE_CHECKING:
    from sordino.account.accountants.accountant import epsilon
    from sordino.account.accountants.registry import register_event
    from sordino.account.certificate.certificate import Certificate
    from sordino.account.ledger.ledger import Ledger
    from sordino.data.federation import Federation
    from sordino.data.public import PublicCounts
    from sordino.errors import SordinoError
    from sordino.mechanism import (
        Adapter,
        Aggregator,
        Bounder,
        Claim,
        Local,
        Mechanism,
        Opening,
        Perturber,
        Selector,
    )
    from sordino.mechanisms import MECHANISMS
    from sordino.mechanisms.facts import PublicFacts
    from sordino.mechanisms.spec import AuditCase, MechanismSpec, Options
    from sordino.models.lora import lora
    from sordino.recipe import Recipe
    from sordino.runs.outcome import Outcome
    from sordino.runs.run import run

_HOMES = {
    "sordino.account.accountants.accountant": ("epsilon",),
    "sordino.account.accountants.registry": ("register_event",),
    "sordino.account.certificate.certificate": ("Certificate",),
    "sordino.account.ledger.ledger": ("Ledger",),
    "sordino.data.federation": ("Federation",),
    "sordino.data.public": ("PublicCounts",),
    "sordino.errors": ("SordinoError",),
    "sordino.mechanism": (
        "Adapter",
        "Aggregator",
        "Bounder",
        "Claim",
        "Local",
        "Mechanism",
        "Opening",
        "Perturber",
        "Selector",
    ),
    "sordino.mechanisms": ("MECHANISMS",),
    "sordino.mechanisms.facts": ("PublicFacts",),
    "sordino.mechanisms.spec": ("AuditCase", "MechanismSpec", "Options"),
    "sordino.models.lora": ("lora",),
    "sordino.recipe": ("Recipe",),
    "sordino.runs.outcome": ("Outcome",),
    "sordino.runs.run": ("run",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "MECHANISMS",
    "Adapter",
    "Aggregator",
    "AuditCase",
    "Bounder",
    "Certificate",
    "Claim",
    "Federation",
    "Ledger",
    "Local",
    "Mechanism",
    "MechanismSpec",
    "Opening",
    "Options",
    "Outcome",
    "Perturber",
    "PublicCounts",
    "PublicFacts",
    "Recipe",
    "Selector",
    "SordinoError",
    "__version__",
    "epsilon",
    "lora",
    "register",
    "register_event",
    "run",
]


def register(spec: MechanismSpec) -> MechanismSpec:
    """Adds a mechanism of your own to the registry: recipes, commands and the audit then know it by its name."""
    from sordino.mechanisms import MECHANISMS

    return MECHANISMS.register(spec)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'sordino' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
