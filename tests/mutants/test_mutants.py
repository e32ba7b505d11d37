"""The list of mutants does not rot: every change finds its one place, every test is there, the page shows it all."""

import re

import pytest

from mutants.catalogue import MUTANTS
from mutants.mutant import ROOT, SOURCE
from mutants.table import PAGE, page


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in MUTANTS}))
def test_every_mutant_finds_one_place_and_makes_other_code_that_compiles(file):
    source, made = (SOURCE / file).read_text(encoding="utf-8"), dict[str, str]()
    for mutant in MUTANTS:
        if mutant.file == file:
            changed = mutant.applied(source)
            compile(changed, file, "exec")
            twin = made.setdefault(changed, mutant.story)
            assert twin == mutant.story, f"{mutant.story!r} and {twin!r} are the same change"


def test_every_mutant_names_a_test_and_is_on_the_page():
    for mutant in MUTANTS:
        file, _, name = mutant.test.partition("::")
        text = (ROOT / "tests" / file).read_text("utf-8")
        assert re.search(rf"^def {name.partition('[')[0]}\(", text, re.MULTILINE), mutant.test
    assert PAGE.read_text(encoding="utf-8") == page(MUTANTS)
