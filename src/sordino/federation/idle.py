"""Settings of a recipe that have no effect across machines: refused before anything is started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sordino.errors import RecipeError
from sordino.federation.folder import FederationFolder
from sordino.federation.operator_records import operator_records
from sordino.federation.plan import require_deployable
from sordino.federation.remote import remote
from sordino.recipe import Recipe
from sordino.runs.idle import idle
from sordino.runs.setup import assemble

_OWNED = "records lie with the members, whose own policies say which they are and where they are kept"
_WHOLE = "noise is planned for the whole budget, unless mechanism.noise_multiplier sets it for what is left"
_SIMULATED: dict[str, tuple[tuple[str, ...], str]] = {
    "partition": ((), "records lie with the members, and nobody deals them out"),
    "dropout": ((), "members vanish by themselves"),
    "data": (("name", "folder", "file", "client", "classes", "test", "cache", "public_fraction"), _OWNED),
    "public": (("part", "sizes"), "nobody counts records that lie with the members"),
    "run": (("notes",), "nobody sees what a simulation could note"),
    "ledger": (("plan",), _WHOLE),
}
"""Settings that only a simulation has a use for, and why machines have none. No names: the whole section."""


def refuse_idle(folder: FederationFolder) -> None:
    """Refuses the folder's recipe if one of its settings was changed from its default and is used by nothing.

    **Edge cases**: a run that has begun is resumed with what it began with.

    Raises:
        RecipeError: a sentence for the first of them; or the recipe cannot be played across machines.
    """
    if (folder.run_dir / "private" / "run.json").exists():
        return
    recipe = folder.recipe
    for sentence in _across_machines(recipe):
        raise RecipeError(sentence)
    test, public = operator_records(folder, "test"), operator_records(folder, "public")
    made = remote(recipe, folder.name, folder.registry.names, test, public)
    context = require_deployable(assemble(recipe.but(aggregate={"fidelity": "full"}), federation=made))
    for sentence in idle(replace(context, recipe=recipe), own_model=False, own_data=False):
        raise RecipeError(sentence)


def _across_machines(recipe: Recipe) -> Iterator[str]:
    for section, (names, why) in _SIMULATED.items():
        told = getattr(recipe, section)
        for name in names or type(told).model_fields:
            if getattr(told, name) != type(told).model_fields[name].default:
                yield f"{section}.{name} has no effect across machines, where {why}: leave it out"
    if recipe.aggregate.fidelity not in (type(recipe.aggregate).model_fields["fidelity"].default, "full"):
        yield "aggregate.fidelity has no effect across machines, where secure sums are played in full: leave it out"
