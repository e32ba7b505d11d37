"""A private regressor."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.validation import validate_data
from torch import nn

from sordino.data.ranges import Outside
from sordino.estimators.declared import Undeclared, target_range_of
from sordino.estimators.fitting import PrivateEstimator


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """Linear regression, or any network with one output, trained under a privacy budget.

    **Formal guarantees**: those of `certificate_`; see `PrivateEstimator`. `target_range` is declared: targets are
    scaled by it to [−1, 1], and predictions are scaled back.
    """

    def __init__(
        self,
        *,
        target_range: Any = None,
        epsilon: float | None = 1.0,
        delta: float = 1e-5,
        unit: str = "record",
        trust: str = "central",
        mechanism: str | None = None,
        options: dict[str, Any] | None = None,
        feature_ranges: Any = None,
        outside: Outside = "refuse",
        records: int | str | None = None,
        population: int | str | None = None,
        model: str | nn.Module = "linear",
        hidden: tuple[int, ...] = (32,),
        features: Literal["none", "random"] = "none",
        rounds: int | None = None,
        learning_rate: float | None = None,
        ledger: str | Path | None = None,
        federation: str | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        """Keeps the settings: `target_range` is the (lowest, highest) y, or `unscaled`; the others as there."""
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            trust=trust,
            mechanism=mechanism,
            options=options,
            feature_ranges=feature_ranges,
            outside=outside,
            records=records,
            population=population,
            model=model,
            hidden=hidden,
            features=features,
            rounds=rounds,
            learning_rate=learning_rate,
            ledger=ledger,
            federation=federation,
            random_state=random_state,
        )
        self.target_range = target_range

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise for a few dozen rows leaves little: nothing is promised
        return tags

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Trains; `groups` says whose each row is.

        Raises:
            Undeclared: a fact that must be declared is not, or the data contradict it.
            BudgetExceeded: the ledger has too little left.
        """
        X, y = validate_data(self, X, y, y_numeric=True)
        y = column_or_1d(y, warn=True).astype(np.float64)
        self._target = target_range_of(self.target_range)
        if self._target is not None:
            low, high = self._target
            if self.outside == "refuse" and ((y < low) | (y > high)).any():
                raise Undeclared(
                    f"y holds values outside target_range = ({low:g}, {high:g}): widen it, or set outside='clip'"
                )
            y = 2 * (np.clip(y, low, high) - low) / (high - low) - 1
        return self._train(X, torch.from_numpy(y.astype(np.float32))[:, None], 0, groups)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Returns the predicted number of each row, in the units of y."""
        out = self._outputs(X)[:, 0]
        if self._target is None:
            return out
        low, high = self._target
        return np.asarray(low + (out + 1) / 2 * (high - low))
