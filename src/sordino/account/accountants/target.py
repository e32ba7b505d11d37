"""What calibration aims at: an (ε, δ), and the accountant that it is asked of."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.errors import RecipeError


@dataclass(frozen=True)
class PrivacyTarget:
    """The ε that a run may reach at δ; None where nothing limits it."""

    epsilon: float | None
    delta: float
    accountant: str = "pld"

    def limit(self, instead: str) -> float:
        """Returns ε.

        Raises:
            RecipeError: there is none; `instead` names the setting that could be given in its place.
        """
        if self.epsilon is None:
            raise RecipeError(f"budget.epsilon is missing: set it, or {instead}")
        return self.epsilon
