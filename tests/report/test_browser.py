"""Reports as a reader sees them: offline, from disk, on a desktop and on a phone, in light and in dark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sordino.charts import Axis, Boxes, Chart, Series
from sordino.report import compared, page
from sordino.report.document import document
from sordino.report.document import plots as places
from sordino.report.plots import charts
from sordino.report.reading import read

from .conftest import CAD, FEW, Player

ui = pytest.importorskip("selenium.webdriver.support.ui", reason="there is no selenium here to drive a browser with")

EMPTY = "c => !c.querySelector('.mlayer :is(path, image, rect)')"
FIVE = ("lowerfence", "q1", "median", "q3", "upperfence")
DESKTOP, PHONE = (1280, 900), (390, 844)


def look(browser: Any, path: Path, size: tuple[int, int] = DESKTOP, theme: str = "light") -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    shape = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    browser.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    browser.get(path.as_uri())
    drawn(browser, theme)


def drawn(browser: Any, theme: str) -> None:
    ui.WebDriverWait(browser, 60).until(
        lambda b: b.execute_script("return document.documentElement.dataset.drawn") == theme
    )


def plotted(browser: Any) -> dict[str, list[Any]]:
    script = "return Object.fromEntries([...document.querySelectorAll('.canvas')].map(c => [c.id.slice(5), c.data]))"
    return dict(browser.execute_script(script))


@pytest.fixture(scope="session")
def shown(central: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page.write(read(central), tmp_path_factory.mktemp("page") / "report.html", None)[0]


def test_every_plot_draws_offline_without_a_word_on_the_console(browser: Any, shown: Path) -> None:
    look(browser, shown)
    assert (
        browser.execute_script(f"return [...document.querySelectorAll('.canvas')].filter({EMPTY}).map(c => c.id)") == []
    )
    assert len(plotted(browser)) >= 9
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_what_is_drawn_is_what_was_measured(browser: Any, shown: Path, central: Path) -> None:
    look(browser, shown)
    rounds = [json.loads(line) for line in (central / "private" / "metrics.jsonl").read_text().splitlines()]
    seen = plotted(browser)
    assert seen["accuracy"][0]["y"] == [line["accuracy"] for line in rounds]
    assert seen["epsilon"][0]["y"] == [line["epsilon"]["client/outsider"] for line in rounds]
    promised = json.loads((central / "private" / "certificate.json").read_text())["entries"]
    for entry in promised:
        card = f"[data-entry='{entry['unit']}/{entry['observer']}'] [data-field=epsilon]"
        text = browser.execute_script(f'return document.querySelector("{card}").textContent')
        assert text == ("∞" if entry["epsilon"] is None else f"{entry['epsilon']:.3f}")


def test_the_theme_follows_the_reader_and_the_button(browser: Any, shown: Path) -> None:
    color = "return getComputedStyle(document.body).backgroundColor"
    line = "return document.querySelector('#plot-accuracy').data[0].line.color"
    look(browser, shown, theme="dark")
    dark, dark_line = browser.execute_script(color), browser.execute_script(line)
    browser.execute_script("document.querySelector('button.theme').click()")
    drawn(browser, "light")
    assert browser.execute_script(color) != dark
    assert browser.execute_script(line) != dark_line
    browser.execute_script("localStorage.clear()")


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_nothing_is_wider_than_the_screen(browser: Any, shown: Path, size: tuple[int, int]) -> None:
    look(browser, shown, size)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= size[0]
    widths = browser.execute_script("return [...document.querySelectorAll('.canvas')].map(c => c._fullLayout.width)")
    assert all(0 < width <= size[0] for width in widths)


@pytest.mark.parametrize(
    ("name", "settings", "key"),
    [
        ("component_adaptive", (), "scales"),
        ("fed_cad", CAD, "difference"),
        ("a_dpfl", FEW, "selection"),
        ("component_adaptive", ("mechanism.mode=faithful",), "noise"),
    ],
)
def test_what_only_one_mechanism_shows_draws_too(
    browser: Any, played: Player, tmp_path: Path, name: str, settings: tuple[str, ...], key: str
) -> None:
    view = read(played(name, *settings))
    look(browser, page.write(view, tmp_path / "report.html", None)[0])
    assert browser.execute_script(f"return [...document.querySelectorAll('.canvas')].filter({EMPTY}).length") == 0
    seen = plotted(browser)
    chart = next(chart for chart in charts(view) if chart.key == key)
    for series, trace in zip(chart.series, seen[key], strict=True):
        if isinstance(series, Boxes):
            assert [trace[part] for part in FIVE] == [list(row) for row in zip(*series.summaries, strict=True)]
        elif isinstance(series, Series):
            assert (trace["x"], trace["y"]) == (list(series.x), list(series.y))
    marks = f"return document.querySelectorAll('#plot-{key} .ytick').length"
    assert browser.execute_script(marks) > 1, "a scale with a single mark cannot be read"
    proved = any(entry["epsilon"] is not None for entry in view.certificate)
    text = browser.execute_script("return document.querySelector('main').innerText")
    assert ("epsilon" in seen) == proved
    assert ("nothing is proved: certified ε is ∞ from the first round on" in text) == (not proved)
    border, badge = browser.execute_script(
        "return [getComputedStyle(document.querySelector('.promise')).borderTopColor,"
        "getComputedStyle(document.querySelector('.badge')).color]"
    )
    assert border == badge
    assert bool(browser.execute_script("return document.querySelector('.promise.alarming')")) == (not proved)
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_a_comparison_draws_every_run_and_leaves_room_for_their_curves(
    browser: Any, central: Path, adaptive: Path, tmp_path: Path, size: tuple[int, int]
) -> None:
    runs = [read(folder) for folder in [central, adaptive] * 5]
    names = [f"component_adaptive-certified-{place}" for place in range(len(runs))]
    many = [replace(view, name=name) for view, name in zip(runs, names, strict=True)]
    look(browser, compared.write(many, tmp_path / "comparison.html", None)[0], size)
    drawn = plotted(browser)
    assert [trace["name"] for trace in drawn["accuracy"]] == names
    assert len({(trace["line"]["color"], trace["line"]["dash"]) for trace in drawn["accuracy"]}) == len(many)
    rooms = browser.execute_script("return [...document.querySelectorAll('.canvas')].map(c => c._fullLayout._size.h)")
    assert min(rooms) > 120
    budget = "return document.querySelector('#plot-epsilon-client-outsider').layout.shapes.map(s => s.y0)"
    assert browser.execute_script(budget) == [1]
    width, room, hint = browser.execute_script(
        "const t = document.querySelector('.scroll');"
        "return [t.scrollWidth, t.clientWidth, getComputedStyle(t).backgroundImage]"
    )
    assert width <= room if size == DESKTOP else "gradient" in hint
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_mechanisms_side_by_side_draw_with_the_numbers_that_were_compared(
    browser: Any, contest: Path, size: tuple[int, int]
) -> None:
    look(browser, contest / "comparison.html", size)
    assert browser.execute_script(f"return [...document.querySelectorAll('.canvas')].filter({EMPTY}).length") == 0
    (panel,) = json.loads((contest / "comparison.json").read_text())["panels"]
    scores = {trace["x"][0]: trace["y"][0] for trace in plotted(browser)["client-local-scores"]}
    assert scores == {row["contender"]: row["mean"] for row in panel["rows"]}
    claimed, _ = plotted(browser)["client-local-claims"]
    bars = zip(claimed["x"], claimed["y"], strict=True)
    told = {name.partition(",")[0]: (epsilon, "∞" in name) for name, epsilon in bars}
    assert told == {
        row["contender"]: (row["claimed_epsilon"], row["certified_epsilon"] is None)
        for row in panel["rows"]
        if row["claimed_epsilon"] is not None
    }
    assert any(unbounded for _, unbounded in told.values())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= size[0]
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_long_names_leave_room_for_their_bars(browser: Any, tmp_path: Path, size: tuple[int, int]) -> None:
    names = [f"component_adaptive, ε {epsilon}, certified: ∞" for epsilon in range(10)]
    bars = (Series("claimed", names, [1.0] * 10, "bars"), Series("certified", names, [2.0] * 10, "bars", 1))
    chart = Chart("bars", "Bars", "", Axis("", categories=True), Axis("ε"), bars)
    (tmp_path / "bars.html").write_text(document("Bars", "", places([chart]), [chart]))
    look(browser, tmp_path / "bars.html", size)
    assert browser.execute_script("return document.querySelector('.canvas')._fullLayout._size.h") > 120
