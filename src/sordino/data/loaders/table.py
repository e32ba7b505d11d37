"""Delimited text, read so that every complaint names the file, the line and the column."""

from __future__ import annotations

import csv
import math
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from sordino.data.keyed import key
from sordino.data.records import Records, split_people
from sordino.errors import DataError
from sordino.printable import counted, listed, quoted


@dataclass(frozen=True)
class TableRow:
    """One line of a table, with its place."""

    path: Path
    line: int
    fields: list[str]

    def number(self, index: int, name: str) -> float:
        """Returns a field as a finite number."""
        try:
            value = float(self.fields[index])
        except ValueError:
            raise self.error(name, f"is {quoted(self.fields[index])}; encode it as a number") from None
        if not math.isfinite(value):
            raise self.error(name, f"is {value}; remove the line or fill the value in")
        return value

    def choice(self, index: int, name: str, values: Sequence[str]) -> int:
        """Returns the position of a field among the values that it may have."""
        try:
            return values.index(self.fields[index])
        except ValueError:
            raise self.error(name, f"is {quoted(self.fields[index])}; it must be one of {listed(values)}") from None

    def error(self, name: str, complaint: str) -> DataError:
        return DataError(f"{self.path}, line {self.line}: column {listed([name])} {complaint}.")


def rows(path: Path, width: int | None = None, comment: str = "|", separator: str = ",") -> Iterator[TableRow]:
    """Yields the lines of a table, without empty ones and those that begin with the comment sign.

    **Edge cases**: a line of another width than `width` (or than the first) is refused, and so is text that is not
    UTF-8: a character that was replaced could make two owners one.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing; put it there.")
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=separator, skipinitialspace=separator != "\t")
        ended = 0
        try:
            for fields in reader:
                began, ended = ended + 1, reader.line_num
                if not any(map(str.strip, fields)) or fields[0].startswith(comment):
                    continue
                row = TableRow(path, reader.line_num, [field.strip() for field in fields])
                width = width or len(fields)
                if len(fields) != width:
                    raise DataError(
                        f"{path}, line {began} has {counted(len(fields), 'column')} where {width} are expected"
                        + (f': a quote (") opens there and goes on to line {ended}.' if began < ended else ".")
                    )
                yield row
        except UnicodeDecodeError:
            code = "utf16" if path.read_bytes()[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "latin1"
            raise DataError(f"{path} is not text in UTF-8: save it as UTF-8 (iconv -f {code} -t utf8).") from None
        except csv.Error as error:
            raise DataError(f"{path}, line {reader.line_num} cannot be read ({error}): correct it.") from None


def separator_of(path: Path) -> str:
    """Returns what parts the cells of a table: of `,`, `;`, tab and `|` the one that its header has most often."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = file.readline()
    except UnicodeDecodeError:
        return ","  # `rows` says what is wrong
    return max(",;\t|", key=header.count)


def hold_out(records: Records, share: float, name: str) -> Records:
    """Sets a fixed random share of the training records aside as the test set (the same in every run).

    Where the data names owners, it is a share of them with all their records.
    """
    kept, aside = split_people(len(records.train_y), records.owners, share, key(0, name), "data.test")
    return Records(
        records.train_x[kept],
        records.train_y[kept],
        records.train_x[aside],
        records.train_y[aside],
        records.classes,
        None if records.owners is None else records.owners[kept.numpy()],
        records.columns,
        records.coded,
    )


def unsplit(
    x: list[list[float]],
    y: list[int] | list[float],
    classes: int,
    owners: list[str] | None,
    columns: tuple[str, ...] = (),
    coded: int = 0,
) -> Records:
    """Makes records without a test set from python lists."""
    inputs = torch.tensor(x, dtype=torch.float32)
    targets = torch.tensor(y, dtype=torch.int64 if classes else torch.float32)
    names = None if owners is None else np.array(owners)
    return Records(inputs, targets, inputs[:0], targets[:0], classes, names, columns, coded)
