"""The systemd units and the Compose file of docs/federation.md: well-formed, and the commands that they name exist."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from flwr.app import Context, RecordDict
from typer.testing import CliRunner

from sordino._version import __version__
from sordino.cli.federation import federation
from sordino.cli.node import node
from sordino.errors import FederationError
from sordino.federation.server_app import least_of

PAGE = (Path(__file__).parents[2] / "docs" / "federation.md").read_text()
UNITS = dict(zip(("superlink", "node"), re.findall(r"```ini\n(.*?)```", PAGE, re.S), strict=True))
(COMPOSE,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)


def known(command: list[str]) -> bool:
    """Whether `sordino …` has the subcommands and options that a command names."""
    (_, group, name, *rest) = command
    told = CliRunner().invoke({"federation": federation, "node": node}[group], [name, "--help"], terminal_width=200)
    return told.exit_code == 0 and all(word in told.output for word in rest if word.startswith("--"))


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_one_that_systemd_takes(name: str, tmp_path: Path) -> None:
    parsed = ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(UNITS[name])
    command = shlex.split(parsed["Service"]["ExecStart"])
    assert known(command) and command[-1] == parsed["Service"]["ReadWritePaths"]
    if shutil.which("systemd-analyze"):
        unit = tmp_path / f"sordino-{name}.service"
        unit.write_text(UNITS[name].replace("/opt/sordino/bin/sordino", sys.executable))
        told = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
        assert told.returncode == 0 and unit.name not in told.stderr, told.stderr


def test_the_compose_file_names_services_commands_and_folders_that_fit() -> None:
    services: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
    assert set(services) == {"superlink", "operator", "node"}
    allowed = {"image", "init", "restart", "command", "volumes", "ports", "profiles", "network_mode", "pid"}
    for service in services.values():
        assert set(service) <= allowed
        shell, flag, script = shlex.split(service["command"])
        assert (shell, flag) == ("sh", "-c") and f"sordino[flower]=={__version__}" in script
        command = shlex.split(script.split("exec ")[1])
        assert known(command)
        mounted = [volume.split(":")[1] for volume in service["volumes"]]
        assert all(word in mounted for word in command if word.startswith("/srv"))
    # the operator gives its commands from the SuperLink's own machine, and looks after its processes
    assert services["operator"]["network_mode"] == services["operator"]["pid"] == "service:superlink"


def test_how_many_members_a_round_waits_for_is_the_operators_to_say() -> None:
    def told(value: Any) -> int | None:
        return least_of(Context(0, 0, {}, RecordDict(), {"least-nodes": value}))

    assert told(5.0) == 5 and told(0) is None
    for wrong in (-1, 2.5, "many", True):
        with pytest.raises(FederationError, match="least-nodes"):
            told(wrong)
