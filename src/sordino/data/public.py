"""What is declared public about a federation: the numbers that mechanisms may use as constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from sordino.data.ranges import Range
from sordino.errors import DataError
from sordino.printable import counted, listed, quoted

if TYPE_CHECKING:
    from sordino.data.federation import Federation

NEEDED = ("population", "records", "classes")
"""Without these nothing can be composed."""
FARTHEST = 2
"""By what factor a declared amount may differ from the true one; beyond that the declaration counts as contradicted."""


@dataclass(frozen=True)
class PublicCounts:
    """Declared facts; None is not declared.

    Whoever declares a number takes it to be public: it shapes what everybody sees (denominator, noise, rounds, the
    model's output) and costs nothing. So it must not be measured for the purpose, or must be fit to be published.

    Attributes:
        population: the most clients that there can be; sums are divided by the cohort that is expected from it.
        records: the number of training records of all clients together that is expected, counted once a holder.
        classes: number of classes; 0 for regression.
        most_records: no client holds more.
        least_records: no client holds fewer.
        sizes: whether every client's own number of records is public (what some papers weight by).
        test: whether the test records are public.
        ranges: lowest and highest value of features by name or number (`*`: all others): they are scaled by it.
        part: whether these data are a part of what is declared (a fold, a first try): far fewer records are no
            contradiction then. Promises hold all the same, as they rest on `records` from above alone; steps are as
            much smaller as records are fewer, since sums are divided by the number that is expected.
    """

    population: int | None = None
    records: int | None = None
    classes: int | None = None
    most_records: int | None = None
    least_records: int | None = None
    sizes: bool | None = None
    test: bool | None = None
    ranges: Mapping[str, Range] | None = None
    part: bool | None = None

    @classmethod
    def of(cls, told: PublicCounts | Mapping[str, Any] | None) -> PublicCounts:
        """Returns what is declared, also where it comes as a dictionary.

        Raises:
            DataError: it names something that is no such fact.
        """
        if told is None or isinstance(told, PublicCounts):
            return told or UNDECLARED
        known = [field.name for field in fields(cls)]
        unknown = [str(name) for name in told if name not in known] if isinstance(told, Mapping) else [str(told)]
        if unknown:
            raise DataError(f"public has no {quoted(unknown[0])}: it takes {listed(known)}.")
        return cls(**told)

    def plus(self, other: PublicCounts) -> PublicCounts:
        """Returns these facts with what the other declares in their place."""
        told = {field.name: getattr(other, field.name) for field in fields(other)}
        return replace(self, **{name: value for name, value in told.items() if value is not None})

    @property
    def mean_records(self) -> float:
        """Expected number of records of a client."""
        return self.total / self.people

    @property
    def people(self) -> int:
        """The declared population."""
        return _known("population", self.population)

    @property
    def total(self) -> int:
        """The declared number of records."""
        return _known("records", self.records)

    @property
    def fewest(self) -> int:
        """Records that a client is taken to hold at least: the declared bound, else the mean."""
        return self.least_records or max(1, int(self.mean_records))

    @property
    def most_in_all(self) -> int:
        """Records that can be in one sum at most: by the bound on each client, else by how far `records` may be off."""
        likely = FARTHEST * self.total
        return likely if self.most_records is None else min(likely, self.most_records * self.people)


UNDECLARED = PublicCounts()


def proposal(federation: Federation) -> PublicCounts:
    """Returns the facts that the data suggest, for somebody to look at, and to declare if they may be published."""
    return PublicCounts(federation.population, int(federation.sizes().sum()), federation.classes)


def require(told: PublicCounts, federation: Federation) -> None:
    """Raises a DataError that proposes what to write where a needed fact is missing, or names what is contradicted."""
    missing = [name for name in NEEDED if getattr(told, name) is None]
    if missing:
        suggested = proposal(federation)
        lines = ", ".join(f"{name} = {getattr(suggested, name)}" for name in missing)
        raise DataError(
            f"{federation.name}: {' and '.join(missing)} must be declared, since everybody who sees the result can "
            f"infer them: add [public] {lines} to the recipe (or --set public.{missing[0]}=… and so on) if you may "
            f"publish these numbers; they are taken as public and not charged.{_which(missing, suggested, federation)}"
        )
    sizes = federation.sizes()
    _amount(federation, "population", told.people, federation.population, "client", most=told.people)
    held = int(sizes.sum())
    _amount(federation, "records", told.total, held, "record", FARTHEST * told.total, few=bool(told.part))
    if told.most_records is not None and int(sizes.max()) > told.most_records:
        raise _contradiction(federation, "most_records", told.most_records, "a client holds more", "raise it")
    if told.least_records is not None and int(sizes.min()) < told.least_records:
        raise _contradiction(federation, "least_records", told.least_records, "a client holds fewer", "lower it")


def _which(missing: list[str], suggested: PublicCounts, federation: Federation) -> str:
    """Returns what a proposed number of classes may mean: none (a label of −1 leads there, too), or one too many."""
    if "classes" not in missing:
        return ""
    if not suggested.classes:
        return (
            " (classes = 0: a number is predicted; where labels stand for classes, give them as whole numbers from 0, "
            "or list them in data.class_names.)"
        )
    if len(federation.train_y) and int(federation.train_y.min()) > 0:
        return (
            " (No label is 0: where classes are numbered from 1, number them from 0, or list them in "
            f"data.class_names, and declare {suggested.classes - 1}.)"
        )
    return ""


def _amount(federation: Federation, name: str, told: int, found: int, what: str, most: int, few: bool = False) -> None:
    hold = f"the data hold {counted(found, what)}"
    if found > most:
        raise _contradiction(federation, name, told, hold, f"declare at least {found}")
    if FARTHEST * found < told and not few:
        why, remedy = f"{hold}, less than half of that", "declare a number nearer to the truth"
        part = ", or public.part = true if these are a part of them" if name == "records" else ""
        raise _contradiction(federation, name, told, why, remedy + part)


def _contradiction(federation: Federation, name: str, told: int, why: str, remedy: str) -> DataError:
    return DataError(f"{federation.name}: public.{name} is {told}, but {why}: {remedy}.")


def _known(name: str, value: int | None) -> int:
    if value is None:
        raise DataError(f"public.{name} is not declared: add it to the recipe.")
    return value
