"""Every finding of the hostile review, planted again: a game finds it, and finds nothing in the clean code."""

from __future__ import annotations

from functools import cache

import pytest

from bugfarm.plants import PLANTS, Plant
from sordino.audit import forgetting
from sordino.audit.finding import Finding
from sordino.audit.games import GAMES
from sordino.audit.scene import stage
from sordino.audit.whitebox import audit, guarantees

REVIEWED = {*(f"F{n}" for n in (1, 2, 4, 5, 6, 7, 8, 9, 10, 11)), "L1", "L3", "L4", "L5", "L6", "L7", "U2"}
"""F3 is among `bugs.BUGS` (noise in single precision), L2 and the unsynced folder of L7 among `laws.LAWS`."""


@cache
def attained() -> Finding:
    """What the releases of the forgetting games give away, whatever the books say."""
    scene = stage("fed_ldp", settings=forgetting.SETTINGS[1:])
    return audit(scene, guarantees(scene)[0], forgetting.TRIALS, 0, workers=1)


@pytest.mark.parametrize("name", [name for name in GAMES if name != "forgetting"])
def test_a_game_finds_nothing_in_the_clean_code(name: str) -> None:
    told = list[tuple[int, int]]()
    (found,) = GAMES[name].play(1, lambda done, of: told.append((done, of)))
    assert (found.verdict, found.game) == ("consistent", name)
    assert found.certified is not None and found.lower_bound <= found.certified
    assert told and all(0 <= done <= of for done, of in told)


@pytest.mark.parametrize("name", forgetting.FORGERIES)
def test_books_that_were_forged_are_refused_or_show_everything(name: str) -> None:
    found = forgetting.judged(attained(), name, forgetting.FORGERIES[name])
    assert found.verdict == "consistent", found.attack
    assert found.certified == pytest.approx(attained().certified)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.finding}-{plant.name}")
def test_a_game_finds_what_the_review_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    before = attained() if plant.forgery else None
    plant.plant(monkeypatch)
    if before is not None:
        found = [forgetting.judged(before, plant.forgery, forgetting.FORGERIES[plant.forgery])]
    else:
        found = GAMES[plant.game].play(1)
    assert [one.verdict for one in found] == ["violated"], plant.story


def test_every_finding_is_planted() -> None:
    assert {plant.finding for plant in PLANTS} == REVIEWED
    assert {plant.game for plant in PLANTS} == set(GAMES)
