"""Code on the pages for people runs as it is printed (with fewer rounds)."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sordino.advise.advice import Situation, advise

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("index", "tutorials/hospitals", "tutorials/own-network", "tutorials/two-studies", "sklearn", "how-to/networks")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page == "tutorials/hospitals":
        example("hospitals_csv").write_table(tmp_path / "patients.csv")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.S)
    assert blocks
    names: dict[str, object] = {"__name__": "snippet"}
    for block in blocks:
        short = re.sub(r'"rounds": \d+', '"rounds": 2', block.replace("run(budget", 'run(run={"rounds": 2}, budget'))
        exec(compile(short, f"docs/{page}.md", "exec"), names)


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scores_in(text: str) -> list[float]:
    """Returns accuracy in percent, AUC and loss."""
    (found,) = re.findall(r"([\d.]+)% test accuracy, AUC ([\d.]+), loss ([\d.]+)", text)
    return [float(number) for number in found]


def printed(page: str) -> list[float]:
    """Returns the scores that a page shows."""
    return scores_in((ROOT / "docs" / "tutorials" / f"{page}.md").read_text())


def test_scores_on_the_page_of_hospitals_are_what_its_code_prints(tmp_path: Path, monkeypatch: Any) -> None:
    """Another version's draws stood there. (Last digits may differ between processors, and draws may not.)"""
    monkeypatch.chdir(tmp_path)
    example("hospitals_csv").write_table(tmp_path / "patients.csv")
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "tutorials" / "hospitals.md").read_text(), re.S)
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(block, "hospitals.md", "exec"), names)
    scores = names["outcome"].scores
    assert [100 * scores.accuracy, scores.auc, scores.loss] == pytest.approx(printed("hospitals"), rel=2e-3)


def test_scores_on_the_page_of_networks_are_the_examples(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "own_cnn.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert scores_in(done.stdout) == pytest.approx(printed("own-network"), rel=2e-3)


def test_advice_on_the_page_of_hospitals_is_what_the_command_says() -> None:
    page = (ROOT / "docs" / "tutorials" / "hospitals.md").read_text()
    patients = Situation(4, 450, 22, 2.0, 1e-4, smallest=20)
    hospitals = advise(replace(patients, unit="client"))
    assert f"{1 / hospitals.signal_to_noise:.3g} × the longest possible signal" in page
    assert any(sentence.endswith(" each: 19.") for sentence in hospitals.why) and "find 19 hospitals" in page
    found = advise(patients)
    assert found.unit == "record" and f"signal is {found.signal_to_noise:.3g} × the noise" in page


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
