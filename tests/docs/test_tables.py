"""Tables on the pages are those of the records, and what stands below them speaks of the same seeds."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks import utility

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "utility.md").read_text()


def test_the_tables_are_made_from_what_was_measured() -> None:
    assert utility.main_table() in PAGE
    assert utility.ablation_table() in PAGE


def test_what_is_said_of_parts_that_were_left_out_is_in_the_table() -> None:
    """The table had five seeds, and the page below it told of one or two."""
    table = utility.ablation_table()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    assert {seeds for *_, seeds in rows} == {str(utility.SEEDS)}
    said = PAGE.partition("<!-- end of ablation -->")[2].partition("**Whitening pays")[0]
    assert "Five seeds a row" in said and f"With {sum(bool(row[3]) for row in rows)} tests" in said
    differences = {f"{abs(float(row[2])):.{digits}f}" for row in rows if row[2] for digits in (1, 2)}
    beside = {"0.05", "0.037", "0.11", "0.12", "0.4"}  # values of p, and two rows beside each other
    assert set(re.findall(r"\d+\.\d+", said)) <= differences | beside
