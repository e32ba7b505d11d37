"""Reads run folders back, with everything that is known of the runs or from their public part alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sordino.account.certificate.certificate import Certificate
from sordino.account.certificate.check import signed_document
from sordino.account.certificate.document import CertificateDocument, entries_of
from sordino.data.federation import Federation
from sordino.errors import LedgerError, LedgerTampered, RecipeError
from sordino.recipe import Recipe
from sordino.report.lines import check, check_released
from sordino.report.view import RunView
from sordino.runs.folder import RunFolder

__all__ = ["RunView", "read", "read_all"]


def read_all(paths: Sequence[Path], public: bool = False, given: Federation | None = None) -> list[RunView]:
    """Returns the runs in several folders, with names that tell them apart; with `public`, from `public/` alone.

    Data that is `given` is what the runs were trained on, where that was the user's own.

    Raises:
        RecipeError: a folder is named twice, or cannot be read.
    """
    whole = [path.resolve() for path in paths]
    twice = next((path for path in whole if whole.count(path) > 1), None)
    if twice is not None:
        raise RecipeError(f"{twice} is named twice: name every run once")
    return [
        replace(read(path, public), name=_shortest(own, whole), given=given)
        for path, own in zip(paths, whole, strict=True)
    ]


def _shortest(path: Path, beside: Sequence[Path]) -> str:
    """Returns the shortest end of a path that no other one has."""
    ends = (path.parts[-length:] for length in range(1, len(path.parts) + 1))
    return str(Path(*next(end for end in ends if sum(other.parts[-len(end) :] == end for other in beside) == 1)))


def read(path: Path, public: bool = False) -> RunView:
    """Returns the run in a folder: with everything that is known of it, or from its public part alone.

    Raises:
        RecipeError: the folder holds no run, one that has not played a round, or files that no run wrote.
    """
    return _public(path) if public else _private(path)


def _private(path: Path) -> RunView:
    folder = RunFolder(path)
    if not folder.recipe_file.exists():
        raise RecipeError(f"{path} holds no run: name a folder that `sordino run` made")
    facts, rounds = _facts(folder), folder.metrics()
    _require_rounds(path, rounds)
    for place, line in enumerate(rounds, start=1):
        check(line, place, folder.metrics_file)
    told = _certificate(folder.private / "certificate.json", path)
    entries = () if told is None else tuple(json.loads(told.to_json())["entries"])
    # noise of other runs on its ledger may follow from a seed, where that of its own does not
    facts = facts if told is None else {**facts, "simulation": told.simulation}
    return RunView(path, folder.recipe(), facts, tuple(rounds), _with_public(entries, folder), name=path.resolve().name)


def _public(path: Path) -> RunView:
    """Reads `public/` and nothing else, so that nothing else can be shown."""
    folder = RunFolder(path)
    if not (folder.public / "recipe.toml").exists():
        raise RecipeError(f"{path} holds no run: name a folder that `sordino run` made")
    rounds = folder.released()
    _require_rounds(path, rounds)
    for place, line in enumerate(rounds, start=1):
        check_released(line, place, folder.public / "metrics.jsonl")
    document = _document(folder.certificate_file, path)
    entries = () if document is None else entries_of(document)
    facts = (
        {"run": "", "simulation": True}
        if document is None
        else {
            "run": document.run,
            "mechanism": {"name": document.statement.mechanism},
            **_stated(document, path),
        }
    )
    recipe = Recipe.load(folder.public / "recipe.toml")
    return RunView(path, recipe, facts, tuple(rounds), entries, True, path.resolve().name)


def _stated(document: CertificateDocument, path: Path) -> dict[str, Any]:
    from sordino.account.certificate.audit_bound import audit_bound
    from sordino.account.certificate.text import about

    bound = audit_bound(path)
    audited = {} if bound is None else {"audit": bound.words()}
    return {"simulation": document.simulation, "stated": dict(about(document)) | audited}


def _require_rounds(path: Path, rounds: Sequence[Mapping[str, Any]]) -> None:
    if not rounds:
        raise RecipeError(f"{path} has not played a round yet: go on with `sordino run --resume --out {path}`")


def _facts(folder: RunFolder) -> Mapping[str, Any]:
    try:
        facts = folder.facts()
    except RecipeError:
        facts = {}
    if not isinstance(facts, dict) or not isinstance(facts.get("run"), str):
        raise RecipeError(
            f"{folder.private / 'run.json'} is missing or cannot be read: bring it back, or name another folder that "
            "`sordino run` made"
        )
    return facts


def _certificate(path: Path, run: Path) -> Certificate | None:
    """Returns a private certificate; None where the run has not finished."""
    if not path.exists():
        return None
    try:
        return Certificate.from_json(path.read_text())
    except (OSError, ValueError, AttributeError, IndexError, LedgerError):
        raise _unreadable(path, run) from None


def _with_public(entries: Sequence[Mapping[str, Any]], folder: RunFolder) -> tuple[Mapping[str, Any], ...]:
    """Adds to each entry what the public certificate tells of it: what is seen, what attacks reach, ε under replace."""
    try:
        document = _document(folder.certificate_file, folder.path)
    except RecipeError:
        document = None
    told = () if document is None else entries_of(document)
    other = {(one["unit"], one["observer"]): one["epsilon"] for one in told if one["adjacency"] == "replace"}
    more = {_same(one): {name: one[name] for name in ("sees", "attack")} for one in told}
    return tuple(
        {**entry, **more.get(_same(entry), {})}
        | (
            {"replace_epsilon": other[entry["unit"], entry["observer"]]}
            if entry["adjacency"] == "zero_out" and (entry["unit"], entry["observer"]) in other
            else {}
        )
        for entry in entries
    )


def _same(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns what a promise is known by on both certificates of a run: whom, from whom, and how much."""
    return entry["unit"], entry["observer"], entry["adjacency"], f"{entry['epsilon']}"


def _document(path: Path, run: Path) -> CertificateDocument | None:
    """Returns the public certificate; None where the run has not finished."""
    if not path.exists():
        return None
    try:
        return signed_document(path)
    except LedgerTampered:
        raise
    except (ValueError, LedgerError):
        raise _unreadable(path, run) from None


def _unreadable(path: Path, run: Path) -> RecipeError:
    return RecipeError(
        f"{path} cannot be read: make it anew from the run's ledger with `sordino run --resume --out {run}`"
    )
