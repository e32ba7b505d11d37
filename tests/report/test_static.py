"""Pictures show what the page shows: the same marks, the same beginnings, nothing hidden behind something else."""

from __future__ import annotations

import math
import os
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sordino.charts import Axis, Boxes, Chart, Heat, Rule, Series, marks, spanning
from sordino.report import interactive, static


def drawn(chart: Chart) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    static._draw_all(chart, axes)
    figure.draw_without_rendering()
    return axes


def test_a_label_map_names_its_labels() -> None:
    heat = Heat(["0", "1", "2"], ["client 4", "client 7"], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], "share")
    axes = drawn(Chart("labels", "Labels", "", Axis("label", categories=True), Axis(""), (heat,), wide=True))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "1", "2"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["client 4", "client 7"]


@pytest.mark.parametrize("x", [[0.5, 1.5, 2.5], ["a", "b", "c"]])
def test_bars_of_one_place_stand_side_by_side(x: list[Any]) -> None:
    pair = tuple(Series(name, x, [3, 0, 5], "bars", color) for color, name in enumerate(("server", "outsider")))
    axes = drawn(Chart("bars", "Bars", "", Axis("x", categories=isinstance(x[0], str)), Axis("clients"), pair))
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches)
    assert len(spans) == 6
    assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(spans))


@pytest.mark.parametrize(
    ("values", "low", "high"), [([2.0, 2.5], 0.0, None), ([-3.0, -2.0], None, 0.0), ([-1.0, 2.0], None, None)]
)
def test_axes_begin_at_zero_as_on_the_page(values: list[float], low: float | None, high: float | None) -> None:
    chart = Chart("line", "Line", "", Axis("round"), Axis("loss"), (Series("loss", [1, 2], values),))
    assert interactive.figure(chart)["layout"]["yaxis"]["rangemode"] == "tozero"
    bottom, top = drawn(chart).get_ylim()
    assert bottom == low if low is not None else bottom < min(values)
    assert top == high if high is not None else top > max(values)


@pytest.mark.filterwarnings("error")
def test_nothing_but_zeros_is_drawn_without_a_word() -> None:
    bottom, top = drawn(Chart("n", "Noise", "", Axis("round"), Axis("σ"), (Series("σ", [1, 2], [0, 0]),))).get_ylim()
    assert bottom <= 0 < top


@pytest.mark.parametrize(
    ("y", "lonely"), [([1.0], True), ([1.0, None, 2.0], True), ([1.0, 2.0, None], False), ([None, math.nan], False)]
)
def test_a_point_without_neighbours_has_a_dot(y: list[float | None], lonely: bool) -> None:
    chart = Chart("n", "Noise", "", Axis("round"), Axis("σ"), (Series("σ", list(range(len(y))), y, "step"),))
    assert ("markers" in interactive.figure(chart)["data"][0]["mode"]) == lonely
    assert (drawn(chart).lines[0].get_marker() == "o") == lonely


def test_boxes_of_one_place_stand_side_by_side() -> None:
    pair = tuple(Boxes(name, ["1"], [(0, 1, 2, 3, 4)], color) for color, name in enumerate(("before", "after")))
    chart = Chart("b", "Boxes", "", Axis("round", categories=True), Axis("value"), pair)
    assert interactive.figure(chart)["layout"]["boxmode"] == "group"


def test_a_rule_has_the_same_room_in_both() -> None:
    chart = Chart("e", "ε", "", Axis("round"), Axis("ε"), (Series("ε", [1, 2], [0.5, 0.7]),), (Rule(1.0, "budget 1"),))
    assert list(drawn(chart).get_ylim()) == interactive.figure(chart)["layout"]["yaxis"]["range"] == [0.0, 1.14]


def test_an_upright_rule_marks_a_place_on_the_x_axis() -> None:
    bars = (Series("clients", [0.2, 0.4], [3, 5], "bars"),)
    chart = Chart("e", "ε", "", Axis("ε"), Axis("clients"), bars, (Rule(1.0, "promised 1", upright=True),))
    assert [list(line.get_xdata()) for line in drawn(chart).lines] == [[1.0, 1.0]]
    shape = interactive.figure(chart)["layout"]["shapes"][0]
    assert (shape["x0"], shape["x1"], shape["yref"]) == (1.0, 1.0, "paper")


def test_marks_of_a_narrow_logarithmic_axis_can_be_read() -> None:
    assert marks(0.3, 4.2) == [0.5, 1.0, 2.0]
    assert marks(0.001, 100) == [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]
    assert marks(1.2, 1.4) == [1.2, 1.25, 1.3, 1.35]
    assert marks(1.0, 1.0) == [1.0]
    axis = Axis("scale", log=True, ticks=marks(0.7, 1.3))
    axes = drawn(Chart("s", "Scales", "", Axis("round"), axis, (Series("scale", [1, 2], [0.7, 1.3]),)))
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["0.8", "1", "1.2"]
    assert not axes.yaxis.get_minorticklocs().size


def test_what_is_far_apart_has_a_logarithmic_axis_unless_it_would_hide_something() -> None:
    assert spanning("ε", [0.1, 1.0, 30.0, None, math.inf], [1.0, 30.0]) == Axis(
        "ε", log=True, ticks=[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    )
    for ends in ([1.0, 19.0], [0.0, 30.0], [], [None, math.nan]):
        assert spanning("ε", [0.1, 1.0, 30.0], ends) == Axis("ε")


@pytest.mark.parametrize(("rounds", "ends"), [(1, [0.5, 1.5]), (6, [0.8, 6.2]), (40, [0.5, 40.5])])
def test_what_is_counted_begins_with_one(rounds: int, ends: list[float]) -> None:
    line = Series("loss", list(range(1, rounds + 1)), [1.0] * rounds)
    axis = interactive.figure(Chart("l", "Loss", "", Axis("round"), Axis("loss"), (line,)))["layout"]["xaxis"]
    assert axis["range"] == pytest.approx(ends)
    assert axis.get("dtick") == (1 if rounds <= 10 else None)


def test_names_are_no_formulas(tmp_path: Path) -> None:
    """Clients and labels are called as their owners like: what stands between two $ was read as a formula."""
    names = ["$\\frac$", "5$ to 9$", "plain"]
    heat = Heat(names, names, [[0, 1, 2]] * 3, "$x$ records")
    bars = Series(names[0], names, [1, 2, 3], "bars")
    for key, chart in (("heat", heat), ("bars", bars)):
        told = Chart(key, names[0], "", Axis(names[1], categories=True), Axis(names[0]), (chart,))
        picture = static.save(told, tmp_path, ["svg"])[0].read_text()
        assert all(f">{name}<" in picture for name in names), key


def test_pictures_are_nobody_elses_to_change(tmp_path: Path) -> None:
    """Where others may write by default (umask 0), pictures of a public folder were anybody's to replace."""
    before = os.umask(0)
    try:
        chart = Chart("line", "Line", "", Axis("round"), Axis("loss"), (Series("loss", [1, 2], [1, 2]),))
        path = static.save(chart, tmp_path / "plots", ["svg"])[0]
    finally:
        os.umask(before)
    assert [stat.S_IMODE(made.stat().st_mode) for made in (path, path.parent)] == [0o644, 0o755]
