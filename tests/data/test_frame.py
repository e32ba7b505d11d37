"""Data frames as people have them: gaps in columns of every type, dates, names of columns; pandas' own where it is."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest

from sordino import Federation
from sordino.errors import DataError


class Frame(dict):
    """What is needed of a data frame: columns, and columns by name."""

    @property
    def columns(self) -> list[Any]:
        return list(self)


ALL = {"test": None, "client": None}


def table(**changed: Any) -> Frame:
    return Frame({"age": np.arange(6.0), "y": np.array([0, 1, 0, 1, 0, 1])} | changed)


def made(frame: Any, label: str = "y", **options: Any) -> Federation:
    return Federation.from_dataframe(frame, label, **ALL | options)


NO_NUMBER = "column 'extra' holds something that is no number"
DATES = "column 'extra' holds dates or durations: turn them into a number"


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (np.array(["2020-01-01"] * 6, "datetime64[ns]"), DATES),
        (np.array([1] * 6, "timedelta64[D]"), DATES),
        ([None, *[date(2020, 1, 1)] * 5], DATES),
        (np.full(6, 1j), NO_NUMBER),
        ([[1, 2]] * 6, NO_NUMBER),
        ([1.0, 2.0, 3.0, 4.0, 5.0, "six"], NO_NUMBER),
        (np.full(6, 1e300), r"column 'extra' holds 1e\+300, which single precision does not hold"),
        ([True, None, False, True, True, True], r"record 1 has a gap \(1 in all have\)"),
    ],
)
def test_what_is_no_number_is_never_made_one(column: Any, sentence: str) -> None:
    values = column if isinstance(column, np.ndarray) else np.fromiter(column, object, len(column))
    with pytest.raises(DataError, match=sentence):
        made(table(extra=values))


def test_gaps_of_objects_are_gaps() -> None:
    kept = made(table(extra=np.array([True, None, "n/a", 4, 5.5, False], object)), missing="leave_out")
    assert kept.train_x[:, 1].tolist() == [1.0, 4.0, 5.5, 0.0] and kept.train_y.tolist() == [0, 1, 0, 1]


def test_a_whole_number_beside_gaps_is_the_word_that_it_is_without_them() -> None:
    """A library makes 1.0 of a 1 where the column has a gap, and the declared word is '1', or 1."""
    for words in (["1", "2"], [1, 2]):
        frame = table(ward=np.array([1.0, 2.0, 1.0, np.nan, 2.0, 2.0]))
        coded = made(frame, categories={"ward": words}, missing="leave_out").train_x[:, 1:]
        assert coded.tolist() == [[1, 0], [0, 1], [1, 0], [0, 1], [0, 1]]
    named = made(table(y=np.array([True, False] * 3)), class_names=["False", "True"])
    assert named.train_y.tolist() == [1, 0] * 3 and named.classes == 2


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (np.zeros((3, 2)), "this is a ndarray and no data frame"),
        ({"age": [1.0]}, "this is a dict and no data frame"),
        (table(age=np.zeros(0), y=np.zeros(0, int)), "the data frame has no records"),
        (table(age=np.full(6, np.nan)), "every record of the data frame has a gap"),
        (table(y=np.array([0, 1, np.nan, 1, 0, np.nan])), r"column 'y': record 2 has no label \(2 in all\)"),
        (table(y=np.array(["a", None, "a", "a", "a", "a"], object)), r"column 'y': record 1 has no label"),
    ],
)
def test_what_is_no_table_of_records_is_one_sentence(frame: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        made(frame, missing="leave_out")


def test_a_label_is_asked_for_only_of_records_that_are_kept() -> None:
    frame = table(age=np.array([0, np.nan, 2, 3, 4, 5]), y=np.array([0, np.nan, 0, 1, 0, 1]))
    assert made(frame, missing="leave_out", classes=0).train_y.tolist() == [0, 0, 1, 0, 1]


def test_names_of_columns_may_be_numbers_and_stand_once() -> None:
    numbered = Frame({0: np.arange(6.0), 1: np.array([0, 1] * 3)})
    assert made(numbered, "1").train_x[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(DataError, match="two columns named '0'"):
        made(Frame({0: np.arange(6.0), "0": np.arange(6.0), "y": np.array([0, 1] * 3)}))


def test_pandas_own_types() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: its own types are tried where it is")
    frame = pandas.DataFrame({"age": pandas.array([1, None, 3, 4], dtype="Int64"), "y": [0, 1, 0, 1]})
    frame["smokes"] = pandas.array([True, False, None, True], dtype="boolean")
    frame["sex"] = pandas.Categorical(["m", "f", "f", "f"])
    frame["ward"] = pandas.array(["a", "b", "b", "a"], dtype="string")
    frame["weight"] = pandas.array([70.5, 80.0, 90.0, 60.0], dtype="Float64")
    words = {"sex": ["f", "m"]}
    kept = made(frame, client="ward", categories=words, missing="leave_out")
    assert kept.train_x.tolist() == [[1, 1, 70.5, 0, 1], [4, 1, 60, 1, 0]] and list(kept.names) == ["a"]
    for when in (pandas.Timestamp("2020-01-01"), pandas.Timestamp("2020-01-01", tz="UTC"), pandas.Timedelta(days=1)):
        with pytest.raises(DataError, match="column 'when' holds dates or durations"):
            made(frame.assign(when=when), categories=words, drop=["ward"], missing="leave_out")
    with pytest.raises(DataError, match="two columns named 'y'"):
        made(pandas.DataFrame([[1, 2]], columns=["y", "y"]))


def test_columns_by_another_kind_of_name() -> None:
    frame = Frame({1: np.arange(6.0), ("a", "y"): np.array([0, 1] * 3)})
    assert made(frame, ("a", "y")).train_x[:, 0].tolist() == [0, 1, 2, 3, 4, 5]  # type: ignore[arg-type]
    assert made(Frame({0: np.arange(6.0), 1: np.array([0, 1] * 3)}), 1).classes == 2  # type: ignore[arg-type]
    with pytest.raises(DataError, match="label and client both name the column 'y'"):
        made(table(y=np.array([0, 1] * 3)), client="y")
    with pytest.raises(DataError, match="drop names the column 'y', which is the label"):
        made(table(y=np.array([0, 1] * 3)), drop="y")


class Lazy:
    """Like a lazy frame of polars: columns by name, but no rows yet."""

    columns = ("age", "y")


def test_frames_that_hold_no_rows_yet_are_named() -> None:
    with pytest.raises(DataError, match="this is a Lazy, which holds no rows yet: call collect"):
        made(Lazy())


def test_an_arrow_table_goes_by_its_column_names() -> None:
    class Arrow(Frame):
        column_names = ("age", "y")

        @property
        def columns(self) -> list[Any]:  # type: ignore[override]
            return list(self.values())

    frame = Arrow({"age": np.arange(6.0), "y": np.array([0, 1] * 3)})
    frame.column_names = ["age", "y"]  # type: ignore[assignment]
    assert made(frame).columns == ("age",)


def test_a_column_of_the_index_is_named_as_one() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: its own types are tried where it is")
    frame = pandas.DataFrame({"age": [1.0, 2.0], "ward": ["a", "b"], "y": [0, 1]}).set_index("ward")
    with pytest.raises(DataError, match=r"no column 'ward' .it is in the index: call reset_index"):
        made(frame, client="ward")


@pytest.mark.parametrize("ends", [5, (1,), (1, 2, 3), ("low", "high"), None])
def test_a_range_has_two_ends(ends: Any) -> None:
    with pytest.raises(DataError, match=r"public.ranges.age is .*: give its lowest and its highest value"):
        made(table(age=np.arange(6.0), y=np.array([0, 1] * 3)), ranges={"age": ends})
