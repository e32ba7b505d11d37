"""The page on the architecture speaks of the code as it is: every room is on it, and what it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "sordino"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = PAGE.partition("## Rooms")[2].partition("```\n")[2].partition("```")[0]


def places(name: str) -> list[Path]:
    """Returns the files that a name of the page can mean: `runs/run.py`, or `plan.py` in whichever room."""
    return [path for path in (SOURCE / name, ROOT / name) if path.is_file()] or [
        path for path in SOURCE.rglob(Path(name).name) if str(path).endswith(f"/{name}")
    ]


def test_every_room_and_every_module_beside_the_rooms_is_on_the_page() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__", "_version"}
    assert packages <= set(re.findall(r"(\w+)/", ROOMS)) and modules <= set(re.findall(r"\w+", ROOMS))
    named = {name for name in re.findall(r"(?<=[ \n])(\w+)/", ROOMS.partition("papers/")[0]) if name != "src"}
    inside = {path.parent.name for path in SOURCE.rglob("__init__.py")}
    assert named - inside == set(), "a room that is gone"


def test_every_file_that_the_page_names_is_there_with_what_it_holds() -> None:
    said = re.findall(r"`([\w/]+\.py)(?:: (\w+))?`", PAGE)
    assert len(said) > 30
    for name, inside in said:
        found = places(name)
        assert found, name
        if inside:
            trees = [ast.parse(path.read_text()) for path in found]
            assert any(getattr(node, "name", None) == inside for tree in trees for node in tree.body), (name, inside)


def test_the_round_on_the_page_is_the_round_that_is_timed() -> None:
    """Every stage of a round is measured, the sum included, in the order in which it is written down."""
    tree = ast.parse((SOURCE / "runs" / "round.py").read_text())
    (play,) = (node for node in tree.body if getattr(node, "name", "") == "_played")
    timed = [
        call.args[0].value
        for node in ast.walk(play)
        if isinstance(node, ast.With)
        for call in [node.items[0].context_expr]
        if isinstance(call, ast.Call) and isinstance(call.args[0], ast.Constant)
    ]
    assert {"select", "reserve", "sum", "reveal", "release", "settle", "adapt"} == set(timed)
    assert play.end_lineno - play.lineno < 80, "a round is read on one screen"
