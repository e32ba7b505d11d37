"""Which columns of a node's table a run learns from: its policy says how to read them, the plan chooses among them."""

from __future__ import annotations

from dataclasses import replace

from sordino.data.records import Records
from sordino.errors import NodeRefused
from sordino.federation.policy import DataPolicy
from sordino.sections.data import DataSection


def check_columns(own: DataPolicy, wanted: DataSection) -> None:
    """Refuses a run that takes a node's table for another one than it is, before any record is looked at.

    **Formal guarantees**: what is compared are two declarations, the policy's and the plan's. How a file is read is
    the policy's alone to say, so no plan can ask by refusals what stands in it.

    Raises:
        NodeRefused: a sentence that names both settings.
    """
    if own.kind != "csv":
        return
    for name in ("label", "class_names"):
        run, mine = getattr(wanted, name), getattr(own, name)
        if run is not None and run != mine:
            raise NodeRefused(
                f"the run's data.{name} is {_told(run)} and the policy's is {_told(mine)}: this node's records are not "
                "to be used for it"
            )
    unknown = [name for name in wanted.columns or () if own.columns is not None and name not in own.columns]
    if unknown:
        raise NodeRefused(f"the run's data.columns has {unknown[0]!r}, which is not in the policy's data.columns")
    run_words, mine = wanted.categories or {}, own.categories or {}
    for name in {**run_words, **mine}:
        if (wanted.columns is None or name in wanted.columns) and run_words.get(name) != mine.get(name):
            raise NodeRefused(
                f"the run's data.categories.{name} is {_told(run_words.get(name))} and the policy's is "
                f"{_told(mine.get(name))}: declare the same words in the same order"
            )


def chosen(own: DataPolicy, wanted: DataSection, records: Records) -> Records:
    """Returns the features that a plan wants, in its order; all of them where it names no columns.

    **Formal guarantees**: it depends on the names of columns alone, and not on what stands in them.

    Raises:
        NodeRefused: the table has no such column.
    """
    if own.kind != "csv":
        return records
    words = wanted.categories or {}
    numbers = records.columns[: len(records.columns) - records.coded]
    order = [name for name in wanted.columns or numbers if name not in words and name != own.label]
    for name in order:
        if name not in numbers:
            raise NodeRefused(
                f"the run's data.columns has {name!r}, and this node's file has no such column of numbers"
            )
    used = {name: told for name, told in words.items() if wanted.columns is None or name in wanted.columns}
    names = (*order, *(f"{name}={word}" for name, told in used.items() for word in told))
    places = [records.columns.index(name) for name in names]
    coded = sum(map(len, used.values()))
    return replace(records, train_x=records.train_x[:, places], columns=names, coded=coded)


def _told(value: object) -> str:
    return "not set" if value is None else repr(list(value)) if isinstance(value, tuple) else repr(value)
