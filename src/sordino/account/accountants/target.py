"""What calibration aims at: an (ε, δ), and the accountant that it is asked of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sordino.account.accountants.calibrate import noise_multiplier_for
from sordino.account.accountants.history import History
from sordino.errors import RecipeError
from sordino.events import DpEvent
from sordino.types import Adjacency


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

    def least_noise(
        self,
        make_history: Callable[[float], History | DpEvent],
        accountant: str | None = None,
        adjacency: Adjacency = "add_remove",
    ) -> float:
        """Returns the least noise multiplier with which what is made of it keeps to the target.

        Raises:
            RecipeError: there is no ε to keep to.
        """
        epsilon = self.limit("mechanism.noise_multiplier")
        return noise_multiplier_for(epsilon, self.delta, make_history, accountant or self.accountant, adjacency)
