"""A run's folder: what everybody may see, and what only the one who ran it may.

    public/   (0755, files 0644)  model.safetensors  certificate.json  metrics.jsonl  recipe.toml  heads.jsonl
                                  scores.json (where the test records are public)
    private/  (0700, files 0600)  ledger.db  recipe.toml  run.json  checkpoint.safetensors  metrics.jsonl
                                  certificate.json  clients.f32  notes.npz  scores.json

What is public was released or was fixed beforehand, and is covered by the certificate; everything else is private:
seed, cohorts, exact losses on private records, clip fractions, costs by client, timings, clients' rows.
Every file is replaced whole (written aside, synced, renamed), so a crash leaves the old one or the new one. Files are
made with their permissions, never opened up or closed afterwards; a stricter umask makes them stricter.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save
from torch import Tensor

from sordino import strict_json
from sordino.account.certificate.certificate import Certificate
from sordino.account.certificate.document import CertificateDocument
from sordino.errors import RecipeError
from sordino.files import PRIVATE, PUBLIC, append_line, make_folder, replace_file
from sordino.opening.feature_map import FeatureMap
from sordino.recipe import Recipe
from sordino.runs.checkpoint import Checkpoint, about
from sordino.runs.client_store import ClientStore
from sordino.runs.public import public_recipe


@dataclass(frozen=True)
class RunFolder:
    """Reads and writes the files of one run."""

    path: Path

    @cached_property
    def public(self) -> Path:
        """What everybody may see."""
        return self.path / "public"

    @cached_property
    def private(self) -> Path:
        """What only the one who ran it may see."""
        return self.path / "private"

    @cached_property
    def ledger(self) -> Path:
        """The run's own ledger."""
        return self.private / "ledger.db"

    @cached_property
    def heads(self) -> Path:
        """Where the heads of the run's own ledger are published."""
        return self.public / "heads.jsonl"

    @cached_property
    def store(self) -> Path:
        """Private rows of clients that keep state."""
        return self.private / "clients.f32"

    @cached_property
    def recipe_file(self) -> Path:
        """The recipe, with its seed."""
        return self.private / "recipe.toml"

    @cached_property
    def metrics_file(self) -> Path:
        """What is known of every round, private numbers included."""
        return self.private / "metrics.jsonl"

    @cached_property
    def released_file(self) -> Path:
        """What was released of the metrics."""
        return self.public / "metrics.jsonl"

    @cached_property
    def model_file(self) -> Path:
        """The trained model."""
        return self.public / "model.safetensors"

    @cached_property
    def certificate_file(self) -> Path:
        """The certificate as everybody may read it."""
        return self.public / "certificate.json"

    @property
    def place(self) -> int:
        """What tells the folder from copies of it: its number on the disk, which a new name leaves as it is."""
        return self.private.stat().st_ino

    @property
    def begun(self) -> bool:
        """Whether the folder holds a run."""
        return (self.private / "run.json").exists()

    def recipe(self) -> Recipe:
        """Returns the recipe that the run began with.

        Raises:
            RecipeError: the file was edited since.
        """
        told = self.facts().get("recipe") if self.begun else None
        if told is not None and told != _digest(self.recipe_file.read_bytes()):
            raise RecipeError(
                f"{self.recipe_file} was edited since the run began, which was another run then: bring it back, or "
                "begin a new run with the new recipe in another folder"
            )
        return Recipe.load(self.recipe_file)

    def prepare(self) -> None:
        """Makes the folders of a new run, durably."""
        if self.begun:
            raise RecipeError(f"--out {self.path} already holds a run: add --resume, or name another folder")
        try:
            make_folder(self.path, PUBLIC)
            make_folder(self.public, PUBLIC)
            make_folder(self.private, PRIVATE)
        except OSError as error:
            raise RecipeError(f"--out {self.path} cannot be made ({error.strerror}): name another folder") from None
        self._require_own()

    def _require_own(self) -> None:
        """Refuses a private folder that was there before, and is not its owner's alone."""
        if self.private.is_symlink() or self.private.stat().st_mode & 0o077:
            raise RecipeError(
                f"--out {self.path} has a folder private/ already, which is a link or open to others: run `chmod 700` "
                "on it, or name another folder"
            )

    def create(self, recipe: Recipe, facts: Mapping[str, Any]) -> None:
        """Writes down what a new run was asked to do; from then on the folder holds a run."""
        self.prepare()
        told, written = facts.get("mechanism", {}), recipe.to_toml().encode()
        replace_file(self.recipe_file, written, PRIVATE)
        replace_file(
            self.public / "recipe.toml", public_recipe(recipe, told["name"] if told.get("own") else "").encode(), PUBLIC
        )
        facts = {**facts, "recipe": _digest(written)}
        replace_file(self.private / "run.json", json.dumps(facts, indent=2).encode(), PRIVATE)

    def facts(self) -> dict[str, Any]:
        """Returns what was fixed when the run began."""
        try:
            facts: dict[str, Any] = dict(json.loads((self.private / "run.json").read_text()))
        except (OSError, ValueError, TypeError, RecursionError):
            raise RecipeError(f"{self.path} holds no run to resume: name a run folder, or leave out --resume") from None
        return facts

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lets nobody else play this run meanwhile; a process that is killed lets go of it."""
        with (self.private / "run.json").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RecipeError(
                    f"--out {self.path} is being played by another process: wait for it, or name another folder"
                ) from None
            yield

    def save(self, checkpoint: Checkpoint, store: ClientStore) -> None:
        """Writes a checkpoint; the store's pending rows become the clients' rows with it."""
        replace_file(self._checkpoint, checkpoint.encode(store), PRIVATE)

    @property
    def _checkpoint(self) -> Path:
        return self.private / "checkpoint.safetensors"

    def load(self, store: ClientStore) -> Checkpoint | None:
        """Returns the last checkpoint, and brings the store back to it; None when the run has not got that far."""
        return Checkpoint.decode(self._checkpoint.read_bytes(), store) if self._checkpoint.exists() else None

    def head(self) -> str:
        """Returns the ledger's head that the run knows: the last checkpoint's, or the one that it began with."""
        known = about(self._checkpoint.read_bytes()) if self._checkpoint.exists() else self.facts()
        return str(known["head"])

    def save_model(self, state: Mapping[str, Tensor], lens: FeatureMap | None = None) -> None:
        """Writes the global model's whole state, and the map that features go through before it, if any."""
        tensors = dict(state)
        tensors |= {} if lens is None else {f"opening/{name}": told.clone() for name, told in lens.named_buffers()}
        replace_file(self.model_file, save(tensors), PUBLIC)

    def save_certificate(self, certificate: Certificate, document: CertificateDocument) -> None:
        """Writes what the ledger proves, with who paid most (private), and what everybody may read of it (public)."""
        replace_file(self.private / "certificate.json", certificate.to_json().encode(), PRIVATE)
        replace_file(self.certificate_file, document.to_json().encode(), PUBLIC)

    def save_scores(self, scores: Mapping[str, Any] | None, *, public: bool) -> None:
        """Writes the final model's scores on the test records: to `private/`, and to `public/` where these are."""
        if scores is not None:
            for folder, mode in ((self.private, PRIVATE), *([(self.public, PUBLIC)] if public else [])):
                replace_file(folder / "scores.json", strict_json.dumps(scores, indent=2).encode(), mode)

    @property
    def shows_scores(self) -> bool:
        """Whether the test records are public, so that scores on them were published."""
        return (self.public / "scores.json").exists()

    def log(self, metrics: Mapping[str, Any], released: Mapping[str, Any]) -> None:
        """Appends one line of metrics, and one of what was released of them; what is not finite is written as null."""
        append_line(self.metrics_file, _line(metrics).encode(), PRIVATE)
        append_line(self.released_file, _line(released).encode(), PUBLIC)

    def metrics(self) -> list[dict[str, Any]]:
        """Returns all metrics so far; a line that a crash cut short is left out.

        Raises:
            RecipeError: the file holds something else.
        """
        return read_lines(self.metrics_file)

    def released(self) -> list[dict[str, Any]]:
        """Returns what was released of the metrics, as `metrics` does."""
        return read_lines(self.released_file)

    def note(self, round_: int, notes: Mapping[str, Tensor]) -> None:
        """Adds private numbers of one round to `notes.npz`: for each name one entry a round, and `round`."""
        path, kept = self.private / "notes.npz", dict[str, Any]()
        if path.exists():
            with np.load(path, allow_pickle=False) as old:
                earlier = old["round"] < round_  # a round that is played again is not told twice
                kept = {name: old[name][earlier] for name in old.files}
        now = {"round": np.array([round_])} | {name: value.numpy()[None] for name, value in notes.items()}
        told: dict[str, Any] = {name: np.concatenate([kept.get(name, new[:0]), new]) for name, new in now.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **told)
        replace_file(path, buffer.getvalue(), PRIVATE)

    def rewind(self, round_: int) -> None:
        """Drops metrics of rounds after `round_`, which will be played again."""
        for path, mode in ((self.metrics_file, PRIVATE), (self.released_file, PUBLIC)):
            kept = [line for line in read_lines(path) if line["round"] <= round_]
            replace_file(path, "".join(map(_line, kept)).encode(), mode)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a file of metrics; a line that a crash cut short is left out.

    Raises:
        RecipeError: the file holds something else.
    """
    lines = list[dict[str, Any]]()
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            told = json.loads(line.decode())
        except (UnicodeDecodeError, RecursionError):
            raise damaged(path, len(lines) + 1) from None
        except ValueError:
            break
        if not isinstance(told, dict) or not isinstance(told.get("round"), int):
            raise damaged(path, len(lines) + 1)
        lines.append(told | ({"loss": math.nan} if told.get("diverged") else {}))
    return lines


def _digest(written: bytes) -> str:
    return hashlib.blake2b(written, digest_size=16).hexdigest()


_STRICT = json.JSONEncoder(allow_nan=False)


def _line(metrics: Mapping[str, Any]) -> str:
    loss = metrics.get("loss")
    told = metrics if loss is None or math.isfinite(loss) else {**metrics, "diverged": True}
    try:
        return f"{_STRICT.encode(told)}\n"
    except ValueError:
        return f"{_STRICT.encode(strict_json.finite(told))}\n"


def damaged(path: Path, line: int, what: str = "") -> RecipeError:
    """Returns the sentence for a line of metrics that no run wrote."""
    where = f"line {line} ({what})" if what else f"line {line}"
    return RecipeError(f"{path} is damaged in {where}: bring the file back, or cut it off before that line")
