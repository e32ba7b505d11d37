"""Label histograms, released once by every client, and the ranking that follows from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from sordino.data.federation import Federation
from sordino.events import DpEvent, GaussianDpEvent, Guarantee, Unbounded
from sordino.mechanism import Knobs, Prices, Turn
from sordino.opening.wasserstein import Metric, distances, scores
from sordino.types import FloatArray, IntArray

CHUNK = 1 << 16
"""Clients whose labels are counted at once."""

EXACT = "label histograms are used without noise: who is asked depends on private labels"


@dataclass(frozen=True)
class LabelHistograms:
    """Every client counts its labels, adds N(0, noise_multiplier²) to each count, and sends that once.

    **Formal guarantees**: unit record, trust local, adjacency add_remove: one record moves one count by 1, so this is
    one Gaussian of `noise_multiplier` for every client, against server and outsider alike. The global distribution, the
    distances and the scores are post-processing: they are computed from the noisy counts and from nothing else.
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

    def open(self, federation: Federation, turn: Turn) -> Knobs:
        counts = self.counts(federation, turn)
        everybody = _shares(counts.sum(0, keepdims=True))[0]
        merit = scores(distances(_shares(counts), everybody, self.metric))
        return {"scores": torch.from_numpy(merit), "label_shares": torch.from_numpy(everybody)}

    def counts(self, federation: Federation, turn: Turn) -> FloatArray:
        """Returns what leaves the clients: one row of (noisy) label counts each."""
        return np.concatenate(
            [
                self._chunk(federation, turn, np.arange(start, min(start + CHUNK, federation.population)))
                for start in range(0, federation.population, CHUNK)
            ]
        )

    def _chunk(self, federation: Federation, turn: Turn, clients: IntArray) -> FloatArray:
        offsets, records = federation.partition.indices(clients)
        owner = np.repeat(np.arange(len(clients)), np.diff(offsets))
        labels = federation.train_y[torch.from_numpy(records)].numpy()
        counts = np.bincount(owner * self.classes + labels, minlength=len(clients) * self.classes)
        exact = counts.reshape(len(clients), self.classes).astype(np.float64)
        if self.noise_multiplier is None:
            return exact
        noise = turn.randomness.normals("histograms", turn.round_, clients, self.classes).numpy()
        noisy: FloatArray = exact + self.noise_multiplier * noise
        return noisy


def _shares(counts: FloatArray) -> FloatArray:
    """Returns counts as distributions: negative ones are zero, and nothing at all is uniform."""
    positive = np.maximum(counts, 0.0)
    totals = positive.sum(1, keepdims=True)
    uniform = np.full_like(positive, 1 / positive.shape[1])
    shares: FloatArray = np.divide(positive, totals, out=uniform, where=totals > 0)
    return shares
