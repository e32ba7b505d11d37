"""docs/data.md is complete, and its code runs."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from sordino.data import DATASETS, NORMALISE, PartitionSettings
from sordino.data.features import FeatureSettings
from sordino.data.features import settings as features_settings
from sordino.data.settings import PartitionKind
from sordino.models import LOSSES, MODELS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text()


def test_everything_there_is_has_its_place() -> None:
    settings = [field.name for field in fields(PartitionSettings)]
    options = [option for dataset in (DATASETS["csv"], DATASETS["npz"]) for option in dataset.options]
    features = [*get_args(features_settings.FeatureKind), *get_args(features_settings.Norm)]
    features += [f"feature_{field.name}" for field in fields(FeatureSettings) if field.name != "kind"]
    for name in [*DATASETS, *NORMALISE, *features, *MODELS, *LOSSES, *get_args(PartitionKind), *settings, *options]:
        assert re.search(rf"`[^`]*\b{re.escape(name)}\b[^`]*`", PAGE), name


def test_folders_are_those_that_are_searched() -> None:
    for row in re.findall(r"^\| `[^|]+\|[^|]+\|([^|]+)\|", PAGE.split("## Nothing")[0], re.MULTILINE):
        for place in re.findall(r"`([^`]+)`", row):
            assert place == "data.file" or any(place in dataset.places for dataset in DATASETS.values()), place


def test_the_code_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "docs/data.md", "exec"), {})
