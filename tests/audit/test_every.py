"""All audits: how many are played at once changes nothing of what they find."""

from dataclasses import replace

from sordino.audit.cases import cases
from sordino.audit.every import PARTS, planned, play_every
from sordino.audit.games import GAMES


def test_every_case_and_every_game_is_planned_once():
    listed = planned(None)
    assert [audit.place for audit in listed[: len(cases())]] == list(range(len(cases())))
    assert [audit.words for audit in listed[len(cases()) :]] == list(GAMES)
    assert {audit.words.split(", ")[1] for audit in planned("faithful")} == {"faithful"}


def test_side_by_side_they_find_what_they_find_one_by_one():
    chosen = [audit for audit in planned("certified") if audit.words.startswith(("fed_ldp", "fed_cad"))][:2]
    told = []
    alone, beside = (
        play_every(chosen, jobs, 2000, 7, lambda done, of, words: told.append((done, of))) for jobs in (1, 2)
    )
    timeless = [[[replace(one, seconds=0.0) for one in found] for found in every] for every in (alone, beside)]
    assert timeless[0] == timeless[1]
    assert told[-1] == (PARTS * len(chosen), PARTS * len(chosen))
