"""The list of mutants does not rot: every change fits the code, every test is there, the page shows it all."""

import re

from mutants.catalogue import MUTANTS
from mutants.mutant import ROOT, SOURCE
from mutants.table import PAGE, page


def test_every_mutant_fits_the_code_names_a_test_and_is_on_the_page():
    for mutant in MUTANTS:
        source = (SOURCE / mutant.file).read_text(encoding="utf-8")
        compile(mutant.applied(source), mutant.file, "exec")
        assert mutant.before != mutant.after
        file, _, name = mutant.test.partition("::")
        assert re.search(rf"^def {name.partition('[')[0]}\(", (ROOT / "tests" / file).read_text("utf-8"), re.MULTILINE)
    assert len({(mutant.file, mutant.before, mutant.after) for mutant in MUTANTS}) == len(MUTANTS)
    assert PAGE.read_text(encoding="utf-8") == page(MUTANTS)
