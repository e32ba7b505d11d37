"""Label histograms, released once by every client, and the ranking that follows from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.data.client_data import ClientData
from sordino.events import DpEvent, GaussianDpEvent, Guarantee, Unbounded
from sordino.opening.wasserstein import Metric, distances, scores
from sordino.random.on_grid import noisy_counts
from sordino.stages import Prices
from sordino.terms import Turn
from sordino.types import FloatArray

EXACT = "label histograms are used without noise: who is asked depends on private labels"


@dataclass(frozen=True)
class LabelHistograms:
    """Every client counts its labels, adds N(0, noise_multiplier²) to each count, and sends that once.

    **Formal guarantees**: unit record, trust local, adjacency add_remove: one record moves one count by 1, so this is
    one Gaussian of `noise_multiplier` for every client, against server and outsider alike. The global distribution, the
    distances and the scores are post-processing: they are computed from the noisy counts and from nothing else. Counts
    are noised as integers on a grid (`random/on_grid.py`).
    **Edge cases**: with `noise_multiplier=None` counts are exact, as printed, and the price is `Unbounded`; counts that
    noise made negative become zero, and a client whose counts all did is taken to be uniform. A client that joins the
    training late sends its histogram with the others.
    **Reference**: A-DPFL, §5.2.3, where the counts are used as they are.
    """

    classes: int
    noise_multiplier: float | None
    metric: Metric = "discrete"

    def price(self) -> Prices:
        event: DpEvent = Unbounded(EXACT) if self.noise_multiplier is None else GaussianDpEvent(self.noise_multiplier)
        return (
            (Guarantee("record", "server", "add_remove"), event),
            (Guarantee("record", "outsider", "add_remove"), event),
        )

    def tell(self, data: ClientData, turn: Turn) -> Tensor:
        owner = np.repeat(np.arange(len(data.clients)), data.sizes)
        counts = np.bincount(owner * self.classes + data.y.numpy(), minlength=len(data.clients) * self.classes)
        exact = torch.from_numpy(counts.reshape(len(data.clients), self.classes)).double()
        if self.noise_multiplier is None:
            return exact
        keys = turn.randomness.keys("histograms", turn.round_, data.clients)
        return noisy_counts(exact, self.noise_multiplier, keys)

    def conclude(self, told: Tensor) -> dict[str, Tensor]:
        counts = told.numpy()
        everybody = _shares(counts.sum(0, keepdims=True))[0]
        merit = scores(distances(_shares(counts), everybody, self.metric))
        return {"scores": torch.from_numpy(merit), "label_shares": torch.from_numpy(everybody)}


def _shares(counts: FloatArray) -> FloatArray:
    """Returns counts as distributions: negative ones are zero, and nothing at all is uniform."""
    positive = np.maximum(counts, 0.0)
    totals = positive.sum(1, keepdims=True)
    uniform = np.full_like(positive, 1 / positive.shape[1])
    shares: FloatArray = np.divide(positive, totals, out=uniform, where=totals > 0)
    return shares
