"""`sordino node`: a member's own machine: its keys, its policy, its ledger, its SuperNode."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from sordino import strict_json

node = typer.Typer(
    help="Be a member of a federation, on your own machine and within your own policy.", no_args_is_help=True
)

_Folder = Annotated[Path, typer.Argument(help="the node's folder")]
_AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")]


@node.command()
def init(
    folder: _Folder,
    join: Annotated[Path, typer.Option(help="join.json, as the operator sent it")],
    name: Annotated[str, typer.Option(help="the node's name in the federation: letters, digits, dots, dashes")],
    policy: Annotated[Path | None, typer.Option(help="policy to start from (default: a cautious one)")] = None,
) -> None:
    """Make a node: keys, an empty ledger of its own, and a policy to edit; print what to send to the operator."""
    from sordino.errors import FederationError
    from sordino.federation.node_folder import NodeFolder
    from sordino.federation.policy import Policy, WhoPolicy
    from sordino.files import PUBLIC, replace_file

    try:
        told = json.loads(join.read_text())
        who = WhoPolicy(federation=told["federation"], operator=told["operator"], servers=(told["server"],))
        authority, server = str(told["authority"]).encode(), str(told["server"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise FederationError(f"--join {join} is not a federation's join.json: get it from the operator") from None
    made = NodeFolder(folder)
    chosen = Policy(who=who) if policy is None else Policy.load(policy).model_copy(update={"who": who})
    made.make(name, server, chosen, authority)
    application = made.path / "application.json"
    replace_file(application, f"{strict_json.dumps(made.application(), indent=2)}\n".encode(), PUBLIC)
    print(f"made {folder} for {name} of {who.federation}")
    print(f"  compare the operator's key with them, by telephone: {who.operator}")
    print(f"  read and edit   {made.policy_file}  (what this node takes part in, and its own ε)")
    print(f"  put records at  {made.path / 'data' / 'records.npz'}  (arrays x and y; or set [data] in the policy)")
    print(f"  send            {application}  (public keys, nothing else)")
    print(f"  then, with the registry that comes back: sordino node registry {folder} registry.json")
    print(f"  and start:      sordino node start {folder}")


@node.command()
def registry(
    folder: _Folder, file: Annotated[Path, typer.Argument(help="registry.json, as the operator sent it")]
) -> None:
    """Take in a registry: checked against the operator's key, refused if it is older than one seen before."""
    from sordino.federation.node_folder import NodeFolder
    from sordino.federation.registry import MemberRegistry

    own = NodeFolder(folder)
    known = set(MemberRegistry.read(own.registry_file).keys) if own.registry_file.exists() else set()
    taken = own.accept_registry(file)
    until, now = f"{taken.valid_until:%Y-%m-%d}", set(taken.keys)
    print(f"registry version {taken.version} of {taken.federation}: {len(now)} members, good until {until}")
    for words, names in (("new ", now - known), ("left", known - now)):
        if names:
            print(f"  {words}  {', '.join(sorted(names))}")
    print(f"  digest of their keys: {taken.digest}")
    print("  whom the operator signs for counts as a member in secure sums: compare names and digest with members")
    print("  that you know, by telephone")
    print(f"{own.name} is member {own.number}")


@node.command()
def check(folder: _Folder) -> None:
    """Check everything that a start needs: policy, registry, keys, ledger, records."""
    from sordino.federation.node_folder import NodeFolder
    from sordino.federation.supernode import arguments

    own = NodeFolder(folder)
    arguments(own, 0)
    print(f"policy: ε at most {own.policy.budget.epsilon:g} over all runs, {', '.join(own.policy.mechanism.allowed)}")
    print(f"registry: version {own.registry.version}, {own.name} is member {own.number} of {len(own.registry.active)}")
    with own.ledger(write=False) as ledger:
        ledger.verify()
        print(f"ledger: {len(ledger.entries)} releases, unbroken")
    records = own.records()
    print(f"records: {len(records.train_y)} of shape {list(records.train_x.shape[1:])}")


@node.command()
def start(
    folder: _Folder,
    port: Annotated[int | None, typer.Option(help="local port of the SuperNode (default: a free one)")] = None,
) -> None:
    """Run the node's SuperNode until it is told to end; systemd can start it, and start it again."""
    from sordino.federation.node_folder import NodeFolder
    from sordino.federation.processes import free_port
    from sordino.federation.supernode import arguments

    own = NodeFolder(folder)
    arguments(own, 0)
    _ = own.number  # says now what would else be said at the first message
    print(f"{own.name} looks for {own.server}; it answers within {own.policy_file}", flush=True)
    command = [sys.executable, "-m", "sordino.federation.supernode", str(folder), str(port or free_port())]
    os.execv(command[0], command)


@node.command()
def certificate(
    folder: Annotated[Path | None, typer.Argument(help="the node's folder")] = None,
    as_json: _AsJson = False,
    check: Annotated[Path | None, typer.Option(help="check a statement (JSON) that a node made")] = None,
    key: Annotated[str | None, typer.Option(help="key that must have signed it (from the registry)")] = None,
) -> None:
    """Print what the federation cost this node, from its own ledger, signed with its own key."""
    from sordino.errors import FederationError
    from sordino.federation.node_folder import NodeFolder
    from sordino.federation.node_statement import check as checked
    from sordino.federation.node_statement import state

    if (folder is None) == (check is None):
        raise FederationError("name the node's folder, or a statement by --check FILE")
    if check is not None:
        try:
            text = check.read_text()
        except (OSError, UnicodeDecodeError):
            raise FederationError(f"--check {check} is not there or is no text: name a node's statement") from None
        told = checked(text, key)
        print(f"signed by {told.node} ({told.signing_key}): the statement holds as it was made on {told.time}")
    elif folder is not None:
        statement = state(NodeFolder(folder))
        print(statement.to_json() if as_json else statement.text(), end="")
