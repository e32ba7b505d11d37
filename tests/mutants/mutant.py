"""A mutant: one change to the package that breaks a promise, and the test that has to notice it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from .edits import Edit

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "sordino"


@dataclass(frozen=True)
class Mutant:
    """What is changed in which function, and which test fails for it."""

    file: str
    """Path under `src/sordino`."""
    scope: str
    """The function, or `Class.method`, in which exactly one place fits the edit."""
    story: str
    edit: Edit
    test: str
    """Path under `tests`, `::`, and the test's name (with or without its parameters)."""

    def applied(self, text: str) -> str:
        """Returns the file's code with the change made (comments and layout are lost).

        Raises:
            ValueError: the place to change is not there, or there more than once, or the change changes nothing.
        """
        tree = ast.parse(text)
        before = ast.dump(tree)
        try:
            self.edit.apply(_scope(tree, self.scope))
        except ValueError as error:
            raise ValueError(f"{self.file}, {self.scope}: {error} ({self.story})") from None
        if ast.dump(tree) == before:
            raise ValueError(f"{self.file}, {self.scope}: nothing was changed ({self.story})")
        return ast.unparse(ast.fix_missing_locations(tree))


def _scope(tree: ast.Module, name: str) -> ast.AST:
    """Returns a function or class by its qualified name."""
    found: ast.AST = tree
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.ClassDef)
        inside = [n for n in ast.iter_child_nodes(found) if isinstance(n, kinds) and n.name == part]
        if len(inside) != 1:
            raise ValueError(f"{part!r} is found {len(inside)}×")
        found = inside[0]
    return found


def killed_by(test: str, file: str, *changes: tuple[str, str, Edit]) -> tuple[Mutant, ...]:
    """Returns the mutants of one file that one test kills: (story, function, edit) each."""
    return tuple(Mutant(file, scope, story, edit, test) for story, scope, edit in changes)
