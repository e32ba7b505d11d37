"""Small runs on the embedded data, and a browser to look at their reports with."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sordino.cli.compare import compare
from sordino.recipe import Recipe
from sordino.report.reading import read
from sordino.report.view import RunView
from sordino.runs.run import run

_SMALL = ["run.rounds=6", "partition.clients=60", "select.kind=poisson", "select.rate=0.4", "server.learning_rate=8"]


def play(folder: Path, *settings: str) -> Path:
    run(Recipe.load(None, [*_SMALL, *settings]), out=folder)
    return folder


@pytest.fixture(scope="session")
def central(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play(tmp_path_factory.mktemp("runs") / "central", "mechanism.name=dp_fedavg", "dropout.rate=0.2")


@pytest.fixture(scope="session")
def adaptive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play(
        tmp_path_factory.mktemp("runs") / "adaptive", "mechanism.name=dp_fedavg_adaptive", "mechanism.clip_norm=0.1"
    )


CROWD = ("partition.clients=200", "select.kind=everyone")
"""What a secure sum needs, to survive a few dropouts."""
SKEWED = ("partition.kind=label_skew", "partition.share=0.9", "partition.share_min=0.0")
FEW = ("select.kind=fixed", "select.size=10", *SKEWED, "budget.epsilon=8")
CAD = ("mechanism.obsolete=0.9", "mechanism.clip_norm=0.5", "budget.epsilon=10")
Player = Callable[..., Path]


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Player:
    """Plays a run once for all tests that ask for the same settings; nobody may change its folder."""

    @cache
    def once(name: str, *settings: str) -> Path:
        return play(tmp_path_factory.mktemp("runs") / name, f"mechanism.name={name}", *settings)

    return once


@pytest.fixture(scope="session")
def contest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mechanisms at equal claimed ε, one of which nothing is proved of."""
    out, app = tmp_path_factory.mktemp("contest"), typer.Typer()
    app.command()(compare)
    arguments = ["fed_ldp", "geometric", "component_adaptive", "--claimed", "--seeds", "1", "--jobs", "1"]
    small = ["--set", "run.rounds=2", "--set", "partition.clients=40", "--no-images", "--out", str(out)]
    assert CliRunner().invoke(app, [*arguments, *small], catch_exceptions=False).exit_code == 0
    return out


@pytest.fixture
def view(central: Path) -> RunView:
    return read(central)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("there is no browser here: install chromium and chromium-driver to check pages in one")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as chrome:
        yield chrome
