"""Code on the pages for people runs as it is printed (with fewer rounds)."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import subprocess
import sys
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


def test_a_mechanism_is_written_as_the_page_says_word_by_word(tmp_path: Path) -> None:
    """The page left out imports and what stood between its pieces, and sent readers to the tests."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "writing-a-mechanism.md").read_text(), re.S)
    (tmp_path / "logistic_noise.py").write_text("\n\n".join(blocks))
    done = subprocess.run(
        [sys.executable, "logistic_noise.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "client against the server (zero_out): certified, ε = 8" in done.stdout
    finished = (ROOT / "tests" / "stranger" / "logistic_noise" / "src" / "logistic_noise.py").read_text()
    for piece in re.split(r"\n\n\n", "\n\n\n".join(blocks[:-1])):
        assert piece.strip() in finished
    package = (ROOT / "tests" / "stranger" / "logistic_noise" / "pyproject.toml").read_text().strip()
    assert package in (ROOT / "docs" / "writing-a-mechanism.md").read_text()


def test_the_hospitals_recipe_reads_tables_as_hospitals_write_them(tmp_path: Path) -> None:
    """Four files like those that the tutorial tells of: semicolons, decimal commas, words, gaps, another order."""
    page = (ROOT / "docs" / "tutorials" / "hospitals.md").read_text()
    recipe = re.findall(r"```toml\n(.*?)```", page, re.S)[-1]
    drawn = random.Random(0)
    amounts = ["age", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal"]
    (tmp_path / "tables").mkdir()
    for place, name in enumerate(("cleveland", "hungarian", "switzerland", "va")):
        columns = ["patient_id", "visit", "sex", "cp", *amounts, "num"]
        drawn.shuffle(columns)
        lines = [columns]
        for patient in range(150):
            row = {name: "?" if drawn.random() < 0.1 else f"{drawn.uniform(0, 7):.1f}" for name in amounts}
            row |= {"patient_id": f"P{patient}", "visit": "01.02.1988", "num": drawn.choice(["healthy", "disease"])}
            row |= {"sex": drawn.choice(["female", "male"]), "cp": drawn.choice(["typical", "atypical", ""])}
            cells = [row[name] for name in columns]
            lines.append([re.sub(r"^(\d+)\.(\d+)$", r"\1,\2", cell) for cell in cells] if place % 2 else cells)
        separator = ";" if place % 2 else ","
        (tmp_path / "tables" / f"{name}.csv").write_text("\n".join(separator.join(line) for line in lines))
    (tmp_path / "mine.toml").write_text(recipe)
    command = [sys.executable, "-m", "sordino", "run", "mine.toml", "--json", "--out", "run", "--set", "run.rounds=1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["rounds"] == 1 and not done.stderr.count("warning: feature")
