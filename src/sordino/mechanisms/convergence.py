"""Constants of the loss as settings of a recipe; the bound itself is `account.plan.convergence`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sordino.account.plan.convergence import LossConstants


class ConvergenceOptions(BaseModel):
    """Constants of the loss, which the paper assumes known and does not print."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    gap: float = Field(gt=0, description="Θ = F(w_0) − F(w*): how much there is to gain")
    smoothness: float = Field(gt=0, description="L: Lipschitz constant of the gradient")
    polyak: float = Field(gt=0, description="ρ of the Polyak–Łojasiewicz condition")
    dissimilarity: float = Field(1.0, gt=0, description="B: how much clients' gradients differ from the average one")
    lipschitz: float = Field(1.0, ge=0, description="L_c: Lipschitz constant of the loss")
    divergence: float = Field(0.0, ge=0, description="γ: how far local gradients lie from the global one")

    def constants(self) -> LossConstants:
        """Returns the constants for the bound."""
        return LossConstants(**self.model_dump())
