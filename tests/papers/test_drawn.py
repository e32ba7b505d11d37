"""Curves come back from a picture as they were drawn, and statements about shapes can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from papers.catalogue import EXPERIMENTS
from papers.drawn import curves
from papers.experiment_runner import ExperimentRunner
from papers.recorded import unsteadiness
from papers.xue_learning import best_of
from papers.yuan_curves import bends, bent, leads
from tests.papers.test_seeds import ended

from papers import record
from sordino.charts import Axis, Chart, Rule, Series
from sordino.report import static


def test_a_curve_is_read_back_as_it_was_drawn(tmp_path: Path) -> None:
    x = [1, 2, 5, 9]
    drawn = {
        "falls": Series(
            "falls", x, [0.9, 0.41, 0.2, 0.1], "line", 0, low=[0.8, 0.4, 0.1, 0.1], high=[1, 0.5, 0.3, 0.2]
        ),
        "rises": Series("rises", x, [0.1, 0.3333, 0.5, 0.95], "both", 1),
        "rises, dashed": Series("rises, dashed", x, [0.05, 0.1, 0.2, 0.3], "line", 1, dashed=True),
        "stays": Series("stays", x, [0.25] * 4, "line", 2),
    }
    axis = Axis("y", percent=True, range=(0.0, 1.0))
    chart = Chart("drawn", "t", "n", Axis("x"), axis, tuple(drawn.values()), (Rule(0.1, "chance", 7),))
    (path,) = static.save(chart, tmp_path, ("svg",))
    found = curves(path)
    assert list(found) == list(drawn)
    for name, series in drawn.items():
        for point, wanted in zip(found[name], zip(series.x, series.y, strict=True), strict=True):
            assert point == pytest.approx(wanted, abs=1e-5)


def test_convex_and_concave_are_told_apart() -> None:
    bowl = [(m, (m - 3.0) ** 2) for m in (1.0, 2.0, 4.0, 7.0)]
    assert min(bends(bowl).values()) > 0
    assert bent("a", bowl, "loss").status == "equal" and bent("a", bowl, "accuracy").status == "differs"
    hill = [(m, -y) for m, y in bowl]
    assert bent("a", hill, "accuracy").status == "equal" and bent("a", hill, "loss").status == "differs"
    nearly = [(1.0, 0.5), (2.0, 0.504), (3.0, 0.5)]  # bends the wrong way by less than counts
    assert bent("a", nearly, "loss").status == "equal"


@pytest.mark.parametrize(
    ("lead", "status"), [(0.02, "equal"), (0.004, "undecided"), (-0.004, "undecided"), (-1, "differs")]
)
def test_a_lead_too_small_to_mean_anything_is_undecided(lead: float, status: str) -> None:
    assert leads("a", "b", "c", lead, "loss").status == status


def test_unsteadiness_is_the_share_of_falls() -> None:
    assert unsteadiness([0.1, 0.4, 0.3, 0.5]) == pytest.approx(0.1 / 0.6)
    assert unsteadiness([0.1, 0.2, 0.9]) == 0


def test_the_best_value_must_be_ahead_of_every_other() -> None:
    found = {0.8: ended(0.70, 0.72), 1.1: ended(0.90, 0.91), 1.4: ended(0.60, 0.62)}
    assert best_of("a", "b", found, (1.1,)).status == "equal"
    assert best_of("a", "b", found, (0.8,)).status == "differs"
    near = {0.8: ended(0.70, 0.80), 1.1: ended(0.79, 0.72)}
    assert best_of("a", "b", near, (0.8,)).status == "undecided"


@pytest.mark.parametrize("id_", ["yuan-curves", "cad-fig3-growth", "adpfl-fig4-speed", "baek-fig4-relative"])
def test_what_is_judged_by_records_is_what_they_say_now(id_: str, tmp_path: Path) -> None:
    experiment = EXPERIMENTS[id_]
    kept = record.read(Path(__file__).parents[2] / "papers" / "records" / f"{id_}.json")
    now = experiment.find(ExperimentRunner(tmp_path, quick=False))
    assert tuple(experiment.explained(line, quick=False) for line in now.lines) == kept.lines
