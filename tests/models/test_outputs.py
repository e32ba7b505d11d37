"""A model that does not fit the labels is one sentence, before anything is written."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sordino
from sordino.data.federation import Federation
from sordino.errors import ModelError
from sordino.models import check_outputs


@pytest.mark.parametrize(
    ("outputs", "labels", "says"),
    [
        (2, torch.arange(60) % 3, "there are 3 classes"),
        (3, torch.arange(60) % 3 + 1, "there are 4 classes, numbered from 0"),
        (3, (torch.arange(60) % 3).float(), "1 numbers are to be predicted"),
        (1, torch.ones(60, 2), "2 numbers are to be predicted"),
    ],
)
def test_labels_that_the_model_cannot_name_are_refused_before_anything_is_written(
    outputs, labels, says, tmp_path
) -> None:
    own = Federation.of(torch.randn(60, 4), labels)
    own = own.declare(own.proposed())
    with pytest.raises(ModelError, match=says):
        sordino.run(model=nn.Linear(4, outputs), federation=own, run={"rounds": 1}, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_what_fits_is_let_through() -> None:
    check_outputs(nn.Linear(4, 3), (4,), 3, ())
    check_outputs(nn.Linear(4, 5), (4,), 3, ())
    check_outputs(nn.Linear(4, 1), (4,), 0, ())
    check_outputs(nn.Linear(4, 2), (4,), 0, (2,))
