"""Settings of a private Flower app, as they stand in its run configuration under `sordino.*`.

    [tool.flwr.app.config.sordino]
    epsilon = 2.0
    delta = 1e-5
    population = 100
    clip-norm = 0.5

Flower gives the run configuration to ServerApp and ClientApps alike; it is read anew at every call, never at import.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sordino.errors import RecipeError

PREFIX = "sordino."


class FlowerSettings(BaseModel):
    """What a run declares: trust, budget, bound, noise, and who is asked. Public, and the same for everybody.

    **Formal guarantees**: nothing here is measured on data. `population` is declared, so it, the cohort's expected size
    and the denominator are public constants.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    trust: Literal["central", "local"] = Field("central", description="who adds noise: the server, or each client")
    epsilon: float | None = Field(None, gt=0, description="the budget; leave it out only with a noise-multiplier")
    delta: float = Field(gt=0, lt=1, description="the budget's δ")
    population: int = Field(ge=1, description="the most nodes that there can be")
    clip_norm: float = Field(1.0, gt=0, description="L2 bound on a client's whole update")
    clipping: Literal["fixed", "adaptive"] = Field(
        "fixed", description="whether the bound follows a quantile of the norms, at no further cost"
    )
    quantile: float = Field(0.5, gt=0, lt=1, description="share of clients that should not be clipped (adaptive)")
    quantile_rate: float = Field(0.2, gt=0, description="how fast the bound moves, in log space (adaptive)")
    noise_multiplier: float | None = Field(None, gt=0, description="noise over clip norm; by default calibrated")
    select: Literal["everyone", "fixed", "poisson"] = Field("everyone", description="who is asked in a round")
    cohort: int | None = Field(None, ge=1, description="how many are asked (select = 'fixed')")
    rate: float | None = Field(None, gt=0, le=1, description="each node's probability (select = 'poisson')")
    rounds: int | None = Field(None, ge=1, description="rounds that the noise must last for; by default num_rounds")
    participations: int | None = Field(None, ge=1, description="how often one client pays, where cohorts are drawn")
    adjacency: Literal["zero_out", "replace"] = Field("zero_out", description="what a message hides (local trust)")
    minimum_clients: int = Field(1, ge=1, description="fewest clients that must be able to pay")
    exclude: str = Field("", description="arrays that stay as the server has them: names or patterns, by commas")
    evaluate: Literal["off", "unprotected"] = Field("off", description="whether clients evaluate, without any noise")
    ledger: Path = Field(Path("sordino-ledger.db"), description="the server's ledger")
    federation: str = Field("flower", description="whose ledger it is")
    certificate: Path | None = Field(None, description="where the public certificate is written")
    checkpoint: Path | None = Field(None, description="where the run is kept, so that it goes on after a restart")

    @classmethod
    def read(cls, run_config: Mapping[str, Any]) -> Self:
        """Returns the settings that a run configuration holds now.

        Raises:
            RecipeError: one is missing, misspelt or impossible.
        """
        told = {key.removeprefix(PREFIX).replace("-", "_"): value for key, value in run_config.items() if _ours(key)}
        try:
            return cls.model_validate(told)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])).replace("_", "-")
            where = f"{PREFIX}{field}: " if field else ""
            complaint = first["msg"].removeprefix("Value error, ")
            raise RecipeError(f"{where}{complaint}: correct it in [tool.flwr.app.config.sordino]") from None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.epsilon is None and self.noise_multiplier is None:
            raise ValueError("sordino.epsilon is missing, set it, or sordino.noise-multiplier")
        if (self.select == "fixed") != (self.cohort is not None):
            raise ValueError("sordino.cohort goes with sordino.select = 'fixed'")
        if (self.select == "poisson") != (self.rate is not None):
            raise ValueError("sordino.rate goes with sordino.select = 'poisson'")
        if self.cohort is not None and self.cohort > self.population:
            raise ValueError("sordino.cohort is larger than sordino.population")
        if self.clipping == "adaptive" and self.trust == "local":
            raise ValueError("sordino.clipping = 'adaptive' needs sordino.trust = 'central'")
        if self.adjacency == "replace" and self.trust != "local":
            raise ValueError("sordino.adjacency = 'replace' is promised under sordino.trust = 'local' alone")
        return self

    def excludes(self, name: str) -> bool:
        """Returns whether an array of this name stays as the server has it."""
        patterns = [pattern.strip() for pattern in self.exclude.split(",") if pattern.strip()]
        return any(fnmatchcase(name, pattern) for pattern in patterns)


def _ours(key: str) -> bool:
    return key.startswith(PREFIX)
