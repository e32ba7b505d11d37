"""Which records there are, what is public about them, and who holds which."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sordino.data.public import PublicCounts
from sordino.sections.section import MANY, Section


class DataSection(Section):
    """Which records there are."""

    name: str = Field("digits", description="data set: see `sordino data`; or `csv` / `npz` for your own file")
    folder: Path | None = Field(None, description="folder that holds the data sets (default: $SORDINO_DATA)")
    file: Path | tuple[Path, ...] | None = Field(
        None, description="your own file, for `csv` and `npz`; csv: also several, or a pattern (*.csv)"
    )
    label: str | None = Field(None, description="name of the label column (csv; default: label)")
    client: str | None = Field(None, description="name of the column that says whose record it is (csv)")
    drop: tuple[str, ...] | None = Field(None, description="names of columns to leave out (csv)")
    columns: tuple[str, ...] | None = Field(
        None, min_length=1, description="names of columns to learn from, in this order (csv; default: all others)"
    )
    class_names: tuple[str, ...] | None = Field(
        None, min_length=2, description="values of the label column, in the order of their classes (csv)"
    )
    categories: dict[str, tuple[str, ...]] | None = Field(
        None, description="columns of words, with the words that each can hold: 1 or 0 for each of them (csv)"
    )
    missing: Literal["refuse", "middle", "leave_out"] | None = Field(
        None, description="gaps: refused, the middle of the declared range, or the record is left out (csv)"
    )
    decimal: Literal["auto", ".", ","] | None = Field(
        None, description="decimal mark of numbers (csv; default: a comma only where cells are parted otherwise)"
    )
    classes: int | None = Field(
        None,
        ge=0,
        le=MANY,
        description="number of classes, 0 for regression (csv, npz, leaf; default: from the labels)",
    )
    test: float | None = Field(
        None, ge=0, lt=1, description="share of owners, or else of records, kept for testing (csv, npz; default 0.2)"
    )
    normalise: Literal["auto", "none", "centre", "unit", "standard"] = Field(
        "auto", description="scaling of each record by itself: `auto` standardises images and leaves tables alone"
    )
    features: Literal["none", "scattering", "patches", "random"] = Field(
        "none",
        description="features that need no data: `scattering` or whitened `patches` of images, or `random` patterns",
    )
    feature_norm: Literal["auto", "none", "unit", "group", "root"] = Field(
        "auto",
        description="scaling of each record's features by themselves: `auto` is `root` (scattering), else `unit`",
    )
    feature_groups: int | None = Field(
        None,
        ge=1,
        description="groups of channels for `group` and `root` (default: 27 if that divides them, else each)",
    )
    feature_scales: int = Field(
        2, ge=1, le=4, description="scales of the scattering transform: each halves rows and columns"
    )
    feature_angles: int = Field(8, ge=2, le=32, description="angles of the scattering transform")
    feature_count: int = Field(1000, ge=1, description="number of random patterns or frequencies")
    feature_seed: int = Field(0, ge=0, description="public seed of random features, whatever the run's seed")
    feature_colours: Literal["plain", "opponent"] = Field(
        "plain", description="`opponent` turns red, green, blue into brightness and two contrasts, before features"
    )
    feature_mirror: bool = Field(False, description="add the features of each image's mirror image to its own")
    cache: Path | Literal["none"] | None = Field(
        None, description="folder that keeps features (default: $SORDINO_CACHE, else the user's cache; `none`: nowhere)"
    )
    public_fraction: float = Field(0.0, ge=0, lt=1, description="share of records set aside as public (validation)")
    target_unit: str | None = Field(None, description="unit of the numbers to predict, for scores: kg, points, €")
    outside: Literal["refuse", "clip"] = Field("refuse", description="what becomes of values outside `public.ranges`")


class PublicSection(Section):
    """What is declared public about the data: taken as known to everybody, and not charged."""

    population: int | None = Field(None, ge=1, description="the most clients that there can be (default: the setting)")
    records: int | None = Field(None, ge=1, description="training records of all clients that are expected")
    classes: int | None = Field(None, ge=0, le=MANY, description="number of classes, 0 for regression")
    most_records: int | None = Field(None, ge=1, description="no client holds more records")
    least_records: int | None = Field(None, ge=1, description="no client holds fewer records")
    sizes: bool | None = Field(None, description="whether each client's number of records is public (faithful weights)")
    test: bool | None = Field(None, description="whether the test records are public (`run.target` needs that)")
    ranges: dict[str, tuple[float, float]] | None = Field(
        None, description="lowest and highest value of features by name (`*`: all others), scaled to -1 … 1 by them"
    )
    part: bool | None = Field(None, description="whether the data are a part (a fold, a try) of the declared records")
    shape: tuple[Annotated[int, Field(ge=1)], ...] | None = Field(
        None, min_length=1, description="shape of one record, as the model sees it (needed across machines)"
    )

    @model_validator(mode="before")
    @classmethod
    def _counts(cls, value: Any) -> Any:
        return asdict(value) if isinstance(value, PublicCounts) else value

    @property
    def counts(self) -> PublicCounts:
        """The declaration, as the data's own type."""
        return PublicCounts(**self.model_dump(exclude={"shape"}))


class PartitionSection(Section):
    """Who holds which records."""

    kind: Literal["iid", "dirichlet", "pathological", "label_skew", "quantity_skew", "by_key"] = Field(
        "iid", description="how records are dealt out to clients; `by_key` uses the data set's natural clients"
    )
    clients: int | None = Field(None, ge=1, description="number of clients (default: every record is a client)")
    size: int | None = Field(
        None, ge=1, description="each client draws this many records from all (default: records are shared out)"
    )
    alpha: float = Field(0.5, gt=0, description="Dirichlet concentration (dirichlet, quantity_skew)")
    classes_per_client: int = Field(2, ge=1, description="classes each client holds (pathological)")
    share: float = Field(0.8, ge=0, le=1, description="share of a client's records that have one label (label_skew)")
    share_min: float | None = Field(
        None, ge=0, le=1, description="if set, each client's share is uniform between this and `share` (label_skew)"
    )
