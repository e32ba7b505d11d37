"""The page's tables of findings and lies name tests that exist, and as many as there are."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PAGE = (ROOT / "docs" / "secure-aggregation.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:tests/[\w/]+/)?test_\w+\.py)`", PAGE)))
LYING = (HERE / "test_lying_server.py").read_text()


def test_the_page_names_tests():
    assert len(NAMED) >= 10


@pytest.mark.parametrize("name", NAMED)
def test_every_file_that_is_named_exists(name):
    assert ((ROOT / name) if "/" in name else (HERE / name)).exists()


@pytest.mark.parametrize("finding", [1, 2, 3, 4, 5, 6, 8, 9])
def test_every_finding_has_its_attacks(finding):
    count = re.search(rf"`test_s{finding}_…`(?: \((\d+)\))?", PAGE)
    assert count and int(count[1] or 1) == len(re.findall(rf"^def test_s{finding}_", LYING, re.M))


def test_single_tests_that_are_named_exist():
    single = set(re.findall(r"`(test_[a-z]\w+)`", PAGE))
    everything = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    assert single and all(f"def {name}(" in everything for name in single)
