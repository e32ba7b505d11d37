"""Tables on the pages are those of the records, and what stands below them speaks of the same seeds."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks import defaults, utility

from sordino.mechanisms import MECHANISMS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "utility.md").read_text()


def test_the_tables_are_made_from_what_was_measured() -> None:
    assert utility.main_table() in PAGE
    assert utility.ablation_table() in PAGE
    assert defaults.table(utility.results()) in PAGE


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


def test_the_audits_page_counts_its_rows() -> None:
    page = (DOCS / "audit.md").read_text()
    table = page.partition("| mechanism | mode | settings |")[2].partition("\n\n")[0].splitlines()[2:]
    promises, mechanisms = re.search(r"(\d+) promises of (\d+) mechanisms", page).groups()
    names = {line.split("|")[1].strip() for line in table} | {"auto"}
    assert (len(table), len(names)) == (int(promises), int(mechanisms)) and names == set(MECHANISMS)


def test_pages_of_mechanisms_agree_with_the_table_of_all() -> None:
    """They had older runs of the same recipes."""
    table = (DOCS / "mechanisms.md").read_text()
    for recipe, score in re.findall(r"\| `(\w+_adult)` \|  \| ([\d.]+ ± [\d.]+ %) \|", table):
        page = DOCS / "mechanisms" / f"{recipe.removesuffix('_adult')}.md"
        if f"recipes/papers/{recipe}.toml` " in (text := page.read_text()):
            assert re.search(rf"{recipe}.toml`[^|]*\| {score}", text), (recipe, score)
