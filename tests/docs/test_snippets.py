"""Code on the pages for people runs as it is printed (with fewer rounds)."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("index", "tutorials/hospitals", "tutorials/own-network", "tutorials/two-studies", "sklearn", "how-to/networks")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page == "tutorials/hospitals":
        spec = importlib.util.spec_from_file_location("hospitals_csv", ROOT / "examples" / "hospitals_csv.py")
        assert spec is not None and spec.loader is not None
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        example.write_table(tmp_path / "patients.csv")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.S)
    assert blocks
    names: dict[str, object] = {"__name__": "snippet"}
    for block in blocks:
        short = re.sub(r'"rounds": \d+', '"rounds": 2', block.replace("run(budget", 'run(run={"rounds": 2}, budget'))
        exec(compile(short, f"docs/{page}.md", "exec"), names)
