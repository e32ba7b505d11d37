"""How records become what a run trains on: the same on every node, and for the operator's test records."""

from __future__ import annotations

from torch import Tensor

from sordino.data.features import FeatureSettings
from sordino.data.normalise import scale
from sordino.data.ranges import Outside, scaled
from sordino.data.records import Records
from sordino.recipe import Recipe


def prepared(recipe: Recipe, name: str, records: Records, outside: Outside | None = None) -> Tensor:
    """Returns training inputs, scaled and turned into features as the recipe says.

    Args:
        recipe: what to do.
        name: how errors call the records.
        records: whose inputs.
        outside: what happens to values outside their declared range; by default what the recipe says.

    **Formal guarantees**: every step works on each record alone with public constants, so a recipe can choose freely.
    """
    told, x = recipe.data, records.train_x.clone()
    if recipe.public.ranges:
        x = scaled(name, x, recipe.public.ranges, records.columns, outside or told.outside)
    wanted = {key.removeprefix("feature_"): value for key, value in told if key.startswith("feature_")}
    features = FeatureSettings(told.features, **wanted)
    return features(scale(x, "none" if told.normalise == "auto" and features.kind != "none" else told.normalise), None)
