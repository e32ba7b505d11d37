"""Everything that a run is made of, besides its ledger and its folder."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from sordino.account.accountants.target import PrivacyTarget
from sordino.advise.by_features import Settled
from sordino.data.federation import Federation
from sordino.layout import Layout
from sordino.mechanism import Mechanism
from sordino.models.state import whole_state
from sordino.random.streams import Randomness
from sordino.recipe import Recipe
from sordino.select.dropout import Dropout
from sordino.server.step import ServerStep
from sordino.train.trainer import Trainer


@dataclass(frozen=True, eq=False)
class RunContext:
    """A run's recipe, and what became of each of its sections."""

    recipe: Recipe
    federation: Federation
    mechanism: Mechanism
    model: nn.Module
    """The module that is trained; its own weights are where training begins, and are never changed."""
    trainer: Trainer
    layout: Layout
    weights: Tensor
    """The weights to begin with, as one flat row."""
    dropout: Dropout
    step: ServerStep
    target: PrivacyTarget
    randomness: Randomness
    settled: Settled | None = None
    """What the recipe left open and its features decided."""

    def state(self, weights: Tensor) -> dict[str, Tensor]:
        """Returns the whole state of the model with these weights: frozen layers and buffers too."""
        return whole_state(self.model, self.layout.unflatten(weights))

    def evaluate(self, weights: Tensor) -> tuple[float | None, float | None]:
        """Returns loss and accuracy on the test set (None without one)."""
        if not len(self.federation.test_x):
            return None, None
        return self.trainer.evaluate(weights, self.federation.test_x, self.federation.test_y)

    def public_scores(self, weights: Tensor) -> dict[str, float]:
        """Returns scores on the records that were declared public, if any."""
        if self.federation.public_x is None or self.federation.public_y is None:
            return {}
        loss, accuracy = self.trainer.evaluate(weights, self.federation.public_x, self.federation.public_y)
        return {"loss": loss} | ({} if accuracy is None else {"accuracy": accuracy})
