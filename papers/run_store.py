"""Finished runs, one line of JSON each, that accumulate over commands, sessions and machines.

A line is known by what was played: every setting that is not at its default, with the seed. A run that is there is
never played again, unless somebody asks for it; where a line is there twice, the later one counts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import sordino
from sordino._version import __version__
from sordino.recipe import Recipe

ROOM = Path(__file__).parent / "runs"
"""The runs that are in the repository, of which the records are made."""
DEFAULTS = "defaults.json"


@dataclass(frozen=True)
class StoredLine:
    """One finished run, or one thing that was measured."""

    key: str
    """Digest of what was played, its seed included."""
    of: str
    """The same without the seed: lines of other seeds cost as much."""
    what: str
    """`run`, or the name of a measurement with its arguments."""
    seed: int
    code: str
    """Version and digest of the sources that played it (`code_version`)."""
    cpu: float
    """Processor seconds that it took; 0 where nobody took note."""
    found: Mapping[str, Any]

    def to_json(self) -> str:
        """Returns the line, without its end."""
        return json.dumps(self.__dict__, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class RunStore:
    """Lines of several folders, the later ones before the earlier; new ones are added to the last.

    **Formal guarantees**: `add` returns when the line is on disk. A line that was cut off by a crash is not read, and
    the next one begins anew.

    **Edge cases**: a folder need not exist; without any, lines are kept in memory alone. Files are by mechanism, and
    which file a line is in says nothing.
    """

    def __init__(self, *folders: Path) -> None:
        self.folder = folders[-1] if folders else None
        self.defaults = {key: value for folder in folders for key, value in _json(folder / DEFAULTS).items()}
        self.lines = {line.key: line for folder in folders for line in read_lines(folder)}

    def keys(self, what: str, recipe: Recipe) -> tuple[str, str]:
        """Returns what a line for this is known by, with its seed and without."""
        told = {name: value for name, value in flat(recipe).items() if value != self._default(name, recipe)}
        return _digest(what, told), _digest(what, {k: v for k, v in told.items() if k != "run.seed"})

    def _default(self, name: str, recipe: Recipe) -> Any:
        """Returns what a setting was by default when runs were first stored: a default that changes is another run.

        A setting that is newer than that counts by its present default, which is how it was before there was one.
        """
        place = _place(name, recipe)
        return self.defaults[place] if place in self.defaults else _plain(recipe.mechanism.name).get(name)

    def add(self, line: StoredLine, mechanism: str) -> None:
        """Keeps a line."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            _append(self.folder / f"{mechanism}.jsonl", line.to_json())
        self.lines[line.key] = line

    def seconds(self, of: str) -> float | None:
        """Returns the processor seconds that another seed of the same took, if there is one."""
        known = [line.cpu for line in self.lines.values() if line.of == of and line.cpu]
        return sum(known) / len(known) if known else None


def merge(source: Path, target: Path) -> None:
    """Brings new lines into the repository's folder, one line a key, the new ones before the old.

    Each file is replaced at once. Defaults of mechanisms that were not there before are kept beside the lines.
    """
    new = sorted(source.glob("*.jsonl"))
    if not new or source.resolve() == target.resolve():
        return
    target.mkdir(parents=True, exist_ok=True)
    defaults = _json(target / DEFAULTS)
    for path in new:
        lines = {line.key: line for place in (target / path.name, path) for line in _read(place)}
        told = "".join(f"{line.to_json()}\n" for _, line in sorted(lines.items()))
        _replace(target / path.name, told)
        recipe = Recipe.from_dict({"mechanism": {"name": path.stem}})
        defaults = {_place(key, recipe): value for key, value in _plain(path.stem).items()} | defaults
    _replace(target / DEFAULTS, json.dumps(defaults, indent=0, sort_keys=True) + "\n")


def read_lines(folder: Path) -> Iterator[StoredLine]:
    """Yields the lines of a folder, file by file."""
    for path in sorted(folder.glob("*.jsonl")):
        yield from _read(path)


@cache
def code_version() -> str:
    """Returns the package's version, and a digest of its sources: the same code has the same."""
    digest = hashlib.blake2b(digest_size=4)
    for path in sorted(Path(sordino.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{__version__}+{digest.hexdigest()}"


def flat(recipe: Recipe) -> dict[str, Any]:
    """Returns all settings as `section.field`."""
    tree = recipe.model_dump(mode="json")
    return {f"{section}.{field}": value for section, fields in tree.items() for field, value in fields.items()}


@cache
def _plain(mechanism: str) -> dict[str, Any]:
    plain = flat(Recipe.from_dict({"mechanism": {"name": mechanism}}))
    return plain | {"mechanism.name": None}


def _place(name: str, recipe: Recipe) -> str:
    """Returns under which name a default is kept: those of a mechanism with its name."""
    return f"{recipe.mechanism.name}.{name}" if name.startswith("mechanism.") else name


def _digest(what: str, told: Mapping[str, Any]) -> str:
    text = json.dumps([what, told], sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _read(path: Path) -> Iterator[StoredLine]:
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                yield StoredLine(**json.loads(text))
            except (ValueError, TypeError):
                continue  # a crash cut it off: it is played again


def _append(path: Path, text: str) -> None:
    with path.open("ab") as file:
        start = "\n" if file.tell() and not path.read_bytes().endswith(b"\n") else ""
        file.write(f"{start}{text}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _replace(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
