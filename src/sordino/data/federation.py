"""A federation: records, who holds which, and a test set that nobody holds."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sordino.data import disjoint
from sordino.data.client_data import Borrowed, ClientData
from sordino.data.finite import require_finite
from sordino.data.given import owners_of, require_classes, test_of
from sordino.data.keyed import key
from sordino.data.partition import Partition
from sordino.data.public import UNDECLARED, PublicCounts, proposal, require
from sordino.data.ranges import Outside, Range, scaled
from sordino.data.record_hashes import record_hashes
from sordino.data.records import as_classes, count_classes, inputs, labels, split_people
from sordino.errors import DataError
from sordino.printable import counted
from sordino.types import IntArray

__all__ = ["Federation", "Partition"]


@dataclass(frozen=True, eq=False, repr=False)
class Federation:
    """Private training records spread over clients, test records, and (if set aside) public records.

    `classes` is the number of classes, or 0 for regression. Inputs are float32 `[records, …]`, or int64 where they are
    numbers of something (a text's characters); labels are int64 `[records]`, or float32 `[records, …]` for regression.

    **Formal guarantees**: everything is finite, labels lie in range, every client holds at least one record.

    **Edge cases**: an empty test set is allowed (`test=None`); metrics on it are then undefined, and that is the
    caller's to say.
    """

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    classes: int
    partition: Partition
    public_x: Tensor | None = None
    public_y: Tensor | None = None
    declared: PublicCounts = UNDECLARED
    """What is declared public: the only numbers about the data that a mechanism may be composed from."""
    columns: tuple[str, ...] = ()
    """Names of the features, where they have any."""
    class_names: tuple[str, ...] = ()
    """What the classes are called, in their order, where they have names."""
    hashes: NDArray[np.uint64] | None = None
    """Hashes of the training records as they were read, where inputs are something else by now: what a ledger knows
    them by, so that the same people are the same under other features."""
    featured: bool = False
    """Whether inputs are features that were made of the records."""

    def __post_init__(self) -> None:
        if not len(self.train_x):
            raise DataError(f"{self.name}: there are no training records; check the file and public_fraction.")
        for part, x, y in self._splits():
            _check_split(f"{self.name} ({part})", x, y, self.classes)
            if len(x) and (x.shape[1:] != self.train_x.shape[1:] or y.shape[1:] != self.train_y.shape[1:]):
                found, usual = _shapes(x, y), _shapes(self.train_x, self.train_y)
                raise DataError(
                    f"{self.name}: {part} records have the shapes {found}, others {usual}: give them alike."
                )

    def __repr__(self) -> str:
        """Returns who holds how much of what, and not a record."""
        what = f"{self.classes:,} classes" if self.classes else "numbers to predict"
        return (
            f"<Federation {self.name!r}: {counted(self.population, 'client')}, "
            f"{counted(len(self.train_y), 'training record')} of shape {self.input_shape}, {what}, "
            f"{counted(len(self.test_y), 'test record')}>"
        )

    def _splits(self) -> list[tuple[str, Tensor, Tensor]]:
        splits = [("train", self.train_x, self.train_y), ("test", self.test_x, self.test_y)]
        if self.public_x is not None and self.public_y is not None:
            splits.append(("public", self.public_x, self.public_y))
        return splits

    @property
    def population(self) -> int:
        """Number of clients."""
        return self.partition.count

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one record."""
        return tuple(self.train_x.shape[1:])

    @property
    def test_public(self) -> bool:
        """Whether the test records are public, so that what is measured on them may steer and be published."""
        return bool(self.declared.test)

    @property
    def names(self) -> tuple[str, ...]:
        """What the clients are called, where they have names: kept private, and remembered by a ledger as digests."""
        return tuple(getattr(self.partition, "names", ()))

    def name_of(self, client: int) -> str:
        """Returns what a client is called: its name, or else its number."""
        return self.names[client] if self.names else str(client)

    def proposed(self) -> PublicCounts:
        """Returns the facts that the data suggest. Whoever declares them says that they may be published."""
        return proposal(self)

    def declare(self, told: PublicCounts) -> Federation:
        """Returns the federation with these facts declared public, in place of earlier ones.

        **Formal guarantees**: promises hold between any two federations that agree with the declaration: neither may
        hold more clients, or a client more records, than it says.

        Raises:
            DataError: a fact that is needed is missing (it proposes one), or the data contradict the declaration.
        """
        known = self.declared.plus(told)
        require(known, self)
        if known == self.declared and known.classes == self.classes:
            return self  # nothing to check again
        made, classes = self, require_classes("public", known.classes)
        if classes == 0 and self.classes:  # numbers to predict that came as whole ones
            train, test = self.train_y.to(torch.float32), self.test_y.to(torch.float32)
            public = None if self.public_y is None else self.public_y.to(torch.float32)
            made = replace(self, train_y=train, test_y=test, public_y=public, classes=0)
        return replace(made, declared=known, classes=made.classes if classes is None else classes)

    def noting(self, told: PublicCounts) -> Federation:
        """Returns the federation with these facts added to the declaration; a run asks for what is missing still."""
        return replace(self, declared=self.declared.plus(told))

    def scaled(
        self, ranges: Mapping[str, Range], columns: Sequence[str] = (), outside: Outside = "refuse"
    ) -> Federation:
        """Returns the federation with features mapped from their declared ranges to [−1, 1]."""

        return self.mapped(lambda x: scaled(self.name, x.to(torch.float32), ranges, columns, outside))

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Federation:
        """Returns the federation with all inputs mapped by a public function, record by record."""
        public = None if self.public_x is None else function(self.public_x)
        train, test = function(self.train_x), function(self.test_x)
        if train is self.train_x and test is self.test_x and public is self.public_x:
            return self
        hashes = record_hashes(self.train_x, self.train_y) if self.hashes is None else self.hashes
        return replace(self, train_x=train, test_x=test, public_x=public, hashes=hashes)

    @cached_property
    def digest(self) -> str:
        """A hash of the private records and of who holds how many: another federation has another one."""
        total = hashlib.blake2b(digest_size=16)
        for tensor in (self.train_x, self.train_y):
            total.update(tensor.contiguous().numpy().data)
        total.update(self.sizes().tobytes())
        return total.hexdigest()

    def sizes(self, clients: IntArray | None = None) -> IntArray:
        """Returns how many records each client holds (all clients by default)."""
        return self.partition.sizes(np.arange(self.population) if clients is None else clients)

    def gather(self, clients: IntArray) -> ClientData:
        """Returns the records of a cohort, in the order of the list."""
        if len(clients) and (int(clients.min()) < 0 or int(clients.max()) >= self.population):
            raise DataError(f"{self.name}: a cohort names clients outside 0 … {self.population - 1}.")
        offsets, records = self.partition.indices(clients)
        return Borrowed(clients, offsets, records, self.train_x, self.train_y)

    @classmethod
    def of(
        cls,
        x: Tensor | ArrayLike,
        y: Tensor | ArrayLike,
        clients: int | ArrayLike | None = None,
        test: float | tuple[Tensor | ArrayLike, Tensor | ArrayLike] | None = 0.2,
        classes: int | None = None,
        seed: int = 0,
        name: str = "own data",
        public: PublicCounts | Mapping[str, Any] | None = None,
        read: Tensor | ArrayLike | None = None,
    ) -> Federation:
        """Makes a federation of the user's own tensors or arrays.

        Args:
            x: inputs, one row a record; bytes (uint8) are pixels, and are scaled to [0, 1].
            y: labels: integers 0 … classes − 1, or floats for regression.
            clients: the number of clients (records are dealt out at random), or the owner of each record (any values:
                names, numbers), or None: every record is a client of its own.
            test: the share set aside for testing (of the owners where they hold several records, else of the
                records), or a pair (x, y), or None for no test set. Private, unless `public` says otherwise.
            classes: the number of classes; by default the largest label + 1, or 0 for floats.
            seed: keys the split and the deal.
            name: how errors and reports call the data.
            public: what is declared public; a run asks for what is missing. Records are scaled by its ranges.
            read: the records as they were read, where `x` was made of them: what a ledger knows people by.
        """
        given = require_classes(name, classes)
        train_x, train_y = inputs(x), as_classes(labels(y)) if given else labels(y)
        if not len(train_x):
            raise DataError(f"{name}: there are no training records: give one at least.")
        hashes = None if read is None else record_hashes(inputs(read), train_y)
        _check_split(name, train_x, train_y, given or count_classes(train_y))  # before a split numbers records anew
        count, owners = owners_of(name, clients, len(train_x))
        aside_by = test_of(name, test)
        if not isinstance(aside_by, float):
            test_x, test_y = inputs(aside_by[0]), as_classes(labels(aside_by[1])) if given else labels(aside_by[1])
        else:
            secret = key(seed, "test split")
            kept, aside = split_people(len(train_x), owners, aside_by, secret, f"{name}: test")
            test_x, test_y = train_x[aside], train_y[aside]
            train_x, train_y = train_x[kept], train_y[kept]
            owners = None if owners is None else owners[kept.numpy()]
            hashes = None if hashes is None else hashes[kept.numpy()]
        known = count_classes(train_y, test_y) if given is None else given
        if not known:
            train_y, test_y = train_y.to(torch.float32), test_y.to(torch.float32)
        records = len(train_x)
        everyone = records if count is None else count
        deal = disjoint.by_key(owners) if owners is not None else disjoint.iid(records, everyone, seed)
        told = PublicCounts(population=count, classes=given).plus(PublicCounts.of(public))
        made = cls(name, train_x, train_y, test_x, test_y, known, deal, declared=told, hashes=hashes)
        return made.scaled(told.ranges) if told.ranges else made

    @classmethod
    def from_dataframe(cls, frame: Any, label: str, client: str | None = None, **options: Any) -> Federation:
        """Makes a federation of a data frame; see `sordino.data.from_own.from_dataframe`."""
        from sordino.data.from_own import from_dataframe

        return from_dataframe(frame, label, client, **options)

    @classmethod
    def from_csv(
        cls,
        file: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        label: str = "label",
        client: str | None = None,
        **options: Any,
    ) -> Federation:
        """Makes a federation of a CSV file with a header; see `sordino.data.from_own.from_csv`."""
        from sordino.data.from_own import from_csv

        return from_csv(file, label, client, **options)

    @classmethod
    def from_dataloaders(
        cls,
        loaders: Mapping[str, Iterable[tuple[Any, Any]]] | Sequence[Iterable[tuple[Any, Any]]],
        test: Iterable[tuple[Any, Any]] | float | None = None,
        **options: Any,
    ) -> Federation:
        """Makes a federation of one data loader a client; see `sordino.data.from_own.from_dataloaders`."""
        from sordino.data.from_own import from_dataloaders

        return from_dataloaders(loaders, test, **options)


def _shapes(x: Tensor, y: Tensor) -> str:
    return f"{tuple(x.shape[1:])} and {tuple(y.shape[1:])}"


def _check_split(name: str, x: Tensor, y: Tensor, classes: int) -> None:
    if len(x) != len(y):
        raise DataError(f"{name}: {len(x)} inputs but {len(y)} labels; give one label for each input.")
    require_finite(name, x)
    require_finite(f"{name}, target", y)
    if classes and y.dim() != 1:
        raise DataError(f"{name}: a record has {math.prod(y.shape[1:])} labels; give one class for each record.")
    if classes and y.is_floating_point():
        raise DataError(
            f"{name}: {classes} classes but labels that are not whole numbers; set classes=0 for regression."
        )
    if classes and len(y) and (int(y.min()) < 0 or int(y.max()) >= classes):
        wrong = int(torch.nonzero((y < 0) | (y >= classes))[0, 0])
        raise DataError(
            f"{name}: record {wrong} has label {int(y[wrong])}; labels must be 0 … {classes - 1}: name others in "
            "class_names, or declare more classes."
        )
