"""The operator's folder of a federation.

    federation.toml        name, and where nodes find the server
    registry.json          the members, signed by the operator          (send it to every node)
    join.json              what a new node needs                        (send it to whoever wants to join)
    templates/             a recipe, a policy and a file of records to start from
    recipe.toml            what is trained
    test.npz               public records to measure the model on, if there are any
    ca/        (0700)      the certificate authority, the server's TLS key and certificate
    operator/  (0700)      signing.pem: signs the registry and every run
    members/               each member's public login key, for the SuperLink
    app/                   the Flower app, which holds no code of its own: nodes run the sordino that they installed
    superlink/ (0700)      the SuperLink's database and logs
    run/                   the run folder, with the server's ledger (see `runs/folder.py`)
    status.json            what is happening now (`sordino federation status`)

The ServerApp finds it by the environment variable SORDINO_FEDERATION, which `sordino federation run` sets for the
SuperLink that starts it.
"""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli_w

from sordino.aggregate.secure.keys import Identity
from sordino.errors import FederationError
from sordino.federation import keys
from sordino.federation.app_template import write_app
from sordino.federation.policy import WhoPolicy
from sordino.federation.registry import Member, MemberRegistry
from sordino.federation.templates import write_templates
from sordino.files import PRIVATE, PUBLIC, make_folder, replace_file
from sordino.recipe import Recipe

VARIABLE = "SORDINO_FEDERATION"
"""Tells the ServerApp which folder is its own."""
REGISTRY_DAYS = 90
"""How long a registry is good for, unless told otherwise."""


