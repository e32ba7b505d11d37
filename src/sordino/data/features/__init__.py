"""Features of records that need nobody's data: pure functions of a record and of public constants."""

from sordino.data.features.cache import cache_folder
from sordino.data.features.norms import GroupNorm, Root, UnitRows
from sordino.data.features.patches import WhitenedPatches
from sordino.data.features.random_features import RandomFourier, RandomPatches
from sordino.data.features.scattering import Scattering
from sordino.data.features.settings import FeatureSettings

__all__ = [
    "FeatureSettings",
    "GroupNorm",
    "RandomFourier",
    "RandomPatches",
    "Root",
    "Scattering",
    "UnitRows",
    "WhitenedPatches",
    "cache_folder",
]
