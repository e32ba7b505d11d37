"""A node's own policy: what it takes part in, whatever the server asks. It lies on the node and is read there alone."""

from __future__ import annotations

import math
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sordino.aggregate.secure.policy import SumPolicy
from sordino.errors import FederationError, NodeRefused
from sordino.types import Trust

Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A public Ed25519 key, in hex."""


class PolicySection(BaseModel):
    """A table of the policy file: unknown names are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class WhoPolicy(PolicySection):
    """Whom the node listens to."""

    federation: str = Field(min_length=1, max_length=200, description="name of the only federation that may ask")
    operator: Hex = Field(description="the operator's public key: it signs the registry and every run (from them)")
    servers: tuple[str, ...] = Field(min_length=1, description="host:port of the servers that the node connects to")


class MechanismPolicy(PolicySection):
    """Which mechanisms, and how strong they must be."""

    allowed: tuple[str, ...] = Field(("dropout_robust", "dp_sgd"), min_length=1, description="names of mechanisms")
    trusts: tuple[Trust, ...] = Field(
        ("local", "distributed"), min_length=1, description="how noise may be applied; `central` trusts the server"
    )
    largest_clip_norm: float = Field(
        100.0,
        gt=0,
        description="no larger clip norm is accepted; noise grows with it, so privacy does not depend on it",
    )
    least_noise_multiplier: float = Field(0.5, gt=0, description="no smaller noise multiplier is accepted")
    smallest_cohort: int = Field(5, ge=1, description="fewest clients that a round asks")


class BudgetPolicy(PolicySection):
    """What the node may spend, over all runs, by its own ledger."""

    epsilon: float = Field(
        2.0, gt=0, description="ε that no promise of the node exceeds; a run that would break an older one is refused"
    )
    delta: float = Field(1e-5, gt=0, lt=1, description="δ of that ε")
    accountant: Literal["pld", "rdp", "exact"] = Field(
        "pld", description="who prices what was released, beside the filter"
    )


class SecurePolicy(PolicySection):
    """Floors of a secure sum (see `docs/secure-aggregation.md`)."""

    smallest_threshold: int = Field(3, ge=1, description="fewest holders that may recover a secret of this node")
    corrupt: float = Field(0.0, ge=0, lt=0.5, description="share of the others that may work with the server")
    security_bits: int = Field(40, ge=20, le=128, description="security of a sparse graph, in bits")
    releases: int = Field(1, ge=1, le=8, description="how often the vector of one round may be sent (attempts)")


class SizePolicy(PolicySection):
    """How large a run may be; beyond that it is refused before any room is made for it."""

    parameters: int = Field(50_000_000, ge=1, description="most parameters of a model")
    values: int = Field(10_000_000, ge=1, description="most values in one record")
    members: int = Field(100_000, ge=1, description="most members of a federation")
    rounds: int = Field(10_000, ge=1, description="most rounds of a run")
    steps: int = Field(100_000, ge=1, description="most local steps, or epochs, a round")


class DataPolicy(PolicySection):
    """Which records may be used."""

    kind: Literal["csv", "npz"] = Field("npz", description="format of the file")
    file: Path = Field(Path("data/records.npz"), description="the file, as seen from the node's folder")
    label: str = Field("label", description="column to predict (csv)")
    columns: tuple[str, ...] | None = Field(
        None, min_length=1, description="columns that may be used, in this order (csv; all, as they come)"
    )
    class_names: tuple[str, ...] | None = Field(None, min_length=2, description="values of the label column (csv)")
    missing: Literal["refuse", "middle", "leave_out"] = Field(
        "refuse", description="gaps: refused, the middle of the declared range, or the record is left out (csv)"
    )
    decimal: Literal["auto", ".", ","] = Field(
        "auto", description="decimal mark of numbers (csv; `auto`: a comma only where cells are parted otherwise)"
    )
    most_records: int | None = Field(None, ge=1, description="refuse to take part with more records than this")
    categories: dict[str, tuple[str, ...]] | None = Field(
        None, description="columns of words, with the words that each can hold, as the recipe declares them (csv)"
    )


