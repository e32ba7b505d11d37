"""What SuperLinks and SuperNodes start for a run: the sordino that is installed here, never code that was sent.

Flower ships an app (FAB) from whoever starts a run to the server and to every node, and runs it there. For a node that
is the operator's code with the node's records, for the operator it is the code of anybody who reaches the SuperLink.
Neither trusts the other so far. So both run their processes with a folder of launchers in front of the PATH: the ones
for `flwr-serverapp` and `flwr-clientapp` load `sordino.federation.server_app` and `client_app` from this installation
and leave the app that came with the run unopened; all others refuse.

**Formal guarantees**: no line of a FAB is imported or unpacked. If this version of flwr does not have the functions
that are replaced, nothing is started at all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from sordino.errors import FederationError
from sordino.files import PRIVATE, make_folder, opener, replace_file

SERVER_APP = "sordino.federation.server_app:app"
CLIENT_APP = "sordino.federation.client_app:app"
SOCKET = "ready.sock"
"""Where the process that is ready to fork listens (`zygote.py`), in the launchers' folder."""

_REFUSED = {"flwr-agentapp", "flwr-connector", "flwr-model", "flwr-simulation", "flwr-clientapp", "flwr-serverapp"}
_EXECUTABLE = 0o700
_SAFE_PATH = "PYTHONSAFEPATH"

_REFUSAL = """#!{python} -IS
import sys
sys.exit("sordino: this machine runs its own apps only, and was asked for {name}: nothing was started")
"""

_FORKED = """#!{python} -IS
import json, os, socket, sys
os.chdir({folder!r})
try:
    with socket.socket(socket.AF_UNIX) as ready:
        ready.connect({socket!r})
        ready.sendall(json.dumps([{name!r}, *sys.argv[1:]]).encode())
        ready.shutdown(socket.SHUT_WR)
        ready.recv(1)
except OSError:
    os.execv({python!r}, [{python!r}, "-m", "sordino.federation.own_code", {name!r}, *sys.argv[1:]])
"""


def write_launchers(folder: Path, *, node: bool) -> Path:
    """Writes the launchers of a node, or of a server, into a folder of their own; returns it."""
    folder = folder.absolute()
    make_folder(folder, PRIVATE)
    own = ("flower-superexec", "flwr-clientapp" if node else "flwr-serverapp")
    for name in own:
        text = _FORKED.format(python=sys.executable, folder=str(folder), socket=SOCKET, name=name)
        replace_file(folder / name, text.encode(), _EXECUTABLE)
    for name in _REFUSED - set(own):
        replace_file(folder / name, _REFUSAL.format(python=sys.executable, name=name).encode(), _EXECUTABLE)
    return folder


def put_first(launchers: Path) -> None:
    """Puts the launchers, and this installation's programs after them, in front of this process's PATH."""
    own = Path(sys.executable).parent
    os.environ["PATH"] = os.pathsep.join([str(launchers.absolute()), str(own), os.environ.get("PATH", os.defpath)])
    os.environ[_SAFE_PATH] = "1"  # nothing is imported from the folder that a process happens to start in


def run_clientapp(arguments: list[str]) -> None:
    """Runs this installation's ClientApp for one message."""
    runtime = import_module("flwr.supernode.runtime.run_clientapp")
    app = _own(CLIENT_APP)
    _replace(runtime, "install_from_fab", lambda *_, **__: None)
    _replace(runtime, "get_project_dir", lambda *_, **__: _root())
    _replace(runtime, "get_load_client_app_fn", lambda **_: lambda *_: app)
    sys.argv = ["flwr-clientapp", *arguments]
    import_module("flwr.supernode.cli").flwr_clientapp()


def run_serverapp(arguments: list[str]) -> None:
    """Runs this installation's ServerApp for one run."""
    from sordino.federation.folder import FederationFolder

    runtime = import_module("flwr.superlink.runtime.run_serverapp")
    components = {"tool": {"flwr": {"app": {"components": {"serverapp": SERVER_APP}}}}}
    _replace(runtime, "install_from_fab", lambda *_, **__: None)
    _replace(runtime, "get_project_dir", lambda *_, **__: _root())
    _replace(runtime, "get_project_config", lambda *_: components)
    _replace(runtime, "get_fused_config_from_dir", lambda _, overrides: dict(overrides))
    folder = FederationFolder.here()
    _write_down(folder.superlink_dir / "serverapp.log")
    replace_file(folder.serverapp_pid, str(os.getpid()).encode(), PRIVATE)
    sys.argv = ["flwr-serverapp", *arguments]
    import_module("flwr.superlink.cli").flwr_serverapp()


def run_superexec(arguments: list[str]) -> None:
    """Runs the process of Flower's that starts apps."""
    sys.argv = ["flower-superexec", *arguments]
    import_module("flwr.supercore.cli").flower_superexec()


RUNS: dict[str, Callable[[list[str]], None]] = {
    "flwr-clientapp": run_clientapp,
    "flwr-serverapp": run_serverapp,
    "flower-superexec": run_superexec,
}
"""What a launcher may ask for."""


def main() -> None:
    """Runs what a launcher names."""
    RUNS[sys.argv[1]](sys.argv[2:])


def _own(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def _write_down(log: Path) -> None:
    """Sends what this process says to a file: the SuperLink would keep it to itself."""
    with open(log, "ab", opener=opener(PRIVATE)) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)


def _root() -> Path:
    """Returns the folder that this installation is imported from: what Flower puts in front of its search path."""
    return Path(__file__).parents[2]


def _replace(module: ModuleType, name: str, value: Any) -> None:
    if not hasattr(module, name):
        raise FederationError(
            f"flwr's {module.__name__} has no {name}: install the flwr that this version of sordino was made for"
        )
    setattr(module, name, value)


if __name__ == "__main__":
    main()
