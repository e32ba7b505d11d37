"""Reasons are computed from the recipe that was played, and nothing is called impossible for having been at chance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sordino.report.reading import RunView
from sordino.reproduce import fed_cad
from sordino.reproduce.bench import Bench, Runs, recipe_of
from sordino.reproduce.fed_cad_verdicts import gained, level, stated
from sordino.reproduce.noise import norm_told


def ended(accuracy: float, settings: Sequence[str]) -> Runs:
    """Returns a run that ended with some accuracy."""
    return Runs((RunView(Path("ended"), recipe_of(settings), {}, ({"round": 1, "accuracy": accuracy},), ()),))


def test_the_norm_of_the_noise_follows_the_recipe() -> None:
    plan = fed_cad._three("mnist", 0.3, Bench(Path(), quick=False))["Fed-LDP"]
    assert norm_told(recipe_of(plan)) == (
        "noise of σ·C = 0.3 on each of 21,840 weights has norm 44.3, the average of 10 messages still 14.0, and an "
        "update has norm 1 at most"
    )
    assert "the average of 30 messages still 13.5" in norm_told(
        recipe_of([*plan, "select.size=30", "mechanism.noise_multiplier=0.5"])
    )


def test_at_chance_fed_cad_differs_for_a_computed_reason() -> None:
    plan = fed_cad._three("mnist", 0.3, Bench(Path(), quick=False))["Fed-LDP"]
    low, high = ended(0.1, plan), ended(0.4, plan)
    for line in (level("a", 0.847, low), gained("b", 0.02, low, 0.09), stated("c", "d", "e", True, {"f": low})):
        assert (line.status, line.why) == ("differs", f"at chance: {norm_told(recipe_of(plan))}")
    assert stated("c", "d", "e", True, {"f": high}).status == "equal"
    assert gained("b", 0.02, high, 0.38).status == "equal"
