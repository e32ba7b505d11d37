"""Readings: every combination is played, and the printed number is judged by each and by all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from papers.catalogue import EXPERIMENTS
from papers.experiment_runner import ExperimentRun, ExperimentRunner, SeedRuns, recipe_of
from papers.readings import OpenChoice, PrintedTarget, ReadingGrid, read_all, spread_of
from papers.record import ExperimentRecord
from papers.sections import section

from papers import baek_readings, fed_cad_readings, xue_readings, yuan_readings
from sordino.models.zoo import build

GRID = ReadingGrid(
    (
        OpenChoice("rate", {"slow": ["train.learning_rate=0.1"], "fast": ["train.learning_rate=0.5"]}),
        OpenChoice("pixels", {"as they are": ["data.normalise=none"], "centred": ["data.normalise=centre"]}),
    )
)
ENDS = {("0.1", "none"): 0.9, ("0.1", "centre"): 0.6, ("0.5", "none"): 0.3, ("0.5", "centre"): 0.1}


class Told(ExperimentRunner):
    """Answers each recipe by what its reading is said to end at."""

    def play(self, plans: Mapping[str, Sequence[str]]) -> dict[str, SeedRuns]:
        out = {}
        for name, settings in plans.items():
            recipe = recipe_of(settings)
            end = ENDS[str(recipe.train.learning_rate), recipe.data.normalise]
            out[name] = SeedRuns((ExperimentRun(recipe, ({"round": 1, "accuracy": end},)),))
        return out


def test_readings_are_all_combinations_with_the_figures_own_first() -> None:
    readings = GRID.readings()
    assert list(readings) == ["slow, as they are", "slow, centred", "fast, as they are", "fast, centred"]
    assert readings["fast, centred"] == ["train.learning_rate=0.5", "data.normalise=centre"]


def test_a_readings_settings_win_over_the_targets_own() -> None:
    target = PrintedTarget(["mechanism.name=fedavg", "train.learning_rate=0.5"], 0.59)
    lines = read_all(Told(Path(), quick=True), "k", "t", GRID, {"MNIST": target}).lines
    assert [line.status for line in lines] == ["differs", "close", "differs", "differs", "close"]
    assert lines[1].quantity == "MNIST: slow, centred" and lines[1].ours == "60.00 %"
    assert lines[-1].ours == "10.00 % … 90.00 %" and "nearest: slow, centred (60.00 %)" in lines[-1].why


@pytest.mark.parametrize(("printed", "status"), [(0.05, "differs"), (0.5, "close"), (0.95, "differs")])
def test_a_number_that_no_reading_reaches_differs(printed: float, status: str) -> None:
    line = spread_of("MNIST", PrintedTarget((), printed), {"a": 0.1, "b": 0.9})
    assert line.status == status
    assert ("no reading reaches it" in line.why) == (status == "differs")


def test_a_page_shows_readings_as_rows_and_printed_numbers_as_columns() -> None:
    targets = {
        "one": PrintedTarget(["mechanism.name=fedavg"], 0.59),
        "two": PrintedTarget(["mechanism.name=fedavg"], 0.3),
    }
    lines = read_all(Told(Path(), quick=True), "k", "t", GRID, targets).lines
    record = ExperimentRecord("baek-fig1-readings", "quick", 1, 1.0, "0", lines, (), ())
    page = section(record, EXPERIMENTS["baek-fig1-readings"])
    assert "| reading | one | two |" in page and "| **printed** | **59.00 %** | **30.00 %** |" in page
    assert "| slow, centred | 60.00 % ✓ | 60.00 % |" in page and "| fast, as they are | 30.00 % | 30.00 % ✓ |" in page
    assert "| spread of 4 readings | 10.00 % … 90.00 % ✓ | 10.00 % … 90.00 % ✓ |" in page


def test_the_declared_grids_are_those_that_the_papers_leave_open() -> None:
    assert len(xue_readings.GRID.readings()) == 8 and len(yuan_readings.GRID.readings()) == 8
    pixels = {"data.normalise=auto", "data.normalise=none"}
    for grid in (baek_readings.GRID, xue_readings.GRID, fed_cad_readings.GRID, yuan_readings.GRID, yuan_readings.START):
        assert pixels <= {setting for settings in grid.readings().values() for setting in settings}


def test_noise_on_a_whole_update_is_that_of_one_weight_over_the_root_of_their_number() -> None:
    width = sum(weights.numel() for weights in build("cnn_fed_cad", (1, 28, 28), 10).parameters())
    assert width == fed_cad_readings.WEIGHTS
    louder, softer = (float(settings[0].split("=")[1]) for settings in fed_cad_readings.LOUDNESS.options.values())
    assert louder / softer == pytest.approx(width**0.5, rel=1e-4)


@pytest.mark.parametrize(("name", "inside"), [("cnn_yuan", False), ("cnn_yuan_inside", True), ("cnn_yuan_small", True)])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_networks_that_are_said_to_start_inside_c_do(name: str, inside: bool, shape: tuple[int, ...]) -> None:
    norms = [sum(float(w.detach().norm()) ** 2 for w in build(name, shape, 10, seed=s).parameters()) for s in range(3)]
    assert all((norm < 25) == inside for norm in norms)
