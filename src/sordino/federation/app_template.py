"""The Flower app of a federation: a name and two references. It holds no code, so nothing of it need be trusted."""

from __future__ import annotations

import re
from pathlib import Path

import tomli_w

from sordino._version import __version__
from sordino.federation.own_code import CLIENT_APP, SERVER_APP
from sordino.federation.settings import FLOWER
from sordino.files import PUBLIC, make_folder, replace_file

DEADLINES = {"stage": 60.0, "train": 600.0, "gather": 300.0, "lifetime": 3600.0}
"""How long the server waits, in seconds, unless a run says otherwise."""


def write_app(folder: Path, federation: str) -> None:
    """Writes the app that `flwr run` would ship; servers and nodes run their own sordino in its place."""
    make_folder(folder, PUBLIC)
    name = re.sub(r"[^a-z0-9]+", "-", federation.lower()).strip("-") or "federation"
    told = {
        "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
        "project": {
            "name": f"sordino-{name}"[:60],
            "version": __version__,
            "description": f"sordino {__version__} for the federation {federation}",
            "license": "Apache-2.0",
            "dependencies": [f"flwr>={FLOWER}", f"sordino[flower]=={__version__}"],
        },
        "tool": {
            "hatch": {"build": {"targets": {"wheel": {"packages": ["."]}}}},
            "flwr": {
                "app": {
                    "publisher": "sordino",
                    "components": {"serverapp": SERVER_APP, "clientapp": CLIENT_APP},
                    "config": {f"{name}-seconds": seconds for name, seconds in DEADLINES.items()} | {"least-nodes": 0},
                }
            },
        },
    }
    replace_file(folder / "pyproject.toml", tomli_w.dumps(told).encode(), PUBLIC)
    about = (
        f"# {federation}\n\nThis app holds no code: servers and nodes run the sordino {__version__} they installed.\n"
    )
    replace_file(folder / "README.md", about.encode(), PUBLIC)
