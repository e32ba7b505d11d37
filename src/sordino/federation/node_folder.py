"""A node's folder: its keys, its policy, its own ledger, and where it remembers what it has answered.

    node.toml            name and server                           (made by `sordino node init`)
    policy.toml          what the node takes part in               (edit it: it is yours)
    registry.json        the members, signed by the operator       (`sordino node registry FILE` puts a newer one)
    ca.crt               the operator's certificate authority
    keys/    (0700)      signing.pem  transport.pem  transport.pub
    state/   (0700)      ledger.db with its key and heads, filters.json, registry.seen, sums/ (secure sums), states
    data/                the node's records

A ClientApp finds the folder by its SuperNode's `--node-config "folder=…"`: whoever starts the SuperNode says it, never
the run's configuration.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import tomli_w
import torch

from sordino import data
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.ledger import Ledger
from sordino.aggregate.secure.keys import Identity
from sordino.data.client_data import ClientData
from sordino.data.records import Records
from sordino.errors import FederationError, NodeRefused
from sordino.federation import keys
from sordino.federation.columns import chosen
from sordino.federation.node_filter import KeptFilters
from sordino.federation.policy import Policy
from sordino.federation.preparation import prepared
from sordino.federation.registry import MemberRegistry
from sordino.files import PRIVATE, PUBLIC, make_folder, replace_file
from sordino.recipe import Recipe


@dataclass(frozen=True)
class NodeFolder:
    """Reads and writes one node's files."""

    path: Path

    @property
    def policy_file(self) -> Path:
        """What the node takes part in."""
        return self.path / "policy.toml"

    @property
    def registry_file(self) -> Path:
        """The members, signed by the operator."""
        return self.path / "registry.json"

    @property
    def authority(self) -> Path:
        """The certificate that the server's must come from."""
        return self.path / "ca.crt"

    @property
    def transport_key(self) -> Path:
        """The SuperNode's login key."""
        return self.path / "keys" / "transport.pem"

    @property
    def state_dir(self) -> Path:
        """Where the node remembers what it has spent and answered (0700)."""
        return self.path / "state"

    @property
    def sums_dir(self) -> Path:
        """Where its secure sums are kept between two messages."""
        return self.state_dir / "sums"

    @property
    def ledger_file(self) -> Path:
        """The node's own ledger."""
        return self.state_dir / "ledger.db"

    @cached_property
    def about(self) -> dict[str, str]:
        """What `node.toml` says: name and server.

        Raises:
            FederationError: the folder is no node's.
        """
        path = self.path / "node.toml"
        try:
            told = tomllib.loads(path.read_text())
            return {"name": str(told["name"]), "server": str(told["server"])}
        except (OSError, KeyError, tomllib.TOMLDecodeError):
            raise FederationError(f"{self.path} is not a node's folder: make one by `sordino node init`") from None

    @property
    def name(self) -> str:
        """The node's name in the registry."""
        return self.about["name"]

    @property
    def server(self) -> str:
        """host:port of the server that the node connects to."""
        return self.about["server"]

    @cached_property
    def policy(self) -> Policy:
        """The node's policy, read once an object: make a new `NodeFolder` for each message."""
        return Policy.load(self.policy_file)

    @cached_property
    def registry(self) -> MemberRegistry:
        """The members, checked: signed by the policy's operator, in time, not older than one seen before."""
        policy = self.policy
        registry = MemberRegistry.load(self.registry_file, policy.who.operator, self.state_dir / "registry.seen")
        policy.check_federation(registry.federation)
        return registry

    @cached_property
    def identity(self) -> Identity:
        """The node's signing key."""
        return keys.load_identity(self.path / "keys" / "signing.pem")

    @cached_property
    def number(self) -> int:
        """The node's id in rounds: its number in the registry, which must list this node's own key."""
        member = self.registry.member(self.name)
        if member.signing != self.identity.public.hex():
            raise NodeRefused(f"the registry lists another key for {self.name} than keys/signing.pem: ask the operator")
        return member.number

    @property
    def budget(self) -> Budget:
        """What the node may spend."""
        return Budget(self.policy.budget.epsilon, self.policy.budget.delta)

    @property
    def filters(self) -> KeptFilters:
        """What admits releases to the node's ledger."""
        return KeptFilters(self.state_dir / "filters.json")

    def ledger(self, write: bool = True) -> Ledger:
        """Opens the node's own ledger (use it in a `with`); it has one client, 0: the node itself.

        **Formal guarantees**: a ledger that is gone is never begun anew, since what was spent would be forgotten.
        """
        # read-only opens name no clients: finding one would need the key, and there is only one anyway
        return Ledger.open(self.ledger_file, self.policy.who.federation, [self.name] if write else None, write=write)

    def records(self) -> Records:
        """Returns the node's own records, as far as its policy lets them be used.

        Raises:
            DataError, NodeRefused: the file is missing, malformed, or holds more than the policy allows.
        """
        own = self.policy.data
        options: dict[str, object] = {"file": self.path / own.file, "test": 0.0}
        if own.kind == "csv":
            options |= {"label": own.label, "class_names": own.class_names or (), "columns": own.columns or ()}
            options |= {"categories": own.categories, "missing": own.missing, "decimal": own.decimal}
        records = data.load(own.kind, self.path, **options)
        if own.most_records is not None and len(records.train_y) > own.most_records:
            # the operator reads this sentence too, and the number of records is nobody else's business
            raise NodeRefused(
                f"{own.file} holds more records than the policy's data.most_records, {own.most_records}: remove some, "
                "or raise it"
            )
        return records

    def data(self, recipe: Recipe) -> ClientData:
        """Returns the node's records as one client's, prepared as the recipe says (ranges, scaling, features).

        **Formal guarantees**: the file is read as the policy says and nobody else, so whether it can be read is no
        answer to a plan; what the plan makes of it refuses no value (`prepared`, `silent`).
        """
        records = chosen(self.policy.data, recipe.data, self.records())
        x = prepared(recipe, self.name, records, silent=True)
        # numbers to predict may all be whole by chance, which is nobody's business
        y = records.train_y if recipe.public.classes else records.train_y.to(torch.float32)
        return ClientData(np.array([self.number]), np.array([0, len(x)]), x, y)

    def make(self, name: str, server: str, policy: Policy, authority: bytes) -> None:
        """Makes a new node: keys, policy, an empty ledger of its own.

        Raises:
            FederationError: there is a node already; its keys and its ledger are never overwritten.
        """
        if (self.path / "node.toml").exists():
            raise FederationError(f"{self.path} holds a node already: name another folder")
        make_folder(self.path, PUBLIC)
        make_folder(self.path / "data", PRIVATE)
        for private in (self.path / "keys", self.state_dir, self.sums_dir):
            make_folder(private, PRIVATE)
        keys.make_identity(self.path / "keys" / "signing.pem")
        keys.make_transport_key(self.transport_key)
        replace_file(self.policy_file, policy.to_toml().encode(), PRIVATE)
        replace_file(self.authority, authority, PUBLIC)
        Ledger.open(self.ledger_file, policy.who.federation, [name], create=True, delta=policy.budget.delta).close()
        # last, so that a folder with a node.toml is a whole one
        replace_file(self.path / "node.toml", tomli_w.dumps({"name": name, "server": server}).encode(), PUBLIC)

    def application(self) -> dict[str, str]:
        """Returns what to send to the operator: public halves of the keys, and nothing else."""
        ssh = self.transport_key.with_suffix(".pub").read_text().strip()
        return {"name": self.name, "signing": self.identity.public.hex(), "transport": ssh}

    def accept_registry(self, path: Path) -> MemberRegistry:
        """Checks a registry that the operator sent, and puts it in place of the old one."""
        registry = MemberRegistry.load(path, self.policy.who.operator, self.state_dir / "registry.seen")
        self.policy.check_federation(registry.federation)
        replace_file(self.registry_file, registry.to_json().encode(), PUBLIC)
        self.__dict__.pop("registry", None)
        return registry
