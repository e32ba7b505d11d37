"""A run's folder: what was asked, what happened, the model, and where to go on after a crash.

    recipe.toml  run.json  metrics.jsonl  model.safetensors  certificate.json  ledger.db  checkpoint.safetensors

Every file is replaced whole (written aside, synced, renamed), so a crash leaves the old one or the new one.
"""

from __future__ import annotations

import fcntl
import io
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from sordino.account.certificate.certificate import Certificate
from sordino.errors import RecipeError
from sordino.layout import Layout
from sordino.mechanism import Knobs
from sordino.runs.client_store import ClientStore
from sordino.runs.files import writing


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands after a round."""

    round_: int
    weights: Tensor
    knobs: Knobs
    public: Mapping[str, float]
    stopped: str | None = None
    why: str = ""


@dataclass(frozen=True)
class RunFolder:
    """Reads and writes the files of one run."""

    path: Path

    @property
    def ledger(self) -> Path:
        """The run's own ledger."""
        return self.path / "ledger.db"

    @property
    def store(self) -> Path:
        """Private rows of clients that keep state."""
        return self.path / "clients.f32"

    def create(self, recipe_toml: str, facts: Mapping[str, Any]) -> None:
        """Makes the folder of a new run."""
        if (self.path / "run.json").exists():
            raise RecipeError(f"--out {self.path} already holds a run: add --resume, or name another folder")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecipeError(f"--out {self.path} cannot be made ({error.strerror}): name another folder") from None
        self._replace("recipe.toml", recipe_toml.encode())
        self._replace("run.json", json.dumps(facts, indent=2).encode())

    def facts(self) -> dict[str, Any]:
        """Returns what was fixed when the run began."""
        try:
            facts: dict[str, Any] = json.loads((self.path / "run.json").read_text())
        except (OSError, ValueError):
            raise RecipeError(f"{self.path} holds no run to resume: name a run folder, or leave out --resume") from None
        return facts

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lets nobody else play this run meanwhile; a process that is killed lets go of it."""
        with (self.path / "run.json").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RecipeError(
                    f"--out {self.path} is being played by another process: wait for it, or name another folder"
                ) from None
            yield

    def save(self, checkpoint: Checkpoint, store: ClientStore) -> None:
        """Writes a checkpoint durably; the store's pending rows become the clients' rows with it."""
        slots = store.commit()
        tensors = {"weights": checkpoint.weights, **{f"knob/{k}": v for k, v in checkpoint.knobs.items()}}
        tensors["store/clients"] = torch.from_numpy(np.fromiter(slots.keys(), np.int64, len(slots)))
        tensors["store/slots"] = torch.from_numpy(np.fromiter(slots.values(), np.int64, len(slots)))
        about = {"round": checkpoint.round_, "public": dict(checkpoint.public), "stopped": checkpoint.stopped}
        about |= {"why": checkpoint.why, "width": store.width}
        data = save({k: v.contiguous() for k, v in tensors.items()}, {"about": json.dumps(about)})
        self._replace("checkpoint.safetensors", data)

    def load(self, store: ClientStore) -> Checkpoint | None:
        """Returns the last checkpoint, and brings the store back to it; None when the run has not got that far."""
        path = self.path / "checkpoint.safetensors"
        if not path.exists():
            return None
        data = path.read_bytes()
        # copies, since views into a file's bytes are not aligned and matrix products round differently there
        tensors = {name: tensor.clone() for name, tensor in load(data).items()}
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        about = json.loads(header["__metadata__"]["about"])
        store.restore(tensors["store/clients"].numpy(), tensors["store/slots"].numpy(), about["width"])
        knobs = {name.removeprefix("knob/"): t for name, t in tensors.items() if name.startswith("knob/")}
        return Checkpoint(about["round"], tensors["weights"], knobs, about["public"], about["stopped"], about["why"])

    def save_model(self, layout: Layout, weights: Tensor) -> None:
        """Writes the global model, one tensor a component."""
        tensors = {name: tensor.clone() for name, tensor in layout.unflatten(weights).items()}
        self._replace("model.safetensors", save(tensors))

    def save_certificate(self, certificate: Certificate) -> None:
        """Writes the certificate."""
        self._replace("certificate.json", certificate.to_json().encode())

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Appends one line of metrics; a number that is not finite is written as null."""
        path = self.path / "metrics.jsonl"
        with writing(path), path.open("a") as file:
            file.write(_line(metrics))

    def metrics(self) -> list[dict[str, Any]]:
        """Returns all metrics so far; a line that a crash cut short is left out.

        Raises:
            RecipeError: the file holds something else.
        """
        path, lines = self.path / "metrics.jsonl", list[dict[str, Any]]()
        for line in path.read_bytes().splitlines() if path.exists() else []:
            try:
                told = json.loads(line.decode())
            except UnicodeDecodeError:
                raise damaged(path, len(lines) + 1) from None
            except ValueError:
                break
            if not isinstance(told, dict) or not isinstance(told.get("round"), int):
                raise damaged(path, len(lines) + 1)
            lines.append(told | ({"loss": math.nan} if told.get("diverged") else {}))
        return lines

    def note(self, round_: int, notes: Mapping[str, Tensor]) -> None:
        """Adds private numbers of one round to `notes.npz`: for each name one entry a round, and `round`."""
        path, kept = self.path / "notes.npz", dict[str, Any]()
        if path.exists():
            with np.load(path, allow_pickle=False) as old:
                earlier = old["round"] < round_  # a round that is played again is not told twice
                kept = {name: old[name][earlier] for name in old.files}
        now = {"round": np.array([round_])} | {name: value.numpy()[None] for name, value in notes.items()}
        told: dict[str, Any] = {name: np.concatenate([kept.get(name, new[:0]), new]) for name, new in now.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **told)
        self._replace("notes.npz", buffer.getvalue())

    def rewind(self, round_: int) -> None:
        """Drops metrics of rounds after `round_`, which will be played again."""
        kept = [line for line in self.metrics() if line["round"] <= round_]
        self._replace("metrics.jsonl", "".join(map(_line, kept)).encode())

    def _replace(self, name: str, data: bytes) -> None:
        aside = self.path / f".{name}.new"
        with writing(self.path / name):
            try:
                with aside.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                aside.replace(self.path / name)
            except OSError:
                aside.unlink(missing_ok=True)
                raise
            handle = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _line(metrics: Mapping[str, Any]) -> str:
    loss = metrics.get("loss")
    told = metrics if loss is None or math.isfinite(loss) else {**metrics, "diverged": True}
    return json.dumps(_finite(told), allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def damaged(path: Path, line: int, what: str = "") -> RecipeError:
    """Returns the sentence for a line of metrics that no run wrote."""
    where = f"line {line} ({what})" if what else f"line {line}"
    return RecipeError(f"{path} is damaged in {where}: bring the file back, or cut it off before that line")
