"""UCI Adult (census income), in a fixed public encoding."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sordino.data.loaders.table import TableRow, rows
from sordino.data.records import Records
from sordino.errors import DataError
from sordino.types import IntArray

# The domains that adult.names prints.
_CATEGORIES = {
    "workclass": "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, "
    "Never-worked",
    "education": "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, "
    "Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool",
    "marital-status": "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, "
    "Married-AF-spouse",
    "occupation": "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, "
    "Handlers-cleaners, Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, Priv-house-serv, "
    "Protective-serv, Armed-Forces",
    "relationship": "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried",
    "race": "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black",
    "sex": "Female, Male",
    "native-country": "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), "
    "India, Japan, Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, "
    "Portugal, Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, Guatemala, "
    "Nicaragua, Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, Holand-Netherlands",
}
_VALUES = {name: tuple(text.split(", ")) for name, text in _CATEGORIES.items()}
_PLACES = dict(zip(_CATEGORIES, (1, 3, 5, 6, 7, 8, 9, 13), strict=True))
_LABELS = ("<=50K", ">50K")
_WIDTH = 15
# The census codes incomes up to 99,999, ages from 17 to 90, and hours up to 99.
_TOP_INCOME, _AGES, _HOURS, _SCHOOLING = math.log1p(99_999), (17, 90), 99, 16


def adult(folder: Path) -> Records:
    """Returns 104 features in [0, 1] and whether income exceeds 50,000 dollars.

    8 attributes become 99 indicators; age, schooling, weekly hours, and the logarithms of capital gain and loss are
    divided by constants. `fnlwgt`, a survey weight, is left out. Unknown ("?") is no indicator at all.
    """
    train, test = _read(folder / "adult.data"), _read(folder / "adult.test")
    return Records(*train, *test, classes=2)


def _read(path: Path) -> tuple[Tensor, Tensor]:
    amounts, chosen, labels = [], [], []
    for row in rows(path, _WIDTH):
        amounts.append(_amounts(row))
        chosen.append([row.choice(place, name, ("?", *_VALUES[name])) - 1 for name, place in _PLACES.items()])
        row.fields[-1] = row.fields[-1].removesuffix(".")  # the test file ends its labels with a full stop
        labels.append(row.choice(_WIDTH - 1, "income", _LABELS))
    if not labels:
        raise DataError(f"{path} has no records; get it again from its source.")
    numbers = torch.tensor(amounts, dtype=torch.float32).clamp(0, 1)
    return torch.cat([numbers, _indicators(np.array(chosen))], 1), torch.tensor(labels)


def _amounts(row: TableRow) -> list[float]:
    youngest, oldest = _AGES
    return [
        (row.number(0, "age") - youngest) / (oldest - youngest),
        row.number(4, "education-num") / _SCHOOLING,
        math.log1p(max(0.0, row.number(10, "capital-gain"))) / _TOP_INCOME,
        math.log1p(max(0.0, row.number(11, "capital-loss"))) / _TOP_INCOME,
        row.number(12, "hours-per-week") / _HOURS,
    ]


def _indicators(chosen: IntArray) -> Tensor:
    widths = np.array([len(values) for values in _VALUES.values()])
    out = np.zeros((len(chosen), int(widths.sum())), np.float32)
    known, attribute = np.nonzero(chosen >= 0)
    out[known, (np.cumsum(widths) - widths)[attribute] + chosen[known, attribute]] = 1.0
    return torch.from_numpy(out)
