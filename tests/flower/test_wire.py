"""What travels: read back as it was written, through Flower's own bytes, and refused where it is malformed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto

from flower.in_process import record
from sordino.errors import ProtocolError
from sordino.flower.wire import UPDATE, FlowerTerms, PrivateReply

TERMS = FlowerTerms(3, "local", 0.5, 2.0, True)


def travelled(content: RecordDict) -> RecordDict:
    return recorddict_from_proto(recorddict_to_proto(content))


def test_terms_and_replies_come_back_as_they_were() -> None:
    assert FlowerTerms.unpack(travelled(RecordDict({"sordino": TERMS.pack()}))) == TERMS
    row = torch.tensor([1.5, -0.25, 0.0])
    back = PrivateReply.unpack(travelled(PrivateReply(3, row, 4.0, True).pack()), 3)
    assert torch.equal(back.update, row)
    assert (back.round_, back.squared_multiplier, back.unclipped) == (3, 4.0, True)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"format": 2}, "format 2, not 1"),
        ({"round": "first"}, "cannot be read"),
        ({"clip-norm": math.nan}, "no finite clip norm"),
        ({"clip-norm": math.inf}, "no finite clip norm"),
        ({"clip-norm": 0.0}, "no finite clip norm"),
        ({"noise-multiplier": 0.0}, "noise above 0"),
        ({"noise-multiplier": -1.0}, "noise above 0"),
    ],
)
def test_terms_that_no_round_can_mean_are_refused(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ProtocolError, match=sentence):
        FlowerTerms.unpack(RecordDict({"sordino": ConfigRecord({**TERMS.pack(), **changed})}))


def test_terms_with_something_missing_are_refused() -> None:
    told = ConfigRecord({name: value for name, value in TERMS.pack().items() if name != "trust"})
    with pytest.raises(ProtocolError, match="trust"):
        FlowerTerms.unpack(RecordDict({"sordino": told}))


@pytest.mark.parametrize(
    "row", [np.zeros(4, np.float32), np.zeros((3, 1), np.float32), np.zeros(3), np.zeros(3, np.int64)]
)
def test_rows_of_another_model_are_refused(row: Any) -> None:
    content = PrivateReply(1, torch.zeros(3), 0.0, False).pack()
    content[UPDATE] = record({"update": row})
    with pytest.raises(ProtocolError, match="the model 3 numbers"):
        PrivateReply.unpack(content, 3)


def test_a_reply_without_its_row_is_refused() -> None:
    content = PrivateReply(1, torch.zeros(3), 0.0, False).pack()
    del content[UPDATE]
    with pytest.raises(ProtocolError, match="cannot be read"):
        PrivateReply.unpack(content, 3)
