"""What a run trained, and on what: remembered in its private folder, and found again or asked for by name.

A recipe names a model and data, and a user may have given others in Python. Whoever comes back to a run (`resume`,
`audit`, `report`) gets what it really had, or one sentence that says what to give; never something else.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from safetensors.torch import load, save
from torch import nn

from sordino.data.federation import Federation
from sordino.data.holdings import holdings
from sordino.errors import RecipeError
from sordino.files import PRIVATE, replace_file
from sordino.layout import Layout
from sordino.models.state import whole_state
from sordino.recipe import Recipe
from sordino.runs.context import RunContext
from sordino.runs.folder import RunFolder
from sordino.runs.setup import built, declared, featured
from sordino.runs.setup import load as load_data
from sordino.sections.data import DataSection, PartitionSection
from sordino.sections.training import ModelSection

_STILL_SAID = ("outside", "target_unit", "cache")
"""Settings of data, besides features, that mean the same for a federation given in Python."""
_START = "start.safetensors"
"""What a model of the user's own began with, in the private folder."""


class GivenInPython(NamedTuple):
    """Whether model, data and mechanism were given in Python, so that the recipe does not describe them."""

    model: bool = False
    data: bool = False
    mechanism: bool = False


@dataclass(frozen=True, eq=False)
class Subject:
    """The recipe, model and data of a run that was played."""

    recipe: Recipe
    model: nn.Module
    federation: Federation


def named_in(recipe: Recipe, model: nn.Module | None, federation: Federation | None) -> Recipe:
    """Returns the recipe with the names of what was given in Python, in place of settings that it overrules."""
    if federation is not None:
        said = recipe.data.model_dump(exclude_unset=True)
        kept = {name: value for name, value in said.items() if name.startswith("feature") or name in _STILL_SAID}
        data = DataSection(name=federation.name, normalise="none", **kept)
        recipe = recipe.but(data=data, partition=PartitionSection())
    if model is not None:
        recipe = recipe.but(model=ModelSection(name=type(model).__name__, loss=recipe.model.loss))
    return recipe


def facts_of(context: RunContext, own: GivenInPython) -> dict[str, Any]:
    """Returns what a run's private folder keeps about its model, its data and its mechanism.

    **Formal guarantees**: of the records there is one digest under a key of its own, drawn for this run: without the
    private folder nobody can test a guess of theirs against it.
    """
    key = secrets.token_hex(16)
    return {
        "model": {"own": own.model, **_model_facts(context.model)},
        "data": {
            "own": own.data,
            "name": context.federation.name,
            "key": key,
            "digest": _digest(context.federation, key),
            "inputs": _inputs(context.federation, key),
        },
        "mechanism": {"own": own.mechanism, "name": context.mechanism.name},
    }


def keep_start(folder: RunFolder, model: nn.Module) -> None:
    """Writes down the whole state that a model of the user's own began with, frozen weights and buffers too."""
    replace_file(folder.private / _START, save(whole_state(model, {})), PRIVATE)


def recall(
    folder: RunFolder, model: nn.Module | None = None, federation: Federation | None = None, *, data_only: bool = False
) -> Subject:
    """Returns the model and data that a run had: from its recipe, or those that are given, if they are the same.

    Args:
        folder: the run.
        model: what the user says was trained, if it was the user's own.
        federation: what the user says it was trained on, if that was the user's own (or its file was moved).
        data_only: the model may stay unknown (it is then an empty module).

    Raises:
        RecipeError: something must be given, or is not what the run had; nothing else takes its place.
    """
    recipe, facts = folder.recipe(), folder.facts()
    if "data" not in facts or "model" not in facts:
        raise RecipeError(
            f"{folder.path} does not say which records it was trained on: they lie elsewhere (with the nodes of a "
            "federation), or the run is of an older version; run it again here"
        )
    here = _data(folder, recipe, facts["data"], federation)
    if data_only and facts["model"]["own"] and model is None:
        return Subject(recipe, nn.Module(), here)
    return Subject(recipe, _model(folder, recipe, facts["model"], model, here), here)


