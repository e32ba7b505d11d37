"""Finds the papers' experiments, which live in a checkout of the project and not in the installed package."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from sordino.errors import RecipeError


def require_papers() -> None:
    """Makes `import papers` work.

    Raises:
        RecipeError: sordino was installed without its checkout.
    """
    root = Path(__file__).resolve().parents[3]
    if (root / "papers" / "catalogue.py").exists() and str(root) not in sys.path:
        sys.path.insert(0, str(root))
    if find_spec("papers") is None:
        raise RecipeError("the papers' experiments are part of the project's checkout: clone it and run this there")
