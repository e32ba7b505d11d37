"""Runs the operator's SuperLink: Flower's own, over TLS, with this installation's launchers and a closed control door.

`python -m sordino.federation.superlink FOLDER` (which is what `sordino federation serve` runs).

Flower's SuperLink has one port for nodes, for the operator's commands and for its own processes, and asks nobody who
starts runs or registers nodes who they are. So commands and processes are let in from this machine alone.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any

from sordino.errors import FederationError
from sordino.federation.folder import VARIABLE, FederationFolder
from sordino.federation.own_code import put_first, write_launchers
from sordino.federation.settings import offline, require_flower
from sordino.federation.zygote import begin, load

_NODES = "/v1/fleet"
"""What nodes may ask for. Everything else is for this machine."""

BUSY_MILLISECONDS = 60_000
"""How long the SuperLink waits for its own database; Flower's 5,000 pass on a machine that is busy."""

Scope = MutableMapping[str, Any]
App = Callable[..., Awaitable[None]]


class OnlyNodesFromOutside:
    """Lets requests from other machines through to the nodes' part of the SuperLink, and to nothing else."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: App, send: App) -> None:
        if scope["type"] == "http" and not _allowed(scope):
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"this is for the server's own machine\n"})
            return
        await self._app(scope, receive, send)


def _allowed(scope: Scope) -> bool:
    path = str(scope["path"])
    if path == _NODES or path.startswith(f"{_NODES}/"):
        return True
    try:
        return ipaddress.ip_address(scope["client"][0]).is_loopback
    except (TypeError, ValueError, IndexError):
        return False


def arguments(folder: FederationFolder, host: str = "0.0.0.0") -> list[str]:
    """Returns the command line of Flower's SuperLink."""
    port = str(folder.about["port"])
    require_flower()
    for path in (folder.authority.certificate, folder.server_certificate, folder.server_key):
        if not path.is_file():
            raise FederationError(f"{path} is missing: restore it from the backup, or run `sordino federation renew`")
    return [
        "flower-superlink",
        *("--ssl-ca-certfile", str(folder.authority.certificate.absolute())),
        *("--ssl-certfile", str(folder.server_certificate.absolute())),
        *("--ssl-keyfile", str(folder.server_key.absolute())),
        "--enable-supernode-auth",
        *("--database", str((folder.superlink_dir / "state.db").absolute())),
        "--disable-runtime-dependency-installation",
        *("--host", host, "--port", port),
    ]


def main(path: Path, host: str) -> None:
    """Runs the SuperLink until it is told to end."""
    folder = FederationFolder(path)
    sys.argv = arguments(folder, host)
    os.environ |= {**offline(folder.superlink_dir / "flwr"), VARIABLE: str(path.absolute())}
    launchers = write_launchers(folder.superlink_dir / "bin", node=False)
    put_first(launchers)
    load(node=False)
    begin(launchers)
    _close_the_control_door()
    _be_patient()
    import_module("flwr.superlink.cli").flower_superlink()


def _close_the_control_door() -> None:
    middleware = import_module("starlette.middleware").Middleware
    extensions = import_module("flwr.superlink.extensions")
    if not hasattr(extensions, "get_middleware"):
        raise FederationError("flwr's SuperLink takes no middleware: install the flwr that sordino was made for")
    vars(extensions)["get_middleware"] = lambda: (middleware(OnlyNodesFromOutside),)


def _be_patient() -> None:
    """Lets Flower's database wait for its turn: on a machine that is busy, five seconds pass, and a node would end.

    A SuperNode that is told "database is locked" (status 500) when it looks for messages stops for good.
    """
    database = import_module("flwr.supercore.sql_mixin")
    known = dict(getattr(database, "SQLITE_PRAGMAS", ()))
    if "busy_timeout" not in known:
        raise FederationError("flwr's database is not the known one: install the flwr that sordino was made for")
    vars(database)["SQLITE_PRAGMAS"] = tuple((known | {"busy_timeout": str(BUSY_MILLISECONDS)}).items())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
