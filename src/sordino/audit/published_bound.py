"""What may be published of a run's audit: the white-box attack on its mechanism, with made-up records.

The canaries and shadow models of `endtoend` train on the clients' records, and nobody is charged for that: what they
find stays private. The attack here plays the run's mechanism, settings, declared population and rounds on records that
the attacker makes up; it never looks at the data.
"""

from __future__ import annotations

from sordino._version import __version__
from sordino.account.certificate.audit_bound import FILE, AuditBound
from sordino.audit.counts import CONFIDENCE
from sordino.audit.finding import Finding
from sordino.audit.people import undeclared
from sordino.audit.scene import Scene, of_recipe
from sordino.audit.whitebox import audit, guarantees
from sordino.errors import SordinoError
from sordino.files import PUBLIC, replace_file
from sordino.recipe import Recipe
from sordino.runs.folder import RunFolder
from sordino.sections.budget import BudgetSection

_WORK = 8_000_000
"""Messages that are made at most: rounds × trials × clients."""
_MOST_CLIENTS = 200
_FEWEST, _MOST = 2000, 400_000


def publish_bound(folder: RunFolder, population: int, seed: int) -> AuditBound | None:
    """Attacks the mechanism of a run, and writes what that shows to `public/audit.json`.

    **Edge cases**: None, and no file, where the stage cannot hold the run: more than 200 clients, or settings that
    made-up records contradict.
    """
    try:
        scene = _stage(folder.recipe(), population)
        promise = guarantees(scene)[0]
        found = audit(scene, promise, _trials(scene), seed)
    except SordinoError:
        return None
    bound = _bound(found)
    replace_file(folder.public / FILE, bound.to_json().encode(), PUBLIC)
    return bound


def _stage(recipe: Recipe, population: int) -> Scene:
    if population > _MOST_CLIENTS:
        raise SordinoError(f"{population} clients are more than a stage holds")
    limits = recipe.budget.model_dump() | {"clients": {}}  # single clients with limits of their own are private
    return of_recipe(undeclared(recipe).model_copy(update={"budget": BudgetSection(**limits)}), population)


def _trials(scene: Scene) -> int:
    clients = 2 if scene.mechanism.trust == "local" else scene.clients
    return max(_FEWEST, min(_MOST, _WORK // (clients * scene.rounds)))


def _bound(found: Finding) -> AuditBound:
    return AuditBound(
        mechanism=found.mechanism,
        mode=found.mode,
        unit=found.unit,  # type: ignore[arg-type]
        observer=found.observer,  # type: ignore[arg-type]
        adjacency=found.adjacency,  # type: ignore[arg-type]
        rounds=found.rounds,
        delta=found.delta,
        certified=found.certified,
        lower_bound=found.lower_bound,
        confidence=CONFIDENCE,
        trials=found.trials,
        verdict=found.verdict,
        attack=found.attack,
        code_version=__version__,
    )
