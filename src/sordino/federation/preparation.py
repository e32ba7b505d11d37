"""How records become what a run trains on: the same on every node, and for the operator's test records."""

from __future__ import annotations

from torch import Tensor

from sordino.data.features import FeatureSettings
from sordino.data.normalise import scale
from sordino.data.ranges import in_ranges
from sordino.data.records import Records
from sordino.recipe import Recipe


def prepared(recipe: Recipe, name: str, records: Records, *, silent: bool = False) -> Tensor:
    """Returns training inputs, scaled and turned into features as the recipe says.

    Args:
        recipe: what to do.
        name: how errors call the records.
        records: whose inputs.
        silent: whether no value and no gap is refused, whatever the recipe says: values outside their declared range
            are moved to its edge, and a gap in a feature without a range is 0. A node's refusal would answer questions
            about single values, one range at a time, and nobody would pay for the answers.

    **Formal guarantees**: every step works on each record alone with public constants, so a recipe can choose freely.
    """
    told, ranges = recipe.data, recipe.public.ranges or {}
    outside, x = "clip" if silent else told.outside, records.train_x.clone()
    x = in_ranges(name, x, ranges, records.columns, outside, records.coded, "zero" if silent else "refuse")
    features = FeatureSettings.told(told)
    return features(scale(x, "none" if told.normalise == "auto" and features.kind != "none" else told.normalise), None)
