"""Several runs on one page: what each promised and reached, where their recipes differ, and their curves together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from sordino.charts import Axis, Chart, Rule, Series, spanning
from sordino.events import Guarantee, named
from sordino.files import PRIVATE, PUBLIC, replace_file
from sordino.report import static
from sordino.report.document import Cell, document, table, value
from sordino.report.document import plots as places
from sordino.report.page import certificate, trust
from sordino.report.palette import LIGHT
from sordino.report.plots.learning import measured
from sordino.report.plots.privacy import beyond, told
from sordino.report.view import RunView
from sordino.report.words import figure, number


def write(views: Sequence[RunView], out: Path, images: Path | None) -> list[Path]:
    """Writes the page, and with `images` every plot of it as SVG and PNG; returns the files."""
    drawn = charts(views)
    pictures = [path for chart in drawn for path in static.save(chart, images)] if images is not None else []
    out.parent.mkdir(parents=True, exist_ok=True)
    public = all(view.public for view in views)
    replace_file(out, page(views, drawn).encode(), PUBLIC if public else PRIVATE)
    return [out, *pictures]


def page(views: Sequence[RunView], drawn: Sequence[Chart]) -> str:
    """Returns the page that compares runs."""
    promises = "".join(
        f'<details class="card"><summary>{_swatch(place)}{escape(view.name)}</summary>{certificate(view)}</details>'
        for place, view in enumerate(views)
    )
    body = (
        f"{_warning(views)}<h2>What each run promised and reached</h2>{_table(views)}"
        f"<h2>Where the recipes differ</h2>{_differences(views)}<h2>Together</h2>{places(drawn)}"
        f"<h2>Certificates in words</h2>{promises}"
    )
    for_whom = "public page" if all(view.public for view in views) else "private page: do not publish"
    sub = f"{escape(', '.join(view.name for view in views))} · <b>{for_whom}</b>"
    return document(f"{len(views)} runs compared", sub, body, drawn)


def charts(views: Sequence[RunView]) -> list[Chart]:
    """Returns the curves of all runs: accuracy, loss, ε for each observer, and accuracy against ε."""
    out = [
        _overlay(views, "accuracy", "Test accuracy by round", Axis("accuracy", percent=True, range=(0.0, 1.0))),
        _overlay(views, "loss", "Test loss by round", _spanning(views, "loss")),
    ]
    for key, guarantee in _guarantees(views).items():
        out += [_spent(views, key, guarantee), _against(views, key, guarantee)]
    noise = _spanning(views, "noise_stddev", "standard deviation")
    out.append(_overlay(views, "noise_stddev", "Noise amplitude by round", noise))
    return [chart for chart in out if chart.series]


def _spanning(views: Sequence[RunView], field: str, title: str = "") -> Axis:
    """Returns an axis for a metric of all runs, by how far apart they ended."""
    values = [measured(view, field)[1] for view in views]
    return spanning(title or field, (value for path in values for value in path), (path[-1] for path in values if path))


def _guarantees(views: Sequence[RunView]) -> dict[str, Guarantee]:
    """Returns what any of the runs promises, by names that tell adjacencies apart where the runs differ in them."""
    return named(guarantee for view in views for guarantee in view.guarantees.values())


def _costs(view: RunView, guarantee: Guarantee) -> list[tuple[Mapping[str, Any], float]]:
    """Returns the rounds with a finite ε in one guarantee, and that ε."""
    name = next((name for name, own in view.guarantees.items() if own == guarantee), None)
    costs = ((line, line.get("epsilon", {}).get(name)) for line in view.played)
    return [(line, cost) for line, cost in costs if cost is not None]


def _overlay(views: Sequence[RunView], field: str, title: str, axis: Axis) -> Chart:
    series = []
    for place, view in enumerate(views):
        x, y = measured(view, field)
        if x:
            series.append(Series(view.name, x, y, color=place, dashed=_stroke(place)))
    return Chart(field.replace("_stddev", ""), title, "One line a run.", Axis("round"), axis, tuple(series))


def _spent(views: Sequence[RunView], key: str, guarantee: Guarantee) -> Chart:
    series = []
    budgets: list[float | None] = []
    for place, view in enumerate(views):
        costs = _costs(view, guarantee)
        if costs:
            x, y = [line["round"] for line, _ in costs], [cost for _, cost in costs]
            series.append(Series(view.name, x, y, color=place, dashed=_stroke(place)))
            budgets.append(view.recipe.budget.epsilon)
    note = f"Certified ε of the client that paid most: {told(key)}. Runs that promise nothing here are left out."
    note += _elsewhere(views, guarantee)
    rules = tuple(Rule(budget, f"budget {budget:g}") for budget in dict.fromkeys(budgets) if budget is not None)
    name = f"epsilon-{key.replace('/', '-')}"
    axis = spanning("ε", (y for one in series for y in one.y), [*(one.y[-1] for one in series), *budgets])
    return Chart(name, f"Privacy spent, {told(key)}", note, Axis("round"), axis, tuple(series), rules)


def _against(views: Sequence[RunView], key: str, guarantee: Guarantee) -> Chart:
    series, spent = list[Series](), list[list[float]]()
    for place, view in enumerate(views):
        both = [(cost, line["accuracy"]) for line, cost in _costs(view, guarantee) if line.get("accuracy") is not None]
        if both:
            x, y = [b[0] for b in both], [b[1] for b in both]
            spent.append(x)
            series.append(Series(view.name, x, y, color=place, dashed=_stroke(place)))
    note = "What each run reached for what it had spent by then: higher and further left is better."
    note += _elsewhere(views, guarantee)
    axes = (
        spanning("ε", (x for path in spent for x in path), (path[-1] for path in spent)),
        Axis("accuracy", percent=True, range=(0.0, 1.0)),
    )
    name = f"tradeoff-{key.replace('/', '-')}"
    return Chart(name, f"Accuracy against ε, {told(key)}", note, *axes, tuple(series))


def _elsewhere(views: Sequence[RunView], guarantee: Guarantee) -> str:
    """Says which runs promise another ε than their rounds have cost."""
    names = [view.name for view in views if any(view.guarantees[key] == guarantee for key in beyond(view))]
    if not names:
        return ""
    return f" What {' and '.join(names)} promised in the end is in the table: it is not where the line ends."


def _warning(views: Sequence[RunView]) -> str:
    kinds = {(entry["unit"], trust(view)) for view in views for entry in view.certificate}
    if len(kinds) < 2:
        return ""
    words = ", ".join(sorted(f"{unit} unit under {how} trust" for unit, how in kinds))
    text = f"These runs make different kinds of promise ({words}): equal ε does not mean equal protection."
    return f'<p class="contrast">{escape(text)}</p>'


def _table(views: Sequence[RunView]) -> str:
    wanted = _guarantees(views)
    timed = any(view.seconds is not None for view in views)
    head: list[Cell] = ["run", "mechanism", ("accuracy", "n"), ("loss", "n"), ("rounds", "n")]
    head += [("seconds", "n")] if timed else []
    head += [(f"ε {told(key)}", "n") for key in wanted]
    rows = []
    for place, view in enumerate(views):
        accuracy, loss = view.last("accuracy"), view.last("loss")
        row: list[Cell] = [
            _name(place, view),
            escape(f"{view.mechanism} ({view.recipe.mechanism.mode})"),
            ("" if accuracy is None else value("accuracy", f"{accuracy:.2%}".replace("%", " %"), accuracy), "n"),
            ("" if loss is None else value("loss", figure(loss), loss), "n"),
            (value("rounds", str(len(view.rounds)), len(view.rounds)), "n"),
        ]
        row += [("" if view.seconds is None else f"{view.seconds:.1f}", "n")] if timed else []
        promised = {view.guarantees[name]: entry for name, entry in view.promises.items()}
        rows.append(row + [(_epsilon(promised.get(guarantee)), "n") for guarantee in wanted.values()])
    return f'<div class="card">{table(head, rows)}</div>'


def _epsilon(entry: Any) -> str:
    if entry is None:
        return "–"
    shown = value("epsilon", number(entry["epsilon"]), entry["epsilon"])
    claimed = entry.get("claimed_epsilon")
    same = claimed is None or claimed == entry["epsilon"]
    return shown if same else f"{shown}<br><small>claimed {number(claimed)}</small>"


def _differences(views: Sequence[RunView]) -> str:
    flat = [_flatten(view.recipe.model_dump(mode="json")) for view in views]
    names = dict.fromkeys(name for settings in flat for name in settings)
    changed = [name for name in names if len({str(settings.get(name, "–")) for settings in flat}) > 1]
    if not changed:
        return '<p class="lead">They do not: these runs differ in nothing but chance.</p>'
    head: list[Cell] = ["setting", *(_name(place, view) for place, view in enumerate(views))]
    rows = [[escape(name), *(escape(str(settings.get(name, "–"))) for settings in flat)] for name in changed]
    summary = f"<summary>{len(changed)} settings</summary>"
    return f'<details class="card">{summary}{table(head, rows)}</details>'


def _flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, node in tree.items():
        out |= _flatten(node, f"{prefix}{name}.") if isinstance(node, dict) else {f"{prefix}{name}": node}
    return out


def _stroke(place: int) -> int:
    """Returns the stroke of a run's lines: colours that come again have another one."""
    return place // len(LIGHT)


def _name(place: int, view: RunView) -> str:
    return f'<div class="run">{_swatch(place)}<span>{escape(view.name)}</span></div>'


def _swatch(place: int) -> str:
    stroke, color = ("solid", "dashed", "dotted")[_stroke(place) % 3], f"var(--c{place % len(LIGHT)})"
    return f'<span class="stroke" style="border-top:3px {stroke} {color}"></span>'
