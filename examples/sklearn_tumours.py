"""Benign or malignant, with scikit-learn's own tumours: accuracy on held-out rows by ε, beside logistic regression.

python examples/sklearn_tumours.py
"""

from __future__ import annotations

import argparse
from statistics import mean, stdev

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from sordino.sklearn import PrivateClassifier

RANGES = [(0, 40), (0, 50), (0, 250), (0, 3000), (0, 0.3), (0, 0.5), (0, 0.6), (0, 0.3), (0, 0.4), (0, 0.2)]
"""Lowest and highest value that each mean can have, from what one knows of tumours and not from these data."""


def accuracies(epsilon: float, seeds: int) -> list[float]:
    """Returns the accuracy on held-out rows, for each seed of the split and of the noise."""
    data = load_breast_cancer()
    X, y = data.data[:, :10], np.array(["malignant", "benign"])[data.target]
    found = []
    for seed in range(seeds):
        train_x, test_x, train_y, test_y = train_test_split(X, y, test_size=0.3, random_state=seed)
        model = PrivateClassifier(
            classes=["benign", "malignant"],
            records=400,
            feature_ranges=RANGES,
            epsilon=epsilon,
            delta=1e-4,
            rounds=20,
            random_state=seed,
        )
        found.append(model.fit(train_x, train_y).score(test_x, test_y))
    return found


def plain(seeds: int) -> list[float]:
    """Returns the same of logistic regression on scaled features, which promises nothing."""
    data = load_breast_cancer()
    low, high = np.array(RANGES, float).T
    X = 2 * (data.data[:, :10] - low) / (high - low) - 1
    found = []
    for seed in range(seeds):
        train_x, test_x, train_y, test_y = train_test_split(X, data.target, test_size=0.3, random_state=seed)
        found.append(LogisticRegression(max_iter=1000).fit(train_x, train_y).score(test_x, test_y))
    return found


def main(seeds: int) -> None:
    """Prints a line for each ε."""
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        told = accuracies(epsilon, seeds)
        print(f"ε = {epsilon:g}: {mean(told):.3f} ± {stdev(told):.3f}")
    told = plain(seeds)
    print(f"logistic regression: {mean(told):.3f} ± {stdev(told):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    main(parser.parse_args().seeds)
