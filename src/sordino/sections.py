"""The tables of a recipe, one class each: what can be set, within which limits, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from sordino.account.accountants.exact import LEAST_DELTA
from sordino.data.public import PublicCounts
from sordino.mechanisms import MECHANISMS
from sordino.mechanisms.spec import Options

DEFAULT_MECHANISM = "dropout_robust"
UNKNOWN_MECHANISM = "unknown_mechanism"
MANY = 10**7
"""More rounds, steps or classes than this are a slip of the pen, and would fill the memory first."""


class Section(BaseModel):
    """A table of a recipe: unknown names are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _nameable(cls, value: Any) -> Any:
        if any(
            "\0" in str(part) for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, Path)
        ):
            raise ValueError("no file can have the character NUL in its name")
        return value


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


class ModelSection(Section):
    """What is trained."""

    name: str = Field("linear", description="linear, mlp, svm, or a paper's network by name")
    hidden: tuple[int, ...] = Field((32,), description="widths of hidden layers (mlp)")
    activation: Literal["relu", "tanh", "linear"] = Field("relu", description="activation of hidden layers (mlp)")
    loss: Literal["auto", "cross_entropy", "hinge", "mse"] = Field("auto", description="per-example loss")
    bias: bool = Field(True, description="whether layers add a constant (false: better for features of norm 1)")
    precondition: bool = Field(False, description="whether synthetic noise images precondition a network (no data)")


class TrainSection(Section):
    """What a client does in a round."""

    optimizer: Literal["sgd", "momentum", "adam", "rmsprop"] = Field("sgd", description="local optimiser")
    learning_rate: float = Field(0.5, gt=0, description="local step size")
    momentum: float = Field(0.9, ge=0, lt=1, description="decay of the velocity (momentum)")
    betas: tuple[float, float] = Field((0.9, 0.999), description="decays of the moments (adam)")
    decay: float = Field(0.99, ge=0, lt=1, description="decay of the second moment (rmsprop)")
    damping: float = Field(1e-8, gt=0, description="added to the root of the second moment (adam, rmsprop)")
    weight_decay: float = Field(0.0, ge=0, description="λ of a regulariser λ/2·‖w‖² beside the loss of local steps")
    batch_size: int | None = Field(None, ge=1, description="records in a local step (default: all)")
    steps: int | None = Field(None, ge=1, le=MANY, description="local steps a round; excludes `epochs`")
    epochs: int | None = Field(None, ge=1, le=MANY, description="passes over the client's records a round (default: 1)")
    engine: Literal["auto", "batched", "loop", "processes"] = Field("auto", description="how clients are trained")
    chunk: int | None = Field(None, ge=1, description="clients trained at once (default: chosen by the engine)")

    @model_validator(mode="after")
    def _one_length(self) -> TrainSection:
        if self.steps is not None and self.epochs is not None:
            raise ValueError("steps and epochs exclude each other: set one of them")
        return self


class ServerSection(Section):
    """What the server does with a released mean."""

    learning_rate: float | None = Field(None, gt=0, description="server step size (default: the mechanism's)")
    path: Annotated[float, Field(gt=0)] | Literal["auto"] | None = Field(
        None,
        description="learning_rate × clip_norm × rounds, in place of learning_rate; `auto`: for records of norm 1",
    )
    momentum: float = Field(0.0, ge=0, lt=1, description="server momentum")
    weight_decay: float = Field(0.0, ge=0, lt=1, description="share of the model that a round takes away")
    average: float = Field(
        0.0, ge=0, lt=1, description="share of the rounds, the last ones, whose models are averaged (0: the last model)"
    )

    @model_validator(mode="after")
    def _one_step(self) -> ServerSection:
        if self.learning_rate is not None and self.path is not None:
            raise ValueError("learning_rate and path exclude each other: set one of them")
        return self


class OpeningSection(Section):
    """What is released once, before the first round, to show the features in a better light; charged."""

    feature_mean: float = Field(
        0.0, ge=0, lt=1, description="share of the budget's μ for the mean feature row, to be subtracted (0: none)"
    )
    channel_moment: float = Field(
        0.0, ge=0, lt=1, description="share of the budget's μ for the channels' second moment, to whiten by (0: none)"
    )
    ridge: float = Field(
        0.2, gt=0, description="share of the mean eigenvalue that is added to the moment: more where noise is large"
    )

    @model_validator(mode="after")
    def _room(self) -> OpeningSection:
        if self.feature_mean**2 + self.channel_moment**2 >= 1:
            raise ValueError("feature_mean and channel_moment leave nothing for training: lower them, e.g. to 0.1, 0.2")
        return self


class SelectSection(Section):
    """Who is asked in a round."""

    kind: Literal["everyone", "poisson", "fixed"] = Field("everyone", description="how cohorts are drawn")
    rate: float | None = Field(None, ge=1e-9, le=1, description="probability of taking part (poisson)")
    size: int | None = Field(None, ge=1, description="size of the cohort (fixed)")

    @model_validator(mode="after")
    def _needs(self) -> SelectSection:
        if self.kind == "poisson" and self.rate is None:
            raise ValueError("rate is missing: poisson selection needs select.rate, e.g. 0.1")
        if self.kind == "fixed" and self.size is None:
            raise ValueError("size is missing: fixed selection needs select.size, e.g. 10")
        for name, kind in (("rate", "poisson"), ("size", "fixed")):
            # whoever names another kind on top of a recipe means it, and need not take back what the recipe had
            if getattr(self, name) is not None and self.kind != kind and "kind" not in self.model_fields_set:
                raise ValueError(f"{name} has no effect where kind is '{self.kind}': set select.kind = '{kind}'")
        return self


