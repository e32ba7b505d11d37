"""Runs a node's SuperNode: Flower's own, with this installation's launchers, and with its keys from the node's folder.

`python -m sordino.federation.supernode FOLDER PORT` (which is what `sordino node start` runs).
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from sordino.errors import FederationError
from sordino.federation.node_folder import NodeFolder
from sordino.federation.own_code import put_first, write_launchers
from sordino.federation.settings import offline, require_flower
from sordino.federation.zygote import begin, load

POLL_SECONDS = 0.5
"""Seconds between two looks for a message; Flower's own are 3, and a round of the secure sum has five messages."""


def arguments(node: NodeFolder, port: int) -> list[str]:
    """Returns the command line of Flower's SuperNode.

    Raises:
        FederationError, NodeRefused: a key or certificate is missing, or the server is not one of the policy's.
    """
    server = node.server  # first, since it tells whether this is a node's folder at all
    require_flower()
    node.policy.check_server(server)
    for path in (node.authority, node.transport_key):
        if not path.is_file():
            raise FederationError(f"{path} is missing: restore it from the node's backup")
    folder = str(node.path.absolute())
    if '"' in folder or "\\" in folder:
        raise FederationError(f"the node's folder {folder} has quotes in its name: move it")
    return [
        "flower-supernode",
        *("--superlink", node.server),
        *("--root-certificates", str(node.authority.absolute())),
        *("--auth-supernode-private-key", str(node.transport_key.absolute())),
        *("--node-config", f"folder={json.dumps(folder)} server={json.dumps(node.server)}"),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]


def main(folder: Path, port: int) -> None:
    """Runs the SuperNode until it is told to end."""
    node = NodeFolder(folder)
    sys.argv = arguments(node, port)
    os.environ |= offline(node.state_dir / "flwr")
    launchers = write_launchers(node.state_dir / "bin", node=True)
    put_first(launchers)
    load(node=True)
    begin(launchers)
    _look_more_often()
    import_module("flwr.supernode.cli").flower_supernode()


def _look_more_often() -> None:
    """Shortens the SuperNode's pause between two looks for a message."""
    loop = import_module("flwr.supernode.start_client_internal")
    if not hasattr(loop, "time"):
        raise FederationError("flwr's SuperNode loop is not the known one: install the flwr that sordino was made for")
    vars(loop)["time"] = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, POLL_SECONDS)), time=time.time)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
