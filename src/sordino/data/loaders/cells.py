"""What stands in a cell of somebody's table: a number, a gap, or one of the words that were declared for its column."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sordino.errors import DataError
from sordino.printable import LONG, listed, quoted, toml_key

Missing = Literal["refuse", "middle", "leave_out"]
"""What becomes of a gap: it is refused, it counts as the middle of its declared range, or its record is left out."""
Decimal = Literal["auto", ".", ","]
"""The decimal mark of numbers; `auto` takes a comma for one where cells are parted by something else."""
GAPS = frozenset({"", "?", "-", ".", "na", "n/a", "nan", "null", "none", "<na>", "nat"})
"""What people write where a value is missing, in small letters."""
LARGEST = 3.4028234e38
"""The largest number of single precision, rounded down."""
CORRECT = "correct it, or leave the line out"
"""What to do about a cell that cannot be meant."""
FEW = 12
"""A column of no more words than this is proposed as categories."""

_COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


@dataclass
class NumberReader:
    """Reads numbers of one file.

    **Formal guarantees**: a comma is a decimal mark throughout a file or nowhere in it, and 1,234 is never guessed at.
    """

    separator: str = ","
    decimal: Decimal = "auto"
    marks: set[str] = field(default_factory=set)
    """Decimal marks that were met so far."""

    def read(self, text: str) -> float | None:
        """Returns the number, or None where the text is none.

        Raises:
            DataError: the end of a sentence that says what is doubtful.
        """
        comma = bool(_COMMA.fullmatch(text)) and self.decimal != "." and (self.separator != "," or self.decimal == ",")
        if comma and self.decimal == "auto" and _THOUSANDS.fullmatch(text):
            raise DataError(f'is {text!r}, which may be {text.replace(",", "")} or {text.replace(",", ".")}: set '
                            'data.decimal = "," if the comma is a decimal one, else write it without')  # fmt: skip
        try:
            value = float(text.replace(",", ".") if comma else text)
        except ValueError:
            return None
        if comma or "." in text:
            self.marks.add("," if comma else ".")
        if len(self.marks) > 1:
            raise DataError(f"is {quoted(text)}, and others of this file have another decimal mark: write them alike")
        return value


@dataclass(frozen=True)
class Columns:
    """The features of a table: columns of numbers, then those of words with one feature a declared word.

    **Formal guarantees**: a record's features depend on that record and on what is declared, and on nothing else.
    """

    numbers: tuple[str, ...]
    categories: Mapping[str, Sequence[str]]
    missing: Missing = "refuse"

    @classmethod
    def of(cls, names: Sequence[str], categories: Mapping[str, Sequence[str]], missing: Missing) -> Columns:
        """Returns the features of the columns with these names.

        Raises:
            DataError: categories are declared for a column that is not there, or are not distinct words.
        """
        for name, words in categories.items():
            if name not in names:
                there = listed(names)
                raise DataError(f"data.categories names {quoted(name)}, which is no feature column: there are {there}.")
            if isinstance(words, str) or len(set(words)) != len(words) or not words:
                raise DataError(f"data.categories.{name} is {quoted(words)}: list each of its words once.")
        return cls(tuple(name for name in names if name not in categories), dict(categories), missing)

    @property
    def names(self) -> tuple[str, ...]:
        """What the features are called."""
        return (*self.numbers, *(f"{name}={word}" for name, words in self.categories.items() for word in words))

    @property
    def coded(self) -> int:
        """How many features, the last ones, stand for words."""
        return sum(map(len, self.categories.values()))

    def gaps(self, cells: Mapping[str, str]) -> list[str]:
        """Returns the columns in which a record has no value."""
        return self.gaps_of({name: [text] for name, text in cells.items()})

    def gaps_of(self, cells: Mapping[str, Sequence[str]]) -> list[str]:
        """Returns the columns in which a value is missing; a word that was declared is one, whatever it says."""
        names = (*self.numbers, *self.categories)
        return [n for n in names if any(gap(text) and text not in self.categories.get(n, ()) for text in cells[n])]

    def features(self, cells: Mapping[str, str], numbers: NumberReader) -> list[float] | None:
        """Returns the features of a record (a gap among numbers is NaN), or None if the record is to be left out.

        Raises:
            BadCell: a cell that is no number, no declared word, or a gap where gaps are refused.
        """
        if self.missing != "middle" and (gaps := self.gaps(cells)):
            if self.missing == "leave_out":
                return None
            raise BadCell(gaps[0], "")
        row = [_number(name, cells[name], numbers) for name in self.numbers]
        for name, words in self.categories.items():
            if cells[name] not in words and not gap(cells[name]):
                why = f"is {quoted(cells[name])}, which data.categories.{name} lacks: add it"
                raise BadCell(name, why)
            row += [float(cells[name] == word) for word in words]  # a gap is none of them
        return row


class BadCell(Exception):
    """A cell that cannot be read: the name of its column, and what is wrong (nothing: its kind, or a gap)."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name, self.why = name, why


def gap(text: str) -> bool:
    """Whether a cell holds no value."""
    return text.casefold() in GAPS


def remedies(columns: Columns, files: Sequence[tuple[str, Mapping[str, Sequence[str]]]], decimal: Decimal) -> str:
    """Returns what can be done about every column that holds words or gaps, all at once.

    Args:
        columns: the features.
        files: of each file what parts its cells, and what stands in each column.
        decimal: the decimal mark.
    """
    words = {name: _words(name, files, decimal) for name in columns.numbers}
    named = {name: sorted(found) for name, found in words.items() if found}
    told = []
    if named:
        few = {name: found for name, found in named.items() if len(found) <= FEW and max(map(len, found)) <= LONG}
        proposed = ", ".join(
            f"{toml_key(name)} = {json.dumps(found, ensure_ascii=False)}" for name, found in few.items()
        )
        lists = [f"data.categories lists its words ({proposed}, if these may be published)"] if few else []
        ways = ["data.client says whose record it is", *lists, "data.drop leaves it out"]
        told.append(f"for each column of words ({listed(list(named))}): {', or '.join(ways)}")
    gaps = {name for _, cells in files for name in columns.gaps_of(cells)}
    if gaps and columns.missing == "refuse":
        told.append(
            f'for gaps (in {listed(sorted(gaps))}): data.missing = "middle" counts them as the middle of the declared '
            'range, and "leave_out" leaves those records out'
        )
    return "; ".join(told)


def _words(name: str, files: Sequence[tuple[str, Mapping[str, Sequence[str]]]], decimal: Decimal) -> set[str]:
    found: set[str] = set()
    for separator, cells in files:
        numbers = NumberReader(separator, decimal)
        for text in cells[name]:
            try:
                if not gap(text) and numbers.read(text) is None:
                    found.add(text)
            except DataError:
                continue
            if len(found) > FEW:
                return found
    return found


def _number(name: str, text: str, numbers: NumberReader) -> float:
    if gap(text):
        return math.nan
    try:
        value = numbers.read(text)
    except DataError as error:
        raise BadCell(name, str(error)) from None
    if value is None:
        raise BadCell(name, "")
    if not math.isfinite(value):
        raise BadCell(name, f"is {quoted(text)}, which is infinite or too large: {CORRECT}")
    if abs(value) > LARGEST:
        raise BadCell(name, f"is {quoted(text)}, which single precision does not hold: use another unit")
    return value
