"""What is trained, by a client in a round, and by the server from what was released."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sordino.sections.section import MANY, Section


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
