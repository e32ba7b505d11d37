"""What only one mechanism shows: its charts are there, and hold what the run left behind."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

from sordino.charts import Boxes, Chart, Series
from sordino.report import page
from sordino.report.plots import charts
from sordino.report.reading import read
from sordino.report.view import RunView

from .conftest import CAD, CROWD, FEW, Player

FALLING = ("mechanism.adjust_every=2", "mechanism.threshold=0.3", "select.kind=everyone")
EVERYONE = ("select.kind=everyone",)


def chart(view: RunView, key: str) -> Chart:
    return next(found for found in charts(view) if found.key == key)


def test_component_scales_are_summed_up_tensor_by_tensor(played: Player) -> None:
    view = read(played("component_adaptive"))
    boxes = chart(view, "scales").series[0]
    scales = load_file(view.path / "private" / "checkpoint.safetensors")["knob/scales"]
    assert isinstance(boxes, Boxes) and list(boxes.x) == ["1.weight", "1.bias"]
    assert boxes.summaries[0] == pytest.approx(np.quantile(scales[:640], [0, 0.25, 0.5, 0.75, 1]))
    assert boxes.summaries[1] == pytest.approx(np.quantile(scales[640:], [0, 0.25, 0.5, 0.75, 1]))
    ticks = chart(view, "scales").y.ticks
    assert ticks is not None and len(ticks) > 1
    assert all(scales.min() <= tick <= scales.max() for tick in ticks)


def test_fed_cad_shows_the_diff_of_each_round_and_the_correlation_that_follows(played: Player) -> None:
    view = read(played("fed_cad", *CAD))
    found = chart(view, "difference")
    diff, kept, seen = (line for line in found.series if isinstance(line, Series))
    left = [line["knobs"]["difference"] for line in view.rounds]
    assert len(set(left)) > 1
    assert diff.y == [0.5, *left[:-1]], "a round records what it leaves to the next one"
    assert kept.y == [1 - d for d in diff.y if d is not None]
    assert seen.y == [max(0, line["knobs"]["gap"]) ** 0.5 for line in view.rounds]
    assert found.y.range is not None and found.y.range[1] > max(value for value in seen.y if value is not None) > 1


def test_a_dpfl_asks_those_whose_labels_are_like_everybodys(played: Player) -> None:
    dots = chart(read(played("a_dpfl", *FEW)), "selection").series[0]
    assert isinstance(dots, Series)
    far, share = np.array(dots.x, float), np.array(dots.y, float)
    assert share.sum() == pytest.approx(10), "ten of sixty clients in each round, the opening left out"
    assert far[share > 0].max() <= far[share == 0].min()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("a_dpfl", FALLING),
        ("geometric", (*EVERYONE, "mechanism.theta=1.05")),
        ("geometric", (*EVERYONE, "mechanism.mode=faithful")),
    ],
)
def test_noise_is_drawn_with_the_multiplier_that_each_round_was_played_with(
    played: Player, name: str, settings: tuple[str, ...]
) -> None:
    """Cohort and clip norm are the same in every round, so the noise that was measured is in proportion."""
    view = read(played(name, *settings))
    line = chart(view, "knob-noise_multiplier").series[0]
    assert isinstance(line, Series)
    assert list(line.x) == [1, 2, 3, 4, 5, 6] and len(set(line.y)) > 1
    measured = [line["noise_stddev"] for line in view.rounds]
    assert [y / line.y[0] for y in line.y] == pytest.approx([noise / measured[0] for noise in measured])


@pytest.mark.parametrize(
    ("name", "settings"),
    [("a_dpfl", ()), ("a_dpfl", ("mechanism.mode=faithful",)), ("dp_sgd", ()), ("dropout_robust", CROWD)],
)
def test_what_is_clipped_in_training_is_not_told_to_be_unclipped(
    played: Player, name: str, settings: tuple[str, ...]
) -> None:
    view = read(played(name, *settings))
    assert view.played and all(line["clip_fraction"] is None for line in view.played)
    assert "clipping" not in {found.key for found in charts(view)}
    assert "Not shown: the share that was clipped" in page.page(view, charts(view))


def test_a_run_without_noise_says_so_and_that_its_model_never_moved(played: Player, view: RunView) -> None:
    still = read(played("component_adaptive", "mechanism.mode=faithful"))
    noise = chart(still, "noise")
    assert isinstance(noise.series[0], Series) and set(noise.series[0].y) == {0.0}
    assert noise.note.endswith("There was none in any round.")
    html = page.page(still, charts(still))
    assert "The model never moved" in html and "Not shown: component scales (as printed" in html
    assert "nothing is proved: certified ε is ∞ from the first round on. The budget of ε = 1 bound only" in html
    moved = page.page(view, charts(view))
    assert "never moved" not in moved and "nothing is proved: certified ε" not in moved
