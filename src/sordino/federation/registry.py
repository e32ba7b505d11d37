"""The registry: who the members of a federation are, signed by its operator, and never older than one seen before.

It reaches each node out of band (`sordino node registry FILE`). A server that invites a key that is not in it invents a
member, and is refused: without that, a secure sum of one node and nine inventions would show the one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from sordino.account.ledger.keys import signed
from sordino.aggregate.secure.keys import Identity
from sordino.errors import FederationError
from sordino.federation.policy import Hex
from sordino.files import PRIVATE, replace_file

CLOCK_SKEW = timedelta(minutes=10)
"""By how much two clocks may differ before a node says so."""

_PURPOSE = b"sordino registry 1\n"


class Member(BaseModel):
    """One member, for good: neither its number nor its keys are ever given to another."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
    number: int = Field(ge=0, lt=2**20)
    """Its id in rounds, cohorts and secure sums."""
    signing: Hex
    """Its public Ed25519 key."""
    transport: Hex
    """Fingerprint of its SuperNode's login key."""
    left: bool = False
    """Whether it has left the federation: it is not asked any more, and its number stays taken."""


class MemberRegistry(BaseModel):
    """The members of a federation.

    **Formal guarantees**: `load` returns only what the trusted operator signed for this federation, that has not
    expired, and that is not older than any registry this node has accepted; of one version there is one content.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    federation: str = Field(min_length=1, max_length=200)
    version: int = Field(ge=1)
    issued: AwareDatetime
    valid_until: AwareDatetime
    members: tuple[Member, ...]
    signature: Annotated[str, Field(pattern=r"^([0-9a-f]{128})?$")] = ""

    @model_validator(mode="after")
    def _distinct(self) -> MemberRegistry:
        for field in ("name", "number", "signing", "transport"):
            seen: dict[object, str] = {}
            for member in self.members:
                value = getattr(member, field)
                if value in seen:
                    raise ValueError(
                        f"{member.name} and {seen[value]} have the same {field} key or name ({str(value)[:16]}): every "
                        "member makes its own by `sordino node init`"
                    )
                seen[value] = member.name
        return self

    @property
    def keys(self) -> dict[str, str]:
        """Name → public signing key, in hex, of those who have not left."""
        return {member.name: member.signing for member in self.active}

    @property
    def active(self) -> tuple[Member, ...]:
        """Those who have not left, by number."""
        return tuple(sorted((m for m in self.members if not m.left), key=lambda member: member.number))

    @property
    def population(self) -> int:
        """One more than the largest number ever given: numbers run from 0, those of members that left included."""
        return 1 + max((member.number for member in self.members), default=-1)

    @property
    def names(self) -> list[str]:
        """The name of each number, for the ledger; members that left keep theirs."""
        named = {member.number: member.name for member in self.members}
        return [named.get(number, f"#{number}") for number in range(self.population)]

    @cached_property
    def public_keys(self) -> dict[int, bytes]:
        """Number → public signing key of those who have not left, as a secure sum wants them."""
        return {member.number: bytes.fromhex(member.signing) for member in self.active}

    @property
    def digest(self) -> str:
        """One digest of all members' keys: two members that see the same one were shown the same members."""
        lines = "\n".join(f"{member.number} {member.signing}" for member in self.active)
        return hashlib.sha256(lines.encode()).hexdigest()

    def member(self, name: str) -> Member:
        """Returns a member by name.

        Raises:
            FederationError: there is none, or it has left.
        """
        found = next((member for member in self.members if member.name == name), None)
        if found is None:
            known = ", ".join(self.keys) or "nobody"
            raise FederationError(f"{name!r} is not in registry version {self.version} ({known}): enrol it first")
        if found.left:
            raise FederationError(f"{name!r} has left the federation (registry version {self.version}): enrol it anew")
        return found

    def message(self) -> bytes:
        """Returns the bytes that are signed: everything but the signature, written in one way."""
        told = self.model_dump(mode="json", exclude={"signature"})
        return _PURPOSE + json.dumps(told, sort_keys=True, separators=(",", ":")).encode()

    def sign(self, operator: Identity) -> MemberRegistry:
        """Returns the registry with the operator's signature."""
        return self.model_copy(update={"signature": operator.sign(self.message()).hex()})

    def next(self, members: tuple[Member, ...], days: int, operator: Identity) -> MemberRegistry:
        """Returns the next version, with these members and valid for so many days from now, signed.

        Raises:
            FederationError: two members share a key, a name or a number.
        """
        now = datetime.now(UTC).replace(microsecond=0)
        told = {"federation": self.federation, "version": self.version + 1, "issued": now, "members": members}
        try:
            return MemberRegistry(**told, valid_until=now + timedelta(days=days)).sign(operator)
        except ValidationError as error:
            raise FederationError(_reason(error)) from None

    def to_json(self) -> str:
        """Returns the file's text."""
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def load(
        cls, path: Path, trusted_operator_key: str, seen: Path | None = None, now: datetime | None = None
    ) -> MemberRegistry:
        """Reads a registry and refuses what cannot be trusted.

        Args:
            path: the file.
            trusted_operator_key: public key (hex) that must have signed it; from the node's policy, never from the
                file.
            seen: where this node remembers the newest version that it accepted; None remembers nothing.
            now: the time; by default the clock's.

        Raises:
            FederationError: one sentence that says what is wrong with it.
        """
        registry = cls.read(path)
        if not _is_signed(registry, trusted_operator_key):
            raise FederationError(
                f"registry {path} is not signed by the operator key {trusted_operator_key[:16]}…: get it from the "
                "operator again, or correct who.operator in the policy"
            )
        registry.check_time(path, now or datetime.now(UTC))
        if seen is not None:
            registry._remember(path, seen)
        return registry

    @classmethod
    def read(cls, path: Path) -> MemberRegistry:
        """Reads a registry's file, and trusts nothing of it."""
        try:
            return _parsed(path.read_bytes())
        except OSError as error:
            raise FederationError(
                f"registry {path} cannot be read ({error.strerror}): get it from the operator"
            ) from None
        except ValidationError as error:
            raise FederationError(f"registry {path}: {_reason(error)}") from None

    def check_time(self, path: Path, now: datetime) -> None:
        """Raises FederationError if the registry has expired, or was signed in this clock's future."""
        if now > self.valid_until:
            raise FederationError(
                f"registry {path} (version {self.version}) expired on {self.valid_until:%Y-%m-%d %H:%M} UTC: get a new "
                "one from the operator, or set this machine's clock"
            )
        if now + CLOCK_SKEW < self.issued:
            raise FederationError(
                f"registry {path} was signed at {self.issued:%Y-%m-%d %H:%M} UTC and this machine's clock says "
                f"{now.astimezone(UTC):%Y-%m-%d %H:%M}: set the clock"
            )

    def _remember(self, path: Path, seen: Path) -> None:
        """Refuses an older version than one seen before, or another content of the same; else remembers it."""
        with seen.with_name(f"{seen.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            version, signature = _seen(seen)
            if self.version < version:
                raise FederationError(
                    f"registry {path} is version {self.version} and this node has seen version {version}: get the "
                    "newest from the operator"
                )
            if self.version == version and self.signature != signature:
                raise FederationError(
                    f"registry {path} is another version {version} than the one this node has seen: ask the operator "
                    "why there are two"
                )
            if self.version > version:
                told = json.dumps({"version": self.version, "signature": self.signature})
                replace_file(seen, told.encode(), PRIVATE)


@lru_cache(maxsize=16)  # by its bytes: nothing that was checked once can be another thing later
def _parsed(data: bytes) -> MemberRegistry:
    return MemberRegistry.model_validate_json(data)


@lru_cache(maxsize=16)
def _is_signed(registry: MemberRegistry, key: str) -> bool:
    return signed(key, registry.message(), registry.signature)


def _seen(path: Path) -> tuple[int, str]:
    if not path.exists():
        return 0, ""
    try:
        told = json.loads(path.read_text())
        return int(told["version"]), str(told["signature"])
    except (ValueError, KeyError, TypeError):
        raise FederationError(
            f"{path} cannot be read: restore it, without it an older registry could be passed off as new"
        ) from None


def _reason(error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{field}: {message}; get it from the operator again" if field else message