class DropoutSection(Section):
    """Who vanishes during a round, and who joins late."""

    rate: float = Field(0.0, ge=0, lt=1, description="probability that a client of the cohort vanishes")
    schedule: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = Field((), description="one rate a round, instead")
    stages: tuple[Literal["train", "upload", "unmask"], ...] = Field(
        ("upload",), min_length=1, description="what a vanishing client no longer does (one is drawn for each)"
    )
    late: float = Field(0.0, ge=0, lt=1, description="share of the population that joins late")
    late_round: int = Field(1, ge=1, description="round in which they join")


class AggregateSection(Section):
    """How messages are summed."""

    kind: Literal["auto", "plain", "secure"] = Field(
        "auto",
        description="secure sum of integers with Skellam noise, plain sum (under distributed trust a float stand-in "
        "whose low bits nothing covers), or what the trust asks for: secure where it is distributed",
    )
    fidelity: Literal["exact", "masked", "full"] = Field(
        "exact", description="how much of the secure sum is played: integers, masks, or the whole protocol"
    )
    tolerance: float | None = Field(
        None, ge=0, lt=1, description="share of a cohort that may vanish (default: dropout.rate and a margin)"
    )
    corrupt: float = Field(
        0.0, ge=0, lt=0.5, description="share of a cohort that may work with the server: not counted on (secure)"
    )
    shards: int = Field(
        1,
        ge=1,
        le=1000,
        description="number of secure sums that a cohort is dealt out to, each with the whole noise, so that one bad "
        "client spoils one of them (1: a single sum, which one client can move anywhere)",
    )
    combine: Literal["trimmed_mean", "median"] = Field(
        "trimmed_mean", description="how the shards' sums are combined, coordinate by coordinate (shards)"
    )
    trim: int = Field(
        1, ge=1, description="how many of the largest and of the smallest values a trimmed mean leaves out (shards)"
    )
    rounding: float = Field(
        0.01, gt=0, le=1, description="share by which rounding to integers may raise the sensitivity (secure)"
    )


class BudgetSection(Section):
    """What may be spent."""

    epsilon: float | None = Field(
        1.0, gt=0, description="ε that no client may exceed, against any bounded observer (`none`: no limit)"
    )
    delta: float = Field(1e-5, ge=LEAST_DELTA, lt=1, description="δ of every guarantee")
    clients: dict[str, Annotated[float, Field(gt=0)]] = Field(
        {}, description="stricter ε of single clients, by name (a table: alice = 0.5), or by number without names"
    )
    accountant: Literal["pld", "rdp", "exact"] = Field(
        "pld", description="how costs of releases are composed: numerically tight, by Rényi orders, or in closed form"
    )
    participations: int | None = Field(
        None, ge=1, description="rounds that the noise is calibrated for, per client (default: from the selection)"
    )
    minimum_clients: int = Field(1, ge=1, description="stop when fewer clients than this can still pay")

    @field_validator("clients", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {str(name): limit for name, limit in value.items()} if isinstance(value, Mapping) else value

    @field_validator("epsilon", mode="before")
    @classmethod
    def _no_limit(cls, value: Any) -> Any:
        return None if value == "none" else value


class RunSection(Section):
    """How long, and how often to look."""

    rounds: int = Field(40, ge=1, le=MANY, description="number of rounds")
    evaluate_every: int = Field(
        1, ge=1, description="rounds between two evaluations on the test set, and two looks at ε so far"
    )
    target: float | None = Field(None, gt=0, le=1, description="stop when test accuracy reaches this")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of everything that is random in the simulation")
    entropy: bool = Field(
        False, description="draw from the operating system instead of the seed: not repeatable, as in a deployment"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto", description="where gradients are computed; records, weights and noise stay in ordinary memory"
    )
    notes: bool = Field(False, description="record private numbers of the simulation too (notes.npz), for plots")


class LedgerSection(Section):
    """Where costs are remembered."""

    path: Path | None = Field(None, description="ledger file to share between runs (default: in the run folder)")
    federation: str | None = Field(
        None, min_length=1, description="name of the federation whose clients pay (default: the data's)"
    )
    plan: Literal["left", "whole"] = Field(
        "left",
        description="noise for what earlier releases on a shared ledger leave of the budget, or as if there were none",
    )
    witness: Path | None = Field(
        None, description="another file to which the ledger's heads are published, best out of its writers' reach"
    )


def _mechanism_options(value: Any) -> Any:
    """Validates the mechanism's table by the options of the mechanism that it names."""
    if isinstance(value, Options):
        return value
    if not isinstance(value, dict):
        raise PydanticCustomError("model_type", "a table of settings")
    name = value.get("name", DEFAULT_MECHANISM)
    if not isinstance(name, str) or name not in MECHANISMS:
        raise PydanticCustomError(UNKNOWN_MECHANISM, "unknown mechanism", {"tag": name})
    return MECHANISMS[name].options.model_validate(value)


MechanismSection = Annotated[
    SerializeAsAny[Options],
    BeforeValidator(_mechanism_options),
    Field(description="mechanism and its own settings: see `sordino mechanisms`"),
]
