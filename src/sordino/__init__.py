"""sordino: differentially private federated learning with adaptive noise, and a truthful certificate of what it costs.

    import sordino

    outcome = sordino.run(sordino.Recipe(), model=my_module, federation=sordino.Federation.of(x, y, clients=owners))
    print(outcome.accuracy, outcome.certificate)

Names are loaded when they are first used, so `import sordino` (and `sordino account`) does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sordino._version import __version__

if TYPE_CHECKING:
    from sordino.data.federation import Federation
    from sordino.errors import SordinoError
    from sordino.mechanisms import MECHANISMS
    from sordino.recipe import Recipe
    from sordino.recipe import read as read_recipe
    from sordino.recipe import validate as recipe_of
    from sordino.runs.runner import Outcome, run

__all__ = [
    "MECHANISMS",
    "Federation",
    "Outcome",
    "Recipe",
    "SordinoError",
    "__version__",
    "read_recipe",
    "recipe_of",
    "run",
]

_HOMES = {
    "MECHANISMS": ("sordino.mechanisms", "MECHANISMS"),
    "Federation": ("sordino.data.federation", "Federation"),
    "Outcome": ("sordino.runs.runner", "Outcome"),
    "Recipe": ("sordino.recipe", "Recipe"),
    "SordinoError": ("sordino.errors", "SordinoError"),
    "read_recipe": ("sordino.recipe", "read"),
    "recipe_of": ("sordino.recipe", "validate"),
    "run": ("sordino.runs.runner", "run"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sordino' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
