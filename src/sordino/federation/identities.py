"""What a certificate says about a deployment: who sees what, who the members are, and what ran."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from sordino._version import __version__
from sordino.federation import keys
from sordino.federation.folder import FederationFolder
from sordino.federation.registry import MemberRegistry
from sordino.runs.context import RunContext


def deployed(context: RunContext, folder: FederationFolder, registry: MemberRegistry, app_hash: str) -> Iterator[str]:
    """Yields what a certificate says about a federation across machines, a sentence each.

    **Formal guarantees**: members are told by number and by one digest of all their keys, which whoever holds the
    registry can recompute; no name, and nothing that depends on who took part.
    """
    yield f"the server's operator sees {_server(context)}, who was asked and answered, and when"
    yield "another node sees the model and the public settings of each round that asks it, and who else was asked"
    yield "an outsider on the network sees that nodes and server talk, how much and when: contents are under TLS"
    yield (
        f"members: {len(registry.active)} signing keys, digest {registry.digest}, registry version "
        f"{registry.version} signed by operator key {folder.operator.public.hex()}"
    )
    yield f"TLS: server certificate with SHA-256 fingerprint {keys.fingerprint(folder.server_certificate)}"
    yield f"app: FAB hash {app_hash or 'not told'}; nodes run the sordino that they installed themselves"
    yield f"versions: sordino {__version__}, flwr {_version('flwr')}, torch {_version('torch')}"


def _server(context: RunContext) -> str:
    return {
        "central": "every node's message before noise is added",
        "local": "every node's message, with the noise that the node added",
        "distributed": "masked messages, of which only sums can be opened",
    }[context.mechanism.trust]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
