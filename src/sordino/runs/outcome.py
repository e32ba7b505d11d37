"""What a run came to: the model, what it cost, and where it lies."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from sordino.account.certificate.certificate import Certificate
from sordino.account.certificate.document import CertificateDocument
from sordino.data.finite import require_finite
from sordino.data.records import inputs
from sordino.errors import DataError
from sordino.models.checks import suited
from sordino.models.outputs import scores
from sordino.opening.feature_map import FeatureMap
from sordino.printable import counted
from sordino.runs.context import RunContext
from sordino.runs.idle import steps_in_words
from sordino.runs.scores import Scores, score


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run came to."""

    folder: Path
    rounds: int
    stopped: str
    accuracy: float | None
    loss: float | None
    seconds: float
    certificate: Certificate = field(repr=False)
    """What the ledger proves, and who paid most for it: for whoever ran it."""
    document: CertificateDocument = field(repr=False)
    """The certificate for everybody: signed, and without anything private. `print` it."""
    weights: Tensor = field(repr=False)
    """The trained parameters as one flat row."""
    context: RunContext = field(repr=False)
    why: str = ""
    scores: Scores | None = None
    """Scores on the test records that fit the task; None without any. As private as these are."""
    lens: FeatureMap | None = None
    """The map that features go through before the model, where an opening made one."""
    engine: str = ""
    """How gradients were computed, and why so, in a sentence."""

    @property
    def simulation(self) -> bool:
        """Whether noise was drawn from a seed, which whoever knows it can take away."""
        return self.certificate.simulation

    def __str__(self) -> str:
        """Returns scores and certificate in words, as a run's last lines have them."""
        reached = "no test records" if self.scores is None else self.scores.words()
        return f"{reached} after {counted(self.rounds, 'round')} ({self.folder})\n{self.certificate}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Shows in a notebook what `print` shows."""
        printer.text("…" if cycle else str(self))

    @cached_property
    def model(self) -> nn.Module:
        """The module that was given (or named by the recipe), trained and ready to predict; a copy of its own.

        Where an opening released a map of the features, it comes first: the model takes features as they were before.
        """
        module = copy.deepcopy(self.context.model)
        module.load_state_dict(self.context.layout.unflatten(self.weights), strict=False)
        return (module if self.lens is None else nn.Sequential(copy.deepcopy(self.lens), module)).eval()

    def predict(self, x: Tensor | ArrayLike) -> Tensor:
        """Returns the class of each record, or its predicted numbers for regression.

        Records are given as the model was given them: scaled by `public.ranges`, where these were declared
        (`sordino.data.ranges.scaled`).

        Raises:
            DataError: records are no numbers (NaN is none), or have another shape than those that it was trained on.
        """
        records, shape = inputs(x), self.context.federation.input_shape
        if tuple(records.shape[1:]) != shape:
            raise DataError(
                f"records have the shape {tuple(records.shape[1:])}, and the model was trained on {shape}: give one "
                "row a record, with the same features in the same order."
            )
        require_finite("predict", records)
        with torch.no_grad():
            out = scores(self.model(suited(self.model, records)))
        return out.argmax(1) if self.context.federation.classes else out

    def scores_by_client(self) -> dict[str, Scores]:
        """Returns the scores of the final model on each client's own training records, by the client's name.

        Private, and released by nobody: for whoever runs a simulation, to see whom the model serves badly.
        """
        federation = self.context.federation
        module = self.model if self.lens is None else self.model[0]  # type: ignore[index]
        found = {}
        for client in range(federation.population):
            data = federation.gather(np.array([client]))
            x = data.x if self.lens is None else module(data.x)
            told = score(self.context, self.weights, x, data.y)
            if told is not None:
                found[federation.name_of(client)] = told
        return found

    def to_json(self) -> dict[str, Any]:
        """Returns the outcome as `sordino run --json` prints it."""
        scores = {"accuracy": None, "loss": None} if self.scores is None else self.scores.to_json()
        return {
            "run": str(self.folder),
            "rounds": self.rounds,
            "stopped": self.stopped,
            "why": self.why,
            "test": scores,
            "step": steps_in_words(self.context),
            "seconds": round(self.seconds, 3),
            "certificate": [asdict(entry) for entry in self.certificate.entries],
            "simulation": self.simulation,
            "engine": self.engine,
        }
