"""Nobody runs code that was sent: launchers, and the door of the SuperLink."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sordino.errors import FederationError
from sordino.federation import own_code, superlink
from sordino.federation.superlink import OnlyNodesFromOutside

pytest.importorskip("flwr")


@pytest.mark.parametrize("node", (True, False))
def test_launchers_shadow_every_program_that_flower_would_start(tmp_path: Path, node: bool) -> None:
    from flwr.supercore.superexec.executor.subprocess_executor import TASK_TYPE_TO_COMMAND

    folder = own_code.write_launchers(tmp_path / "bin", node=node)
    assert {*TASK_TYPE_TO_COMMAND.values()} <= {path.name for path in folder.iterdir()}
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("node", "name"),
    [(True, "flwr-serverapp"), (True, "flwr-agentapp"), (False, "flwr-clientapp"), (False, "flwr-model")],
)
def test_other_programs_refuse(tmp_path: Path, node: bool, name: str) -> None:
    folder = own_code.write_launchers(tmp_path / "bin", node=node)
    told = subprocess.run([folder / name, "--token", "x"], capture_output=True, text=True, check=False)
    assert told.returncode == 1 and "nothing was started" in told.stderr


def test_a_launcher_passes_its_name_and_arguments_to_the_process_that_is_ready(tmp_path: Path) -> None:
    folder = own_code.write_launchers(tmp_path / ("long" * 40) / "bin", node=True)  # longer than a socket's name may be
    heard: list[Any] = []
    here = Path.cwd()
    os.chdir(folder)
    try:
        door = socket.socket(socket.AF_UNIX)
        door.bind(own_code.SOCKET)
    finally:
        os.chdir(here)
    door.listen(1)

    def listen() -> None:
        caller, _ = door.accept()
        heard.append(json.loads(b"".join(iter(lambda: caller.recv(4096), b""))))
        caller.close()

    listener = threading.Thread(target=listen)
    listener.start()
    subprocess.run([folder / "flwr-clientapp", "--token", "a b"], check=True, timeout=600)
    listener.join(10)
    door.close()
    assert heard == [["flwr-clientapp", "--token", "a b"]]


def test_the_clientapp_that_runs_is_the_installed_one_and_the_fab_stays_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import import_module

    import flwr.supernode.cli as cli

    runtime = import_module("flwr.supernode.runtime.run_clientapp")
    for name in ("install_from_fab", "get_project_dir", "get_load_client_app_fn"):
        monkeypatch.setattr(runtime, name, getattr(runtime, name))  # put back afterwards
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(cli, "flwr_clientapp", lambda: None)
    own_code.run_clientapp(["--token", "x"])
    from sordino.federation.client_app import app

    evil = b"not even a zip file: opening it would raise"
    assert runtime.install_from_fab(evil, skip_prompt=True) is None
    assert runtime.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)("evil", "1", "0") is app
    assert sys.argv == ["flwr-clientapp", "--token", "x"]


def test_a_flower_that_lacks_what_is_replaced_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code, "import_module", lambda name: SimpleNamespace(__name__=name, app=None))
    with pytest.raises(FederationError, match="install the flwr"):
        own_code.run_clientapp([])


@pytest.mark.parametrize(
    ("path", "client", "status"),
    [
        ("/v1/fleet/pull-messages", "203.0.113.5", 200),
        ("/v1/control/start-run", "203.0.113.5", 403),
        ("/v1/control/register-node", "203.0.113.5", 403),
        ("/v1/runtime/acquire-task", "203.0.113.5", 403),
        ("/v1/fleetish/x", "203.0.113.5", 403),
        ("/health", "203.0.113.5", 403),
        ("/v1/control/start-run", "127.0.0.1", 200),
        ("/v1/control/start-run", "::1", 200),
        ("/v1/control/start-run", "not an address", 403),
    ],
)
def test_from_outside_only_nodes_are_let_in(path: str, client: str, status: int) -> None:
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "path": path, "client": (client, 1)}
    asyncio.run(OnlyNodesFromOutside(app)(scope, send, send))
    assert sent[0]["status"] == status


@pytest.mark.parametrize(("found", "sentence"), [(None, "is not installed"), ("1.99.0", "this sordino needs 1.41")])
def test_a_missing_or_another_flower_is_one_sentence(
    found: str | None, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sordino.federation import settings

    def version(name: str) -> str:
        if found is None:
            raise settings.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(settings, "version", version)
    with pytest.raises(FederationError, match=sentence):
        settings.require_flower()


def test_the_superlinks_database_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SuperNode that is told that the database is locked ends for good."""
    from flwr.supercore import sql_mixin

    before = dict(sql_mixin.SQLITE_PRAGMAS)
    monkeypatch.setattr(sql_mixin, "SQLITE_PRAGMAS", sql_mixin.SQLITE_PRAGMAS)
    superlink._be_patient()
    assert dict(sql_mixin.SQLITE_PRAGMAS) == before | {"busy_timeout": "60000"}
    monkeypatch.setattr(sql_mixin, "SQLITE_PRAGMAS", ())
    with pytest.raises(FederationError, match="install the flwr"):
        superlink._be_patient()
