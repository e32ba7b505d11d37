"""For people who use scikit-learn: estimators that are private, with a certificate. `docs/sklearn.md` is the page.

from sordino.sklearn import PrivateClassifier

model = PrivateClassifier(epsilon=2.0, classes=["no", "yes"], records=5000, feature_ranges=(0.0, 1.0))
model.fit(X, y)
print(model.predict(X), model.certificate_)
"""

from __future__ import annotations

from sordino.estimators.classifier import PrivateClassifier
from sordino.estimators.declared import Undeclared
from sordino.estimators.regressor import PrivateRegressor

__all__ = ["PrivateClassifier", "PrivateRegressor", "Undeclared"]
