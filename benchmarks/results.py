"""Puts one table into a section of RESULTS.md, and leaves all others as they are."""

from __future__ import annotations

import os
import platform
import re
from datetime import date
from pathlib import Path

import torch

RESULTS = Path(__file__).with_name("RESULTS.md")


def put(section: str, title: str, text: str, results: Path = RESULTS) -> None:
    """Writes `## title` into `# section`, in place of what stood under it; both are made where they are missing."""
    parts = re.split(r"(?m)^(?=# )", results.read_text() if results.exists() else "")
    place = next((i for i, part in enumerate(parts) if part.startswith(f"# {section}\n")), len(parts))
    if place == len(parts):
        parts[-1:] = [parts[-1].rstrip("\n") + "\n\n"] if parts[-1:] else []
        parts.append(f"# {section}\n")
    tables = re.split(r"(?m)^(?=## )", parts[place])
    fresh = f"## {title}\n\n{text.strip()}\n"
    old = next((i for i, table in enumerate(tables) if table.startswith(f"## {title}\n")), len(tables))
    tables[old : old + 1] = [fresh]
    end = "\n\n" if place + 1 < len(parts) else "\n"
    parts[place] = "\n\n".join(table.strip("\n") for table in tables) + end
    results.write_text("".join(parts))


def machine() -> str:
    """Returns where and when something was measured, and how busy the machine was."""
    load = os.getloadavg()[1]
    return (
        f"{date.today()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"torch {torch.__version__}; load over the last five minutes: {load:.1f}"
    )
