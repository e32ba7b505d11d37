"""What only one mechanism shows: its charts are there, and hold what the run left behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from sordino.report.chart import Boxes, Chart, Series
from sordino.report.plots import charts
from sordino.report.reading import RunView, read

from .conftest import play

SKEWED = ("partition.kind=label_skew", "partition.share=0.9", "partition.share_min=0.0", "budget.epsilon=8")


def chart(view: RunView, key: str) -> Chart:
    return next(found for found in charts(view) if found.key == key)


def test_component_scales_are_summed_up_tensor_by_tensor(tmp_path: Path) -> None:
    view = read(play(tmp_path / "run", "mechanism.name=component_adaptive"))
    boxes = chart(view, "scales").series[0]
    scales = load_file(tmp_path / "run" / "checkpoint.safetensors")["knob/scales"]
    assert isinstance(boxes, Boxes) and list(boxes.x) == ["1.weight", "1.bias"]
    assert boxes.summaries[0] == pytest.approx(np.quantile(scales[:640], [0, 0.25, 0.5, 0.75, 1]))
    assert boxes.summaries[1] == pytest.approx(np.quantile(scales[640:], [0, 0.25, 0.5, 0.75, 1]))


def test_fed_cad_shows_its_diff_and_the_correlation_that_follows(tmp_path: Path) -> None:
    play(tmp_path / "run", "mechanism.name=fed_cad", *SKEWED)
    drawn = chart(read(tmp_path / "run"), "difference").series
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert isinstance(drawn[0], Series) and isinstance(drawn[1], Series)
    assert drawn[0].y == [line["knobs"]["difference"] for line in lines]
    assert drawn[1].y == [1 - line["knobs"]["difference"] for line in lines]


def test_a_dpfl_asks_those_whose_labels_are_like_everybodys(tmp_path: Path) -> None:
    settings = ("mechanism.name=a_dpfl", "select.kind=fixed", "select.size=10", *SKEWED)
    dots = chart(read(play(tmp_path / "run", *settings)), "selection").series[0]
    assert isinstance(dots, Series)
    far, share = np.array(dots.x, float), np.array(dots.y, float)
    assert share.sum() == pytest.approx(10), "ten of sixty clients in each round, the opening left out"
    assert far[share > 0].max() <= far[share == 0].min()