def refuse_own_mechanism(folder: RunFolder, what: str) -> None:
    """Refuses to replay a run whose mechanism was handed over in Python: the recipe names another."""
    told = folder.facts().get("mechanism", {})
    if told.get("own"):
        raise RecipeError(
            f"{folder.path} was played with your own mechanism {told['name']!r}, which no recipe names, so {what} "
            "cannot play it again: register it (sordino.register) and name it in the recipe"
        )


def _data(folder: RunFolder, recipe: Recipe, told: Mapping[str, Any], given: Federation | None) -> Federation:
    if given is None and told["own"]:
        raise RecipeError(
            f"{folder.path} was trained on data of your own, {told['name']!r}, which it does not keep: give it again "
            "(--data module:factory, a function that returns the Federation; in Python federation=…)"
        )
    here = featured(recipe, declared(recipe, given or load_data(recipe)))
    key, inputs = told["key"], told.get("inputs")  # runs of earlier versions kept records alone
    if _digest(here, key) != told["digest"] or inputs not in (None, _inputs(here, key)):
        where = "the Federation that you gave" if given is not None else f"data.name = {recipe.data.name!r}"
        raise RecipeError(
            f"{folder.path} was trained on other records than those of {where}: they were edited or moved, dealt "
            "out or scaled otherwise; bring them back as they were (--data names a moved file, or module:factory)"
        )
    return here


def _model(
    folder: RunFolder, recipe: Recipe, told: Mapping[str, Any], given: nn.Module | None, here: Federation
) -> nn.Module:
    if not told["own"]:
        if given is not None:
            raise RecipeError(f"{folder.path} trained model.name = {recipe.model.name!r}: leave out --model")
        return built(recipe, here)
    if given is None:
        raise RecipeError(
            f"{folder.path} trained a model of your own, {told['class']}: give it again (--model module:factory, a "
            "module or a function that returns one; in Python model=…)"
        )
    found = _model_facts(given)
    for field, words in (
        ("class", "is another class"),
        ("layout", "has other weights"),
        ("source", "is written differently (its layers or its code were changed)"),
    ):
        if found[field] != told[field]:
            raise RecipeError(
                f"{folder.path} trained {told['class']}, and the model that you gave {words}: give the one that it "
                "was trained with"
            )
    module = copy.deepcopy(given)
    module.load_state_dict(load((folder.private / _START).read_bytes()), strict=False)
    return module


def _model_facts(model: nn.Module) -> dict[str, Any]:
    layout = Layout.of(model)
    weights = dict(model.named_parameters())
    return {
        "class": type(model).__qualname__,
        "source": source(model),
        "layout": [[name, list(weights[name].shape)] for name in layout.names],
    }


def source(model: nn.Module) -> str:
    """Returns a digest of the model's structure as printed, and of the code of its classes outside of torch."""
    told = [repr(model)]
    for kind in sorted({type(part) for part in model.modules()}, key=lambda kind: kind.__qualname__):
        if not kind.__module__.startswith("torch."):
            try:
                told.append(inspect.getsource(kind))
            except (OSError, TypeError):
                told.append(kind.__qualname__)  # typed into a terminal: its structure has to do
    return hashlib.blake2b("\n".join(told).encode(), digest_size=16).hexdigest()


def _digest(federation: Federation, key: str) -> str:
    """Returns a keyed digest of who holds what, and of the test records; whole numbers count as the floats they are."""
    federation = federation.mapped(lambda x: x.to(torch.float32))
    total = hashlib.blake2b(digest_size=16, key=bytes.fromhex(key))
    for one in holdings(federation):
        total.update(one)
    for tensor in (federation.test_x, federation.test_y):
        total.update(tensor.contiguous().numpy().data)
    total.update(str(federation.classes).encode())
    return total.hexdigest()


def _inputs(federation: Federation, key: str) -> str:
    """Returns a keyed digest of what a model is shown of the records, which a ledger knows as they were read."""
    shown = federation if federation.hashes is None else replace(federation, hashes=None)
    total = hashlib.blake2b(b"".join(holdings(shown)), digest_size=16, key=bytes.fromhex(key))
    return total.hexdigest()