@dataclass(frozen=True)
class FederationFolder:
    """Reads and writes the operator's files."""

    path: Path

    @classmethod
    def here(cls) -> FederationFolder:
        """Returns the folder that the environment names.

        Raises:
            FederationError: it names none.
        """
        if VARIABLE not in os.environ:
            raise FederationError(f"${VARIABLE} is not set: start the server by `sordino federation run`")
        return cls(Path(os.environ[VARIABLE]))

    @property
    def registry_file(self) -> Path:
        """The members, signed."""
        return self.path / "registry.json"

    @property
    def recipe_file(self) -> Path:
        """What is trained."""
        return self.path / "recipe.toml"

    @property
    def run_dir(self) -> Path:
        """The run folder."""
        return self.path / "run"

    @property
    def app_dir(self) -> Path:
        """The Flower app."""
        return self.path / "app"

    @property
    def superlink_dir(self) -> Path:
        """The SuperLink's database, and the logs of all processes that were started from here."""
        return self.path / "superlink"

    @property
    def status_file(self) -> Path:
        """What is happening now."""
        return self.path / "status.json"

    @property
    def serverapp_pid(self) -> Path:
        """Holds the process number of the ServerApp that runs, or ran last."""
        return self.superlink_dir / "serverapp.pid"

    @property
    def authority(self) -> keys.Authority:
        """The certificate authority."""
        return keys.Authority(self.path / "ca" / "ca.crt", self.path / "ca" / "ca.key")

    @property
    def server_certificate(self) -> Path:
        """The server's TLS certificate."""
        return self.path / "ca" / "server.crt"

    @property
    def server_key(self) -> Path:
        """The server's TLS key."""
        return self.path / "ca" / "server.key"

    @cached_property
    def about(self) -> dict[str, Any]:
        """What `federation.toml` says: name, hosts, port.

        Raises:
            FederationError: the folder is no federation's.
        """
        try:
            told = tomllib.loads((self.path / "federation.toml").read_text())
            return {"name": str(told["name"]), "hosts": [str(h) for h in told["hosts"]], "port": int(told["port"])}
        except (OSError, KeyError, TypeError, ValueError):
            raise FederationError(
                f"{self.path} is not a federation's folder: make one by `sordino federation init`"
            ) from None

    @property
    def name(self) -> str:
        """The federation's name."""
        return str(self.about["name"])

    @property
    def address(self) -> str:
        """host:port under which nodes find the server."""
        return f"{self.about['hosts'][0]}:{self.about['port']}"

    @cached_property
    def operator(self) -> Identity:
        """The operator's signing key."""
        return keys.load_identity(self.path / "operator" / "signing.pem")

    @property
    def registry(self) -> MemberRegistry:
        """The members, as they are now; read anew each time, since members join and leave during a run."""
        return MemberRegistry.load(self.registry_file, self.operator.public.hex())

    @property
    def recipe(self) -> Recipe:
        """What is trained."""
        return Recipe.load(self.recipe_file)

    def make(self, name: str, hosts: tuple[str, ...], port: int, days: int = REGISTRY_DAYS) -> None:
        """Makes a new federation: authority, server certificate, operator's key, an empty registry.

        Raises:
            FederationError: there is one already; its keys are never overwritten.
        """
        if (self.path / "federation.toml").exists():
            raise FederationError(f"{self.path} holds a federation already: name another folder")
        make_folder(self.path, PUBLIC)
        for private in ("ca", "operator", "superlink"):
            make_folder(self.path / private, PRIVATE)
        make_folder(self.path / "members", PUBLIC)
        write_app(self.app_dir, name)
        self.authority.make(name)
        self.authority.issue(_with_this_machine(hosts), self.server_certificate, self.server_key)
        operator = keys.make_identity(self.path / "operator" / "signing.pem")
        now = datetime.now(UTC).replace(microsecond=0)
        empty = MemberRegistry(
            federation=name, version=1, issued=now, valid_until=now + timedelta(days=days), members=()
        )
        self._publish(empty.sign(operator))
        replace_file(self.path / "join.json", self._invitation(name, hosts[0], port, operator).encode(), PUBLIC)
        server = f"{hosts[0]}:{port}"
        who = WhoPolicy(federation=name, operator=operator.public.hex(), servers=(server,))
        write_templates(self.path / "templates", who)
        about = {"name": name, "hosts": list(hosts), "port": port}
        replace_file(self.path / "federation.toml", tomli_w.dumps(about).encode(), PUBLIC)

    def _invitation(self, name: str, host: str, port: int, operator: Identity) -> str:
        """Returns what a new node needs to know: all of it is public."""
        told = {
            "federation": name,
            "server": f"{host}:{port}",
            "operator": operator.public.hex(),
            "authority": self.authority.certificate.read_text(),
        }
        return json.dumps(told, indent=2) + "\n"

    def put_recipe(self, path: Path | None) -> Recipe:
        """Puts a recipe into the folder, to be trained; None keeps the one that is there.

        Raises:
            FederationError: there is none, or a run was begun with another one.
        """
        if path is None and not self.recipe_file.exists():
            raise FederationError(
                f"{self.path} ({self.name}) has no recipe yet: name one, `sordino federation run RECIPE`"
            )
        recipe = Recipe.load(path or self.recipe_file)
        begun = (self.run_dir / "private" / "run.json").exists()
        if begun and self.recipe_file.exists() and self.recipe != recipe:
            raise FederationError(
                f"{self.run_dir} was begun with another recipe: leave RECIPE out to resume it, or move that folder away"
            )
        if path is not None:
            replace_file(self.recipe_file, recipe.to_toml().encode(), PUBLIC)
        return recipe

    def renew_server_certificate(self) -> None:
        """Makes a new TLS key and certificate for the server, by the same authority: nodes need nothing new."""
        hosts = _with_this_machine(tuple(self.about["hosts"]))
        self.authority.issue(hosts, self.server_certificate, self.server_key)

    def enrol(self, *applications: dict[str, str], days: int = REGISTRY_DAYS) -> MemberRegistry:
        """Takes members in, all of them or none, by what `sordino node init` made; returns the next registry.

        Raises:
            FederationError: a key or name is taken, or is not a key.
        """
        old = self.registry
        new = [_member(told, old.population + place) for place, told in enumerate(applications)]
        registry = old.next((*old.members, *new), days, self.operator)
        for told in applications:
            replace_file(self.member_key(told["name"]), told["transport"].encode() + b"\n", PUBLIC)
        return self._publish(registry)

    def dismiss(self, name: str, days: int = REGISTRY_DAYS) -> MemberRegistry:
        """Lets a member leave: it is not asked again, and its number and keys stay taken."""
        old = self.registry
        leaver = old.member(name)
        members = tuple(m.model_copy(update={"left": True}) if m == leaver else m for m in old.members)
        return self._publish(old.next(members, days, self.operator))

    def renew(self, days: int = REGISTRY_DAYS) -> MemberRegistry:
        """Signs the same members anew, for so many days from now (also when the old registry has expired)."""
        old = MemberRegistry.read(self.registry_file)
        return self._publish(old.next(old.members, days, self.operator))

    def _publish(self, registry: MemberRegistry) -> MemberRegistry:
        replace_file(self.registry_file, registry.to_json().encode(), PUBLIC)
        return registry

    def member_key(self, name: str) -> Path:
        """Returns where a member's public login key lies."""
        return self.path / "members" / f"{name}.pub"


def _with_this_machine(hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the server, with those under which its own processes call it."""
    return tuple(dict.fromkeys((*hosts, "localhost", "127.0.0.1"))) if hosts else ()


def _member(application: dict[str, str], number: int) -> Member:
    """Returns the member that an application asks for.

    Raises:
        FederationError: it lacks something, or a name or key of it is none.
    """
    try:
        name, signing, ssh = (application[field] for field in ("name", "signing", "transport"))
    except (KeyError, TypeError) as error:
        raise FederationError(f"the application lacks {error}: send what `sordino node init` made") from None
    try:
        return Member(name=name, number=number, signing=signing, transport=keys.transport_fingerprint(ssh))
    except ValueError:
        raise FederationError(
            f"member {name!r} cannot be enrolled: its name takes letters, digits, dots and dashes, its signing key is "
            "64 hex digits"
        ) from None
