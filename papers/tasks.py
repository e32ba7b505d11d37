"""What experiments have done, one task a line of the store: a run is played, or something is measured on runs."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from papers.run_store import RunStore, StoredLine, code_version
from sordino.compare.playing import play
from sordino.errors import SordinoError
from sordino.recipe import Recipe
from sordino.report.reading import read

Measure = Callable[[Recipe, Path, tuple[int, ...]], Mapping[str, Any]]
"""Measures something by a recipe, with room for runs of its own, and returns plain data."""
RUN = "run"
COLUMNS = {"accuracy": 6, "loss": 6}
"""What is kept of every round, and with how many digits."""
OF_DROPOUTS = {"survivors": 6, "noise_stddev": 9}
"""What else is kept where clients vanish."""
KNOBS = ("noise_multiplier", "last_round")
"""Knobs that verdicts and pictures show."""
NOTES = ("original", "truncated")
"""Notes of a simulation, of which the first client's are kept."""


@dataclass(frozen=True)
class Task:
    """Something to do once: a run of a recipe, or a measurement that a recipe tells of."""

    recipe: Recipe
    measure: Measure | None = None
    arguments: tuple[int, ...] = ()

    @property
    def what(self) -> str:
        """What is done, in a word."""
        return RUN if self.measure is None else "/".join([self.measure.__name__, *map(str, self.arguments)])

    def line(self, store: RunStore, folder: Path) -> StoredLine:
        """Does it, in this process, and returns the line.

        Raises:
            SordinoError: it cannot be played; the sentence says why.
        """
        key, of = store.keys(self.what, self.recipe)
        return StoredLine(key, of, self.what, self.recipe.run.seed, code_version(), *self.done(room_of(key, folder)))

    def done(self, place: Path) -> tuple[float, Mapping[str, Any]]:
        """Does it in a folder, which is gone afterwards; returns its processor seconds and what was found.

        **Edge cases**: a run that was cut short goes on in its folder, whose seconds up to then are not counted.
        """
        began = time.process_time()
        if self.measure is not None:
            found = self.measure(self.recipe, place, self.arguments)
        else:
            played(self.recipe, place)
            found = condensed(place)
        _discard(place)
        return round(time.process_time() - began, 2), found


def _discard(place: Path) -> None:
    """Takes a finished run's folder away. It loses its name first: one that is half gone would look unfinished."""
    if place.exists():
        gone = place.rename(place.with_name(f"{place.name}-{uuid.uuid4().hex[:8]}.gone"))
        shutil.rmtree(gone, ignore_errors=True)


def room_of(key: str, folder: Path) -> Path:
    """Returns where a task is done: what other sources left unfinished is not gone on with."""
    return folder / f"{key}-{code_version().rpartition('+')[2]}"


def played(recipe: Recipe, place: Path) -> None:
    """Plays a run in a folder, from where it stands.

    Raises:
        SordinoError: it cannot be played; the sentence says why.
    """
    why = play(recipe, place)
    if why is not None:
        raise SordinoError(why)


def last_model(place: Path) -> list[np.ndarray]:
    """Returns the weights of a run's last model, layer by layer, in the order of their names."""
    path = next(place.rglob("model.safetensors"))
    return [tensor.astype(np.float64) for _, tensor in sorted(load_file(path).items())]


def condensed(place: Path) -> dict[str, Any]:
    """Returns what is kept of a run: metrics by round, and what else verdicts ask for."""
    view = read(place)
    found: dict[str, Any] = {"rounds": [line["round"] for line in view.rounds]}
    for name, digits in (COLUMNS | (OF_DROPOUTS if view.recipe.dropout.rate else {})).items():
        found[name] = [rounded(line.get(name), digits) for line in view.rounds]
    for name in KNOBS:
        found[f"knobs.{name}"] = [rounded(line.get("knobs", {}).get(name), 6) for line in view.rounds]
    if found["rounds"] == list(range(1, len(found["rounds"]) + 1)):
        found["rounds"] = len(found["rounds"])
    if view.notes:
        told = {name: view.notes[name][:, 0] for name in NOTES} | {"round": view.notes["round"]}
        found["notes"] = {name: [[rounded(x, 5) for x in row] for row in rows.reshape(len(rows), -1).tolist()]
                          for name, rows in told.items()}  # fmt: skip
    return {
        name: value if name == "rounds" else _once(value)
        for name, value in found.items()
        if value != [None] * len(view.rounds)
    }


def _once(value: Any) -> Any:
    """Returns a column in which nothing changes as its one value, and one with mostly nothing in it by place."""
    if not isinstance(value, list) or isinstance(value[0], list):
        return value
    if value.count(None) > len(value) / 2:
        return {str(place): one for place, one in enumerate(value) if one is not None}
    return value[0] if len(set(value)) == 1 else value


def _column(told: Any, length: int) -> list[Any]:
    """Returns a column as it was before `_once`."""
    if isinstance(told, Mapping):
        return [told.get(str(place)) for place in range(length)]
    return told if isinstance(told, list) else [told] * length


def by_round(found: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Returns the metrics of every round, as a run's own are.

    **Edge cases**: a loss that was measured, as accuracy was, and is none has not been finite.
    """
    rounds = found["rounds"]
    numbers = rounds if isinstance(rounds, list) else list(range(1, rounds + 1))
    columns = {name: _column(found[name], len(numbers)) for name in found if name not in ("rounds", "notes")}
    out = []
    for place, number in enumerate(numbers):
        values = {name: column[place] for name, column in columns.items()}
        if values.get("accuracy") is not None and values.get("loss") is None:
            values["loss"] = float("nan")
        knobs = {k.removeprefix("knobs."): v for k, v in values.items() if k.startswith("knobs.") and v is not None}
        out.append({"round": number, **{k: v for k, v in values.items() if "." not in k}, "knobs": knobs})
    return tuple(out)


def rounded(value: float | None, digits: int) -> float | None:
    """Returns a number with so many digits; what is no number is none."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short


def missing(tasks: Sequence[Task], store: RunStore, again: bool = False) -> list[Task]:
    """Returns what the store has not, each once; `again`: also what other sources than these played."""
    once = {store.keys(task.what, task.recipe)[0]: task for task in tasks}
    return [
        task
        for key, task in once.items()
        if key not in store.lines or (again and store.lines[key].code != code_version())
    ]
