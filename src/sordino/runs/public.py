"""What of a run is public: of its recipe, and of the metrics of a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomli_w

from sordino.mechanism import Mechanism
from sordino.recipe import Recipe

_PRIVATE: Mapping[str, tuple[str, ...]] = {
    "run": ("seed", "notes"),
    "budget": ("clients",),
    "data": ("folder", "file"),
    "ledger": ("path", "witness"),
    "partition": (),
    "dropout": (),
}
"""Settings that are not told: the seed (whoever has it can repeat the noise), clients by id, where files lie, and how a
simulation deals out its clients and loses them. No names: the whole section."""


def public_recipe(recipe: Recipe, own_mechanism: str = "") -> str:
    """Returns the recipe as TOML without what is private; a mechanism from Python is told by its name alone."""
    tree: dict[str, Any] = recipe.model_dump(mode="json", exclude_none=True)
    if recipe.budget.epsilon is None:
        tree["budget"]["epsilon"] = "none"
    for section, fields in _PRIVATE.items():
        kept = {name: value for name, value in tree.pop(section, {}).items() if fields and name not in fields}
        tree |= {section: kept} if kept else {}
    if own_mechanism:
        tree.pop("mechanism")
    given = f"# the mechanism, {own_mechanism!r}, was given in Python\n" if own_mechanism else ""
    return (
        f"{given}# seed, clients, files and how the simulation deals out and loses clients are left out\n"
        + tomli_w.dumps(tree)
    )


def released(metrics: Mapping[str, Any], mechanism: Mechanism, with_scores: bool) -> dict[str, Any]:
    """Returns what of a round's metrics is public: knobs and noise, and scores where the test records are public.

    **Formal guarantees**: everything in it is a function of what was released, of settings, and of public records. The
    noise that was really there depends on how many took part, except where the server adds it: it is left out where a
    promise needs that to be secret. Why a round was aborted tells how many vanished, so only that it was is told.
    """
    told: dict[str, Any] = {"round": metrics["round"]}
    if "aborted" in metrics:
        return told | {"aborted": "nothing was released"} | _scores(metrics, with_scores)
    shown = mechanism.trust == "central" or not mechanism.coins_are_secret
    told |= {"noise_stddev": metrics.get("noise_stddev") if shown else None, "knobs": metrics.get("knobs", {})}
    told |= {"first_knobs": metrics["first_knobs"]} if "first_knobs" in metrics else {}
    return told | _scores(metrics, with_scores)


def _scores(metrics: Mapping[str, Any], with_scores: bool) -> dict[str, Any]:
    return {name: metrics.get(name) for name in ("loss", "accuracy")} if with_scores else {}
