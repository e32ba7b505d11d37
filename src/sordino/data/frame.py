"""Columns of a data frame: numbers, words and gaps in them, whatever type a library holds them in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.data.loaders.cells import GAPS, Columns
from sordino.errors import DataError
from sordino.printable import listed, quoted


@dataclass(frozen=True)
class FrameReader:
    """Reads columns of pandas' data frames, or of anything with `columns` and columns by name.

    **Formal guarantees**: a record's features depend on that record and on what is declared, and on nothing else.
    **Edge cases**: dates, durations and complex numbers are no numbers here, although numpy would make some of them. A
    whole number that a column with gaps holds as 1.0 is the word `1`.
    """

    frame: Any

    def __post_init__(self) -> None:
        kind = type(self.frame)
        if not hasattr(self.frame, "columns"):
            raise DataError(f"this is a {kind.__name__} and no data frame: give one that has columns.")
        if not hasattr(kind, "__len__"):  # polars' lazy frames, and whatever else holds no rows yet
            raise DataError(f"this is a {kind.__name__}, which holds no rows yet: call collect() on it first.")
        if twice := next((name for place, name in enumerate(self.names) if name in self.names[:place]), None):
            raise DataError(f"the data frame has two columns named {quoted(twice)}: rename one of them.")

    @property
    def names(self) -> list[str]:
        """Names of the columns, as words."""
        return [str(name) for name in self._columns]

    @property
    def _columns(self) -> list[Any]:
        names = getattr(self.frame, "column_names", None)  # pyarrow's tables, whose `columns` are the values
        return names if isinstance(names, list) else list(self.frame.columns)

    def values(self, name: str) -> NDArray[Any]:
        """Returns a column as it is."""
        if name not in self.names:
            index = [str(one) for one in getattr(getattr(self.frame, "index", None), "names", ())]
            aside = " (it is in the index: call reset_index() first)" if name in index else ""
            raise DataError(f"the data frame has no column {quoted(name)}{aside}: it has {listed(self.names)}.")
        found = np.asarray(self.frame[self._columns[self.names.index(name)]])
        if not len(found):
            raise DataError("the data frame has no records: give at least one.")
        return found

    def features(self, used: Columns) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the features of the records that are kept (gaps are NaN), and which records those are."""
        columns, gaps = [], []
        for name in used.numbers:
            columns.append(self._numbers(name))
            gaps.append(np.isnan(columns[-1]))
        for name, words in used.categories.items():
            texts = np.array([_text(value) for value in self.values(name)], object)
            gaps.append(texts == "")
            columns += list(self._coded(name, texts, [str(word) for word in words]))
        empty = np.any(gaps, axis=0)
        if empty.any() and used.missing == "refuse":
            raise DataError(
                f"record {int(np.flatnonzero(empty)[0])} has a gap ({int(empty.sum())} in all have): missing='middle' "
                "counts gaps as the middle of the declared range, missing='leave_out' leaves those records out."
            )
        kept = ~empty if used.missing == "leave_out" else np.ones_like(empty)
        return np.stack(columns, axis=1)[kept], kept

    def labels(self, name: str, class_names: Sequence[str], kept: NDArray[Any]) -> NDArray[Any]:
        """Returns what is to be predicted for the records that are kept: numbers, or places in `class_names`."""
        values = self.values(name)
        gaps = [place for place in np.flatnonzero(kept) if _gap(values[place])]
        values = values[kept]
        if gaps:
            raise DataError(
                f"column {name!r}: record {gaps[0]} has no label ({len(gaps)} in all): leave those records out."
            )
        if class_names:
            places = {str(word): place for place, word in enumerate(class_names)}
            texts = [_text(value) for value in values]
            if unknown := next((text for text in texts if text not in places), None):
                raise DataError(f"column {name!r} holds {quoted(unknown)}, which class_names lacks: add it.")
            return np.array([places[text] for text in texts])
        if values.dtype.kind not in "iufb":
            raise DataError(f"column {name!r} holds names: list them in class_names, in the order of their classes.")
        numbers: NDArray[Any] = values
        return numbers

    def _numbers(self, name: str) -> NDArray[np.float32]:
        values = self.values(name)
        if values.dtype.kind in "mM" or any(isinstance(value, (date, timedelta)) for value in values):
            raise DataError(
                f"column {name!r} holds dates or durations: turn them into a number (days since a fixed day), or name "
                "it in drop."
            )
        if values.dtype == object:
            values = np.where([_gap(value) for value in values], np.nan, values)
        try:
            if values.dtype.kind == "c":
                raise TypeError
            doubles = values.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"column {name!r} holds something that is no number: list its words in categories, or name it in drop."
            ) from None
        with np.errstate(over="ignore"):
            numbers = doubles.astype(np.float32)
        if len(large := doubles[np.isinf(numbers) & np.isfinite(doubles)]):
            raise DataError(
                f"column {name!r} holds {large[0]:g}, which single precision does not hold: use another unit."
            )
        return numbers

    def _coded(self, name: str, texts: NDArray[Any], words: list[str]) -> Iterator[NDArray[np.float32]]:
        if unknown := next((text for text in texts if text and text not in words), None):
            raise DataError(f"column {name!r} holds {quoted(unknown)}, which categories[{name!r}] lacks: add it.")
        return ((texts == word).astype(np.float32) for word in words)


def _gap(value: object) -> bool:
    return str(value).casefold() in GAPS


def _text(value: Any) -> str:
    """Returns a cell as a word; no word is a gap."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return "" if _gap(value) else str(value)
