"""What has to be declared before data are looked at: ranges, counts, classes. Nothing is taken from data in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sordino.data.ranges import EVERY, Range
from sordino.errors import DataError, SordinoError

OBSERVED: Literal["observed"] = "observed"
"""Says that a number may be read off the data, since it may be published."""
UNSCALED: Literal["unscaled"] = "unscaled"
"""Says that values are to be used as they are."""


class Undeclared(DataError, ValueError):
    """A fact that everybody could infer from the model was not declared, or was contradicted."""


_WORDS = {
    'set data.outside = "clip"': "set outside='clip'",
    "public.ranges": "feature_ranges",
    "public.": "",
    "budget.": "",
    "run.rounds": "rounds",
    "server.learning_rate": "learning_rate",
    "`sordino recipe --explain`": "`sordino recipe --explain` (options=… are the mechanism's)",
}
"""What a recipe's settings are called here."""


@contextmanager
def own_words() -> Iterator[None]:
    """Lets refusals of a run name an estimator's parameters in place of a recipe's settings."""
    try:
        yield
    except SordinoError as error:
        told = str(error)
        for theirs, ours in _WORDS.items():
            told = told.replace(theirs, ours)
        error.args = (told, *error.args[1:])
        raise


def ranges_of(told: Any, names: Sequence[str], width: int) -> dict[str, Range]:
    """Returns declared ranges of features by number, `*` standing for all others; empty for `unscaled`.

    Args:
        told: one pair for all features, a pair for each, a mapping by name or number, or `unscaled`.
        names: the features' names, if they have any.
        width: how many features there are.

    Raises:
        Undeclared: nothing was declared, or not that many pairs.
    """
    if told is None:
        raise Undeclared(
            "feature_ranges is missing: declare the lowest and highest value, (0.0, 1.0) or one pair a feature, from "
            "what you know and not from these data; or 'unscaled' to use features as they are"
        )
    if isinstance(told, str) and told == UNSCALED:
        return {}
    if isinstance(told, Mapping):
        return {_number(str(name), names): _pair(pair) for name, pair in told.items()}
    try:
        pairs = np.asarray(told, dtype=float)
    except (TypeError, ValueError):
        raise Undeclared(
            f"feature_ranges is {told!r}: give (lowest, highest), one pair a feature, or 'unscaled'"
        ) from None
    if pairs.shape == (2,):
        return {EVERY: _pair(pairs)}
    if pairs.shape != (width, 2):
        raise Undeclared(f"feature_ranges has shape {pairs.shape} and X {width} features: give one pair for each")
    return {str(place): _pair(pair) for place, pair in enumerate(pairs)}


def target_range_of(told: Any) -> Range | None:
    """Returns the declared range of the target, None for `unscaled`.

    Raises:
        Undeclared: nothing was declared.
    """
    if told is None:
        raise Undeclared(
            "target_range is missing: declare the lowest and highest value of y from what you know and not from these "
            "data; or 'unscaled' to use y as it is"
        )
    return None if isinstance(told, str) and told == UNSCALED else _pair(told)


def count_of(name: str, told: Any, found: int) -> int:
    """Returns a declared count, or the one that is found where it may be published.

    Raises:
        Undeclared: nothing was declared.
    """
    if told is None:
        raise Undeclared(
            f"{name} is missing: declare how many are expected (these data suggest {found}), or 'observed' if the "
            "number may be published"
        )
    if isinstance(told, str) and told == OBSERVED:
        return found
    if not isinstance(told, Integral):
        raise Undeclared(f"{name} is {told!r}: give a whole number, or 'observed'")
    return int(told)


def classes_of(told: Any, y: NDArray[Any]) -> NDArray[Any]:
    """Returns the declared classes in sorted order, or those that are found where they may be published.

    Raises:
        Undeclared: nothing was declared, or y holds another label.
    """
    if told is None:
        raise Undeclared(
            "classes is missing: list the labels that there can be, or 'observed' if those in y may be published"
        )
    found = np.unique(y)
    if isinstance(told, str) and told == OBSERVED:
        return found
    classes = np.unique(np.asarray(told))
    if strangers := [label for label in found if label not in classes]:
        raise Undeclared(f"y holds the label {str(strangers[0])!r}, which is not in classes: add it")
    return classes


def _number(name: str, names: Sequence[str]) -> str:
    return str(list(names).index(name)) if name in names else name


def _pair(told: Any) -> Range:
    try:
        low, high = (float(end) for end in told)
    except (TypeError, ValueError):
        raise Undeclared(f"a range is {told!r}: give a lower end and a higher one") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise Undeclared(f"a range is ({low:g}, {high:g}): give a lower end and a higher one")
    return low, high
