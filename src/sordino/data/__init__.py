"""Data sets, and how they are spread over clients."""

from sordino.data.catalogue import DATASETS
from sordino.data.client_data import ClientData
from sordino.data.dataset import Dataset
from sordino.data.federation import Federation, Partition
from sordino.data.make import federate, load
from sordino.data.normalise import NORMALISE
from sordino.data.public import PublicCounts
from sordino.data.records import Records
from sordino.data.settings import PartitionSettings

__all__ = [
    "DATASETS",
    "NORMALISE",
    "ClientData",
    "Dataset",
    "Federation",
    "Partition",
    "PartitionSettings",
    "PublicCounts",
    "Records",
    "federate",
    "load",
]
