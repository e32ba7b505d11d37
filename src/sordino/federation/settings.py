"""Settings under which Flower's programs run here: nothing is reported, looked up or installed on the way."""

from __future__ import annotations

from pathlib import Path


def offline(home: Path) -> dict[str, str]:
    """Returns the environment: no telemetry, no update check, Flower's own files in a folder of ours."""
    return {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
        "FLWR_HOME": str(home.absolute()),
        "PYTHONUNBUFFERED": "1",
    }
