"""One run as a report sees it: everything that its folder tells, read when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from sordino.data.federation import Federation
from sordino.errors import LedgerError, SordinoError
from sordino.events import Guarantee, named
from sordino.recipe import Recipe
from sordino.runs.folder import RunFolder
from sordino.types import FloatArray, IntArray

if TYPE_CHECKING:
    from sordino.account.ledger.ledger import Ledger

SHOWN_CLIENTS = 60
"""Rows of the label map: more could not be told apart on a page."""


@dataclass(frozen=True)
class Labels:
    """Label counts of some clients (all, or evenly chosen ones)."""

    clients: IntArray
    counts: IntArray
    population: int


@dataclass(frozen=True)
class RunView:
    """One run as it lies on disk. Everything heavy is read when it is asked for.

    **Edge cases**: a run that has not finished has no certificate yet, and one whose data or ledger is gone has no
    label map or no costs by client; the report then says so and shows the rest.
    """

    path: Path
    recipe: Recipe
    facts: Mapping[str, Any]
    rounds: tuple[Mapping[str, Any], ...]
    certificate: tuple[Mapping[str, Any], ...]
    public: bool = False
    """Whether only what is public was read, and may be shown."""
    name: str = ""
    """The folder's name, with as many folders before it as tell it apart from the runs beside it."""
    given: Federation | None = None
    """Data of the user's own that the run was trained on, where the user gave it again."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism that was played, which may be the user's own."""
        return str(self.facts.get("mechanism", {}).get("name") or self.recipe.mechanism.name)

    @property
    def folder(self) -> RunFolder:
        """The run's files."""
        return RunFolder(self.path)

    @contextmanager
    def _books(self) -> Iterator[Ledger]:
        """Opens the ledger for reading; a public view has none.

        Raises:
            LedgerError: it is not there for this view.
        """
        from sordino.account.ledger.ledger import Ledger

        if self.public:
            raise LedgerError("a public view has no ledger")
        with Ledger.open(self.recipe.ledger.path or self.folder.ledger, write=False) as ledger:
            yield ledger

    @property
    def played(self) -> list[Mapping[str, Any]]:
        """Rounds that released something."""
        return [line for line in self.rounds if "aborted" not in line]

    def played_with(self, knob: str) -> tuple[list[int], list[float | None]]:
        """Returns the rounds that released something, and what a knob was in each of them.

        A round records the knobs that it leaves to the next one, and the first round those that it began with too.
        """
        now = self.rounds[0].get("first_knobs", {}).get(knob)
        rounds, values = list[int](), list[float | None]()
        for line in self.played:
            rounds.append(line["round"])
            values.append(now)
            now = line.get("knobs", {}).get(knob)
        return rounds, values

    @property
    def seconds(self) -> float | None:
        """How long the rounds took; None where nobody may know, as on a public page."""
        known = [line["seconds_total"] for line in self.rounds if "seconds_total" in line]
        return sum(known) if known else None

    def last(self, field: str) -> float | None:
        """Returns the last value of a metric that was measured."""
        return next((line[field] for line in reversed(self.rounds) if line.get(field) is not None), None)

    @cached_property
    def scores(self) -> Mapping[str, Any]:
        """Scores of the final model that fit its task; empty where there are none for this view."""
        folder = self.folder.public if self.public else self.folder.private
        try:
            told = json.loads((folder / "scores.json").read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        return told if isinstance(told, dict) else {}

    @cached_property
    def client_names(self) -> dict[int, str]:
        """Names of the run's clients by their numbers in its ledger; empty for a public view, and without names."""
        from sordino.account.ledger.ledger import Ledger

        names = () if self.federation is None else self.federation.names
        if not names:
            return {}
        try:
            path = self.recipe.ledger.path or self.folder.ledger
            with Ledger.open(path, clients=list(names), write=False) as ledger:
                return dict(zip(ledger.members.tolist(), names, strict=True))
        except LedgerError:
            return {}

    @cached_property
    def guarantees(self) -> dict[str, Guarantee]:
        """What is promised, or charged so far, under the names that metrics use (`events.named`)."""
        if self.certificate:
            return named(map(_guarantee, self.certificate))
        try:
            with self._books() as ledger:
                return named(ledger.guarantees)
        except LedgerError:
            return {}

    @property
    def promises(self) -> dict[str, Mapping[str, Any]]:
        """The entries of the certificate under the same names."""
        names = {guarantee: name for name, guarantee in self.guarantees.items()}
        return {names[_guarantee(entry)]: entry for entry in self.certificate}

    @cached_property
    def knobs(self) -> dict[str, FloatArray]:
        """Public knobs at the last checkpoint, vectors included; empty where there is none that can be read."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        if self.public:
            return {}
        try:
            tensors = load_file(self.folder.private / "checkpoint.safetensors")
        except (OSError, SafetensorError):
            return {}
        return {
            name.removeprefix("knob/"): value.astype(np.float64)
            for name, value in tensors.items()
            if name.startswith("knob/")
        }

    @cached_property
    def notes(self) -> dict[str, FloatArray]:
        """Private numbers of the simulation, where the recipe asked for them (`run.notes`) and they can be read."""
        if self.public:
            return {}
        try:
            with np.load(self.folder.private / "notes.npz") as file:
                return {name: np.asarray(file[name]) for name in file.files}
        except (OSError, ValueError, EOFError, BadZipFile):
            return {}

    @cached_property
    def costs(self) -> dict[str, FloatArray]:
        """ε of every client by guarantee; empty when the ledger is gone."""
        try:
            with self._books() as ledger:
                return {
                    name: ledger.epsilons(guarantee, self.recipe.budget.delta, self.recipe.budget.accountant)
                    for name, guarantee in named(ledger.guarantees).items()
                }
        except LedgerError:
            return {}

    @cached_property
    def participations(self) -> IntArray:
        """In how many rounds of this run each client's message left it; empty when the ledger is gone."""
        try:
            with self._books() as ledger:
                times = np.zeros(ledger.population, np.int64)
                for entry in ledger.entries:
                    if entry.run == self.facts["run"] and entry.round_ > 0:
                        times[entry.participants.ids()] += 1
                return times
        except LedgerError:
            return np.empty(0, np.int64)

    @cached_property
    def charged_rounds(self) -> int:
        """The last round of this run that the ledger knows; 0 when that is gone."""
        try:
            with self._books() as ledger:
                return max((entry.round_ for entry in ledger.entries if entry.run == self.facts["run"]), default=0)
        except LedgerError:
            return 0

    @cached_property
    def federation(self) -> Federation | None:
        """The data that the run had; None when it is not here (or is another now)."""
        from sordino.runs.subject import recall

        if self.public:
            return None
        if self.given is not None:  # what somebody names must be right
            return recall(self.folder, federation=self.given, data_only=True).federation
        try:
            return recall(self.folder, data_only=True).federation
        except SordinoError:
            return None

    @cached_property
    def components(self) -> dict[str, slice]:
        """Where each component of the run's model lies in a row; empty for runs that do not remember it."""
        from sordino.layout import Layout

        told = self.facts.get("model", {}).get("layout", ())
        if not told:
            return {}
        layout = Layout(tuple(name for name, _ in told), tuple(tuple(shape) for _, shape in told))
        ends = [int(end) for end in np.cumsum(layout.sizes)]
        starts = [end - size for end, size in zip(ends, layout.sizes, strict=True)]
        return {name: slice(*span) for name, span in zip(layout.names, zip(starts, ends, strict=True), strict=True)}

    @cached_property
    def labels(self) -> Labels | None:
        """Label counts; None for regression, or when the data is not here."""
        here = self.federation
        if here is None or not here.classes:
            return None
        everyone = here.population
        chosen = np.unique(np.linspace(0, everyone - 1, min(everyone, SHOWN_CLIENTS)).astype(np.int64))
        data = here.gather(chosen)
        owner = np.repeat(np.arange(len(chosen)), data.sizes)
        counts = np.bincount(owner * here.classes + data.y.numpy(), minlength=len(chosen) * here.classes)
        return Labels(chosen, counts.reshape(len(chosen), here.classes), everyone)


def _guarantee(entry: Mapping[str, Any]) -> Guarantee:
    return Guarantee(entry["unit"], entry["observer"], entry["adjacency"])
