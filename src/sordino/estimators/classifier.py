"""A private classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from torch import nn

from sordino.data.ranges import Outside
from sordino.estimators.declared import classes_of
from sordino.estimators.fitting import PrivateEstimator


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """Logistic regression, or any network with a softmax, trained under a privacy budget.

    **Formal guarantees**: those of `certificate_`; see `PrivateEstimator`. `classes` is declared: the set of labels
    shapes the model, so everybody who has it knows the set.

    >>> model = PrivateClassifier(classes=[0, 1], records=100, feature_ranges=(0.0, 1.0), epsilon=2.0)
    >>> model.get_params()["epsilon"]
    2.0
    """

    def __init__(
        self,
        *,
        classes: Any = None,
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
        """Keeps the settings: `classes` lists the labels that there can be, or is `observed`; others as there."""
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
        self.classes = classes

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # noise for a few dozen rows leaves little: nothing is promised
        return tags

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Trains; `groups` says whose each row is.

        Raises:
            Undeclared: a fact that must be declared is not, or the data contradict it.
            BudgetExceeded: the ledger has too little left.
        """
        X, y = validate_data(self, X, y)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_ = classes_of(self.classes, y)
        places = torch.from_numpy(np.searchsorted(self.classes_, y).astype(np.int64))
        return self._train(X, places, max(2, len(self.classes_)), groups)  # a model of one class has nothing to say

    def predict(self, X: Any) -> NDArray[Any]:
        """Returns the likeliest class of each row."""
        places = self._known(X).argmax(1)
        chosen: NDArray[Any] = self.classes_[places]
        return chosen

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns the probability of each class, in the order of `classes_`: the softmax of the model's outputs."""
        outputs = self._known(X)
        powers = np.exp(outputs - outputs.max(1, keepdims=True))
        return np.asarray(powers / powers.sum(1, keepdims=True))

    def _known(self, X: Any) -> NDArray[np.float64]:
        """Returns the model's outputs for the declared classes, of which there may be one alone."""
        return self._outputs(X)[:, : len(self.classes_)]
