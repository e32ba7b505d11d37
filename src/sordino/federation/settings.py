"""Settings under which Flower's programs run here: nothing is reported, looked up or installed on the way."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sordino.errors import FederationError

FLOWER = "1.41"
"""The release of Flower that this version of sordino was made for."""


def require_flower() -> None:
    """Raises FederationError, with a remedy, unless the right Flower is installed."""
    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise FederationError("Flower is not installed: run `pip install 'sordino[flower]'`") from None
    if found.split(".")[:2] != FLOWER.split("."):
        raise FederationError(
            f"Flower {found} is installed, and this sordino needs {FLOWER}: pip install 'flwr=={FLOWER}.*'"
        )


def offline(home: Path) -> dict[str, str]:
    """Returns the environment: no telemetry, no update check, Flower's own files in a folder of ours."""
    return {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25",
        "FLWR_HOME": str(home.absolute()),
        "PYTHONUNBUFFERED": "1",
    }
