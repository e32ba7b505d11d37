"""The site's own law, without building it: every page is in the navigation, and what llms.txt names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_every_page_is_in_the_navigation_once() -> None:
    named = re.findall(r"([\w./-]+\.md)\b", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2])
    assert sorted(named) == PAGES


def test_llms_txt_names_pages_that_are_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (DOCS / "llms.txt").read_text())
    assert len(links) > 15 and set(links) <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", (DOCS / page).read_text(), flags=re.S)
    for link in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
        if "://" not in link:
            assert ((DOCS / page).parent / link).exists(), link


def test_generated_pages_tell_every_setting_and_command() -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "hooks.py")
    assert spec is not None and spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    settings, commands = hooks.settings(), hooks.commands()
    assert "| `target_unit` |" in settings and "## [mechanism] dp_sgd" in settings and "`by_key`" in settings
    assert "## `sordino run`" in commands and "## `sordino node start`" in commands and "`--model`" in commands
