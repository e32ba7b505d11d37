"""The systemd units and the Compose file of docs/federation.md: well-formed, and the commands that they name exist."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from flwr.app import Context, RecordDict
from typer.main import get_command

from sordino._version import __version__
from sordino.cli.federation import federation
from sordino.cli.node import node
from sordino.errors import FederationError
from sordino.federation.policy import MechanismPolicy
from sordino.federation.server_app import least_of
from sordino.federation.templates import RECIPE
from sordino.perturb.shares import admissible

PAGE = (Path(__file__).parents[2] / "docs" / "federation.md").read_text()
UNITS = dict(zip(("superlink", "node"), re.findall(r"```ini\n(.*?)```", PAGE, re.S), strict=True))
(COMPOSE,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)


def parsed(command: list[str]) -> dict[str, Any]:
    """Returns what `sordino …` takes a command's words for, as it does before it runs one; else the test fails here."""
    (program, group, name, *rest) = command
    assert Path(program).name == "sordino"
    made = get_command({"federation": federation, "node": node}[group])
    return dict(made.commands[name].make_context(name, rest).params)  # type: ignore[attr-defined]


def scripts() -> list[list[str]]:
    """Returns the words of every `sordino …` line in the page's shell blocks."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S) for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("sordino ")]


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_one_that_systemd_takes(name: str, tmp_path: Path) -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(UNITS[name])
    command = shlex.split(unit["Service"]["ExecStart"])
    assert str(parsed(command)["folder"]) == unit["Service"]["ReadWritePaths"]
    if shutil.which("systemd-analyze"):
        file = tmp_path / f"sordino-{name}.service"
        file.write_text(UNITS[name].replace("/opt/sordino/bin/sordino", sys.executable))
        told = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True)
        assert told.returncode == 0 and file.name not in told.stderr, told.stderr


SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
KEYS = {"image", "init", "restart", "command", "volumes", "ports", "profiles", "network_mode", "pid"}
KEYS |= {"healthcheck", "depends_on"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_runs_a_command_that_is_taken_on_folders_that_it_has(name: str) -> None:
    service = SERVICES[name]
    assert set(service) <= KEYS
    shell, flag, script = shlex.split(service["command"])
    install, run = re.split(r"\s+&&\s+exec\s+", script)
    assert (shell, flag) == ("sh", "-c")
    assert shlex.split(install) == ["pip", "install", f"sordino[flower]=={__version__}"]
    told = parsed(shlex.split(run))
    mounted = {inside: rest for _, inside, *rest in (volume.split(":") for volume in service["volumes"])}
    paths = [str(value) for value in told.values() if str(value).startswith("/")]
    assert sorted(paths) == sorted(mounted)
    # a folder is written to; a recipe is only read
    assert mounted.pop(str(told["folder"])) == []
    assert all(rest == ["ro"] for rest in mounted.values())


def test_the_compose_files_services_fit_together_and_fit_the_page() -> None:
    named = set(re.findall(r"docker compose (?:up -d|run --rm) (\w+)", PAGE))
    assert named == set(SERVICES) == {"superlink", "operator", "node"}
    link, operator = SERVICES["superlink"], SERVICES["operator"]
    # the operator gives its commands from the SuperLink's own machine, and looks after its processes
    assert operator["network_mode"] == operator["pid"] == "service:superlink"
    assert set(link["volumes"]) <= set(operator["volumes"])
    assert "operator" in operator["profiles"] and operator["restart"] == "no"  # a run ends; it is started by hand
    # members were told one port, and reach the SuperLink at that
    (init,) = (parsed(words) for words in scripts() if words[1:3] == ["federation", "init"])
    assert link["ports"] == [f"{init['port']}:{init['port']}"]
    # a run that finds no SuperLink starts one: so the operator waits until the service answers at that port
    assert operator["depends_on"] == {"superlink": {"condition": "service_healthy"}}
    kind, program, flag, code = link["healthcheck"]["test"]
    assert (kind, program, flag) == ("CMD", "python", "-c") and f"('127.0.0.1', {init['port']})" in code
    assert set(link["healthcheck"]) == {"test", "interval", "retries"}
    with socket.create_server(("127.0.0.1", 0)) as door:
        told = code.replace(str(init["port"]), str(door.getsockname()[1]))
        assert subprocess.run([sys.executable, "-c", told]).returncode == 0
    assert subprocess.run([sys.executable, "-c", told], stderr=subprocess.DEVNULL).returncode != 0
    served = parsed(shlex.split(shlex.split(link["command"])[2].split("exec ")[1]))
    assert served["host"] == "0.0.0.0" and served["folder"] == init["folder"]
    assert "ports" not in SERVICES["node"]  # a node calls, and is never called


def test_every_command_of_the_page_is_one_that_is_taken() -> None:
    told = [parsed(words) for words in scripts()]
    assert len(told) == 8
    # the page's run and the Compose file's wait for so many that dropouts leave what the default policy asks for
    tolerance = float(tomllib.loads(RECIPE)["aggregate"]["tolerance"])
    least = next(n for n in count() if admissible(n, tolerance) >= MechanismPolicy().smallest_cohort)
    composed = shlex.split(shlex.split(SERVICES["operator"]["command"])[2].split("exec ")[1])
    waits = [one["least"] for one in (*told, parsed(composed)) if "least" in one]
    assert waits == [least] * 2


def test_how_many_members_a_round_waits_for_is_the_operators_to_say() -> None:
    def told(value: Any) -> int | None:
        return least_of(Context(0, 0, {}, RecordDict(), {"least-nodes": value}))

    assert told(5.0) == 5 and told(0) is None
    for wrong in (-1, 2.5, "many", True):
        with pytest.raises(FederationError, match="least-nodes"):
            told(wrong)
