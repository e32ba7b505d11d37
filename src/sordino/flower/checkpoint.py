"""Where a private Flower run stands after a round, on disk: a ServerApp that is started again goes on from there.

Flower keeps the state of a ServerApp only at its end. With `sordino.checkpoint = "run.ckpt"` the model, the knobs, the
wrapped strategy's own arrays (momentum, Adam's moments) and the round are written after each round, and the number of
a round before anybody is asked in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecords
from flwr.serverapp.strategy import Strategy
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from torch import Tensor

from sordino.errors import RecipeError
from sordino.files import PRIVATE, replace_file

_OWN = "strategy/"
_NUMBERS = (np.ndarray, np.generic)
"""What arithmetic on arrays returns: for 0-d ones, scalars."""


@dataclass(frozen=True, eq=False)
class RunCheckpoint:
    """A run after its last finished round.

    **Formal guarantees**: it is replaced whole and synced. A round that was announced and not finished counts as played
    (`announced`): it is paid for and never asked again, so that a run that is killed has no more releases than planned.
    """

    run: str
    rounds: int
    """Rounds that the run was begun with."""
    settings: str
    """What was declared, as JSON: a run goes on under the same settings, or not at all."""
    round_: int
    """The last round that was finished."""
    head: str
    """The ledger's head then: an older copy of the ledger is refused."""
    nodes: tuple[int, ...]
    arrays: ArrayRecord
    knobs: Mapping[str, Tensor]
    memory: Mapping[str, Tensor]
    own: Mapping[str, Any]
    """Arrays that the wrapped strategy keeps between rounds, by attribute."""

    def save(self, path: Path) -> None:
        """Writes it in place of the last one."""
        about = {"run": self.run, "rounds": self.rounds, "settings": self.settings, "round": self.round_}
        kinds = {name: _kind(value) for name, value in self.own.items()}
        told = json.dumps(about | {"head": self.head, "nodes": self.nodes, "own": kinds})
        records: dict[str, Any] = {"about": ConfigRecord({"told": told}), "model": self.arrays}
        records |= {"knobs": _tensors(self.knobs), "memory": _tensors(self.memory)}
        records |= {_OWN + name: _arrays(value) for name, value in self.own.items()}
        replace_file(path, recorddict_to_proto(RecordDict(records)).SerializeToString(), PRIVATE)

    @classmethod
    def load(cls, path: Path) -> RunCheckpoint | None:
        """Returns the run that a file holds; None where there is no file.

        Raises:
            RecipeError: it holds something else.
        """
        if not path.exists():
            return None
        try:
            records = recorddict_from_proto(ProtoRecords.FromString(path.read_bytes()))
            about = json.loads(str(records.config_records["about"]["told"]))
            arrays = records.array_records
            own = {name: _value(kind, arrays[_OWN + name]) for name, kind in about["own"].items()}
            return cls(
                about["run"],
                about["rounds"],
                about["settings"],
                about["round"],
                about["head"],
                tuple(about["nodes"]),
                arrays["model"],
                _loaded(arrays["knobs"]),
                _loaded(arrays["memory"]),
                own,
            )
        except (DecodeError, LookupError, ValueError, TypeError):
            raise RecipeError(
                f"sordino.checkpoint {path} is not a run's: restore it, or name another file to begin anew"
            ) from None

    def announced(self, path: Path) -> int:
        """Returns the last round in which anybody may have been asked."""
        try:
            told = json.loads(_beside(path).read_text())
            return max(self.round_, int(told["round"])) if told["run"] == self.run else self.round_
        except FileNotFoundError:
            return self.round_


def announce(path: Path, run: str, round_: int) -> None:
    """Writes down that a round is about to be paid for and announced."""
    replace_file(_beside(path), json.dumps({"run": run, "round": round_}).encode(), PRIVATE)


def kept_by(strategy: Strategy) -> dict[str, Any]:
    """Returns the arrays that a strategy keeps between rounds, by attribute: by name, in a list, or as a record."""
    return {name: value for name, value in vars(strategy).items() if _kind(value)}


def give_back(strategy: Strategy, own: Mapping[str, Any]) -> None:
    """Puts arrays back where `kept_by` found them."""
    vars(strategy).update(own)


def _kind(value: Any) -> str:
    if isinstance(value, ArrayRecord):
        return "record"
    if isinstance(value, _NUMBERS):
        return "array"
    if isinstance(value, dict) and value and all(isinstance(part, _NUMBERS) for part in value.values()):
        return "names"
    if isinstance(value, list) and value and all(isinstance(part, _NUMBERS) for part in value):
        return "list"
    return ""


def _arrays(value: Any) -> ArrayRecord:
    if isinstance(value, ArrayRecord):
        return value
    parts = value if isinstance(value, dict) else dict(enumerate(value if isinstance(value, list) else [value]))
    return ArrayRecord({str(name): Array(np.asarray(part)) for name, part in parts.items()})


def _value(kind: str, record: ArrayRecord) -> Any:
    if kind == "record":
        return record
    parts = {name: array.numpy().copy() for name, array in record.items()}
    return parts if kind == "names" else list(parts.values()) if kind == "list" else parts["0"]


def _tensors(named: Mapping[str, Tensor]) -> ArrayRecord:
    return ArrayRecord({name: Array(tensor.numpy()) for name, tensor in named.items()})


def _loaded(record: ArrayRecord) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.announced")
