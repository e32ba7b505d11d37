"""It catches planted bugs, and nothing in the clean code."""

from __future__ import annotations

import pytest

from bugfarm.bugs import BUGS, Bug
from bugfarm.laws import LAWS, Law
from sordino.audit.whitebox import audit


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_an_audit_finds_the_bug_and_not_the_clean_code(bug: Bug) -> None:
    clean, planted = (audit(s, bug.promise(s), bug.trials, seed=1, workers=1) for s in (bug.clean(), bug.planted()))
    assert planted.verdict == "violated", bug.story
    assert clean.verdict == "consistent"
    assert clean.certified is not None
    assert clean.lower_bound <= clean.certified


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_a_law_finds_the_bug_and_not_the_clean_code(law: Law) -> None:
    assert law.holds()
    assert law.found(), law.story


def test_the_farm_is_large_and_its_bugs_are_different() -> None:
    names = [bug.name for bug in (*BUGS, *LAWS)]
    assert len(set(names)) == len(names) >= 20
