"""What is public before any record is read: facts of published data sets, and of settings that deal records out."""

from __future__ import annotations

from sordino.data.dataset import Dataset
from sordino.data.public import PublicCounts
from sordino.data.settings import PartitionSettings


def published(dataset: Dataset, settings: PartitionSettings, found: int, aside: int) -> PublicCounts:
    """Returns the public facts of a data set under a partition, computed from constants and settings alone.

    How many clients records are dealt out to is a setting of the simulation. How many records there are is a published
    constant of a benchmark; of the user's own file it is the user's to declare.

    Args:
        dataset: the data set as the catalogue knows it.
        settings: how records are dealt out.
        found: training records in the files: other files than the published ones are the user's own.
        aside: how many of them are set aside as public.

    **Edge cases**: sizes that are drawn at random have an expected mean, and no bounds.
    """
    genuine = dataset.train is not None and dataset.train == found
    records = found - aside if genuine else None
    people = _people(dataset, settings, records)
    held = settings.clients * settings.size if settings.size is not None and settings.clients is not None else records
    least, most = _bounds(settings, people, held)
    test = genuine and dataset.public_test
    return PublicCounts(people, held, dataset.classes, most, least, genuine or None, test or None)


def _people(dataset: Dataset, settings: PartitionSettings, records: int | None) -> int | None:
    if settings.kind == "by_key":
        return dataset.natural_clients if records is not None else None
    return settings.clients or records


def _bounds(settings: PartitionSettings, people: int | None, held: int | None) -> tuple[int | None, int | None]:
    """Returns least and most records of a client, where the settings make all clients alike."""
    if people is None or held is None or settings.kind not in ("iid", "label_skew"):
        return None, None
    return held // people, -(-held // people)