class Policy(PolicySection):
    """What a node takes part in.

    **Formal guarantees**: nothing of a policy comes from the server; what is outside of it is refused before the node
    computes anything (`federation.client_app`), in a sentence that names the setting.
    """

    who: WhoPolicy
    mechanism: MechanismPolicy = Field(default_factory=MechanismPolicy)
    budget: BudgetPolicy = Field(default_factory=BudgetPolicy)
    secure: SecurePolicy = Field(default_factory=SecurePolicy)
    size: SizePolicy = Field(default_factory=SizePolicy)
    data: DataPolicy = Field(default_factory=DataPolicy)

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Reads a policy file.

        Raises:
            FederationError: one sentence that names the setting and the remedy.
        """
        try:
            return _parsed(path.read_bytes())
        except OSError as error:
            raise FederationError(f"policy {path} cannot be read ({error.strerror}): run `sordino node init`") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise FederationError(f"policy {path} is not valid TOML ({error}): correct that line") from None
        except ValidationError as error:
            raise FederationError(_sentence(path, error)) from None

    def check_server(self, server: str) -> None:
        """Raises NodeRefused unless the node may connect to this server."""
        if server not in self.who.servers:
            raise NodeRefused(
                f"server {server} is not in the policy's who.servers ({', '.join(self.who.servers)}): add it there if "
                "you trust it"
            )

    def check_federation(self, federation: str) -> None:
        """Raises NodeRefused unless this is the node's federation."""
        if federation != self.who.federation:
            raise NodeRefused(f"federation {federation!r} is not the policy's who.federation {self.who.federation!r}")

    def check_mechanism(self, name: str, trust: str, clip_norm: float, noise_multiplier: float, cohort: int) -> None:
        """Raises NodeRefused unless a round's terms are within the policy's [mechanism]; NaN is within nothing."""
        own = self.mechanism
        if name not in own.allowed:
            raise NodeRefused(f"mechanism {name!r} is not in the policy's mechanism.allowed ({', '.join(own.allowed)})")
        if trust not in own.trusts:
            raise NodeRefused(f"{trust} trust is not in the policy's mechanism.trusts ({', '.join(own.trusts)})")
        if not 0 < clip_norm <= own.largest_clip_norm:
            raise NodeRefused(
                f"clip norm {clip_norm:g} is not above 0 and at most the policy's mechanism.largest_clip_norm "
                f"{own.largest_clip_norm:g}"
            )
        if not own.least_noise_multiplier <= noise_multiplier < math.inf:
            raise NodeRefused(
                f"noise multiplier {noise_multiplier:g} is infinite, or below the policy's "
                f"mechanism.least_noise_multiplier {own.least_noise_multiplier:g}"
            )
        if not cohort >= own.smallest_cohort:
            raise NodeRefused(
                f"a cohort of {cohort} is below the policy's mechanism.smallest_cohort {own.smallest_cohort}"
            )

    def sum_policy(self, mechanism: bytes | None = None) -> SumPolicy:
        """Returns the floors of a secure sum; `mechanism` is the digest that this node computed from the terms."""
        own = self.secure
        return SumPolicy(
            smallest_cohort=self.mechanism.smallest_cohort,
            smallest_threshold=own.smallest_threshold,
            corrupt=own.corrupt,
            security_bits=own.security_bits,
            releases=own.releases,
            mechanism=mechanism,
        )

    def to_toml(self) -> str:
        """Returns the policy as TOML, every setting with what it means as a comment above it."""
        told = self.model_dump(mode="json", exclude_none=True)
        return "\n".join(_explained(name, type(getattr(self, name)), told[name]) for name in type(self).model_fields)


@lru_cache(maxsize=256)  # by its bytes: a policy that was edited is another one
def _parsed(data: bytes) -> Policy:
    return Policy.model_validate(tomllib.loads(data.decode("utf-8")))


def _explained(name: str, section: type[BaseModel], values: dict[str, object]) -> str:
    """Returns one table of the file; settings that are not set are shown as comments."""
    lines = [f"[{name}]  # {(section.__doc__ or '').splitlines()[0]}"]
    for field, about in section.model_fields.items():
        lines.append(f"# {about.description}")
        told = values.get(field)
        shown = {name: {field: told}} if isinstance(told, dict) else {field: told}  # a table of its own: the last one
        lines.append(f"# {field} =" if told is None else tomli_w.dumps(shown).rstrip())
    return "\n".join(lines) + "\n"


def _sentence(path: Path, error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"policy {path}: {field} is not a setting; remove it, or correct its name"
    if first["type"] == "missing":
        return f"policy {path}: {field} is missing; add it"
    return f"policy {path}: {field}: {first['msg'][0].lower()}{first['msg'][1:]} (it is {first['input']!r}); correct it"
