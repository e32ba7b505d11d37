"""Two small sets with a person for each client: WISDM (activity, 36 people) and Parkinson's voices (42 people)."""

from __future__ import annotations

from pathlib import Path

from sordino.data.loaders.table import TableRow, hold_out, rows, unsplit
from sordino.data.records import Records
from sordino.errors import DataError

_TEST_SHARE = 0.2

ACTIVITIES = ("Downstairs", "Jogging", "Sitting", "Standing", "Upstairs", "Walking")
_WISDM_WIDTH, _WISDM_BINS = 46, 30
_METRES_PER_SECOND_SQUARED, _MILLISECONDS = 10.0, 5000.0
_WISDM_SCALES = [1.0] * _WISDM_BINS + [_METRES_PER_SECOND_SQUARED] * 3 + [_MILLISECONDS] * 3
_WISDM_SCALES += [_METRES_PER_SECOND_SQUARED] * 7

# name: usual value, usual spread. Round figures for voices, not statistics of this data.
_VOICE = {
    "age": (65, 10),
    "sex": (0, 1),
    "test_time": (90, 90),
    "Jitter(%)": (0.005, 0.005),
    "Jitter(Abs)": (5e-5, 5e-5),
    "Jitter:RAP": (0.003, 0.003),
    "Jitter:PPQ5": (0.003, 0.003),
    "Jitter:DDP": (0.01, 0.01),
    "Shimmer": (0.03, 0.03),
    "Shimmer(dB)": (0.3, 0.3),
    "Shimmer:APQ3": (0.02, 0.02),
    "Shimmer:APQ5": (0.02, 0.02),
    "Shimmer:APQ11": (0.03, 0.03),
    "Shimmer:DDA": (0.05, 0.05),
    "NHR": (0.03, 0.03),
    "HNR": (20, 5),
    "RPDE": (0.5, 0.1),
    "DFA": (0.65, 0.1),
    "PPE": (0.2, 0.1),
}
_FULL_SCORE = {"total": 176.0, "motor": 108.0}
_FARTHEST = 5.0
"""Voice measures have long tails: what lies farther out than so many spreads is moved in."""


def wisdm(folder: Path) -> Records:
    """Returns 43 features of ten-second windows, the activity, and the person as owner.

    A peak distance that was not to be found ("?") is 0. A fixed random fifth of the people is the test set.
    """
    features, labels, people = [], [], []
    for row in rows(folder / "WISDM_ar_v1.1_transformed.arff", comment="@", width=_WISDM_WIDTH):
        features.append([_reading(row, 2 + i) / scale for i, scale in enumerate(_WISDM_SCALES)])
        labels.append(row.choice(_WISDM_WIDTH - 1, "class", ACTIVITIES))
        people.append(row.fields[1])
    return hold_out(unsplit(features, labels, len(ACTIVITIES), people), _TEST_SHARE, "wisdm")


def _reading(row: TableRow, index: int) -> float:
    return 0.0 if row.fields[index] == "?" else row.number(index, str(index + 1))


def parkinsons(folder: Path, score: str = "total") -> Records:
    """Returns 19 voice features, the UPDRS score (`total` or `motor`) as a share of the full score, and the person.

    Regression. A fixed random fifth of the people is the test set.
    """
    if score not in _FULL_SCORE:
        raise DataError(f"data.score is {score!r}: use total or motor.")
    table = rows(folder / "parkinsons_updrs.data")
    columns = {name: i for i, name in enumerate(next(table).fields)}
    features, targets, people = [], [], []
    for row in table:
        measured = [(row.number(columns[name], name) - mid) / spread for name, (mid, spread) in _VOICE.items()]
        features.append([max(-_FARTHEST, min(_FARTHEST, value)) for value in measured])
        targets.append(row.number(columns[f"{score}_UPDRS"], f"{score}_UPDRS") / _FULL_SCORE[score])
        people.append(f"{int(row.number(columns['subject#'], 'subject#')):02d}")
    return hold_out(unsplit(features, targets, 0, people), _TEST_SHARE, "parkinsons")
