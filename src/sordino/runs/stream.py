"""Names the random streams of a run, so that no two different runs draw the same noise."""

from __future__ import annotations

import hashlib
import re

import torch
from torch import nn

from sordino.account.ledger.ledger import Ledger
from sordino.data.federation import Federation
from sordino.data.holdings import holdings
from sordino.mechanism import Mechanism
from sordino.models.state import whole_state
from sordino.recipe import Recipe
from sordino.runs.context import RunContext
from sordino.runs.subject import GivenInPython, source

_PLACES = {"data": ("folder", "file", "cache"), "ledger": ("path", "witness")}
"""Settings that say where something lies, and nothing about what is released."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def stream_name(context: RunContext, ledger: Ledger, own: GivenInPython) -> str:
    """Returns the name of a new run's random streams, made from all that it is made of and from its ledger's past.

    Args:
        context: the run.
        ledger: what it is charged to.
        own: what was given in Python, and is not described by the recipe.

    **Formal guarantees**: a run on a ledger that holds releases already has a name that no earlier one had, since the
    ledger's head is in it; so two runs on one ledger never share a draw. On fresh ledgers the same recipe, data, model
    and mechanism give the same name, wherever their files lie, and the run repeats to the bit; others give another
    name, so that the difference of two releases is never free of noise. Kept in the run's private folder: it
    determines the noise.
    **Edge cases**: of an own mechanism all that it prints counts, of an own model its code, attributes and state; what
    none of them shows (a global that the code reads) does not. `run.entropy` needs no names.
    """
    told = [_described(context.recipe), context.federation.digest, ledger.head if ledger.entries else ""]
    if own.model:
        told.append(_model(context.model))
    if own.data or context.recipe.data.file is not None:
        told.append(_held(context.federation))
    if own.mechanism:
        told.append(_printed(context.mechanism))
    return hashlib.blake2b("\n".join(told).encode(), digest_size=32, person=b"sordino.run").hexdigest()


def _described(recipe: Recipe) -> str:
    for section, fields in _PLACES.items():
        part = getattr(recipe, section)
        recipe = recipe.model_copy(update={section: part.model_copy(update=dict.fromkeys(fields))})
    return recipe.to_toml()


def _held(federation: Federation) -> str:
    """Returns a digest of who holds what, and of the records for testing and in public."""
    total = hashlib.blake2b(b"".join(holdings(federation)), digest_size=16)
    for tensor in (federation.test_x, federation.test_y, federation.public_x, federation.public_y):
        if tensor is not None:
            total.update(str(tuple(tensor.shape)).encode())
            total.update(tensor.contiguous().numpy().data)
    return total.hexdigest()


def _model(model: nn.Module) -> str:
    total = hashlib.blake2b(source(model).encode(), digest_size=16)
    for name, part in model.named_modules():
        settings = {key: value for key, value in vars(part).items() if not key.startswith("_")}
        total.update(f"{name} {_ADDRESS.sub('', repr(sorted(settings.items(), key=lambda pair: pair[0])))}".encode())
    for name, tensor in sorted(whole_state(model, {}).items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()


def _printed(mechanism: Mechanism) -> str:
    return _ADDRESS.sub("", f"{type(mechanism).__qualname__} {mechanism!r}")
