"""The report of one run: the certificate first, in words; then the model, the plots, and the recipe."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from sordino import recipe as recipes
from sordino.mechanisms import MECHANISMS
from sordino.report import plots, static
from sordino.report.chart import Chart
from sordino.report.document import document, table, value
from sordino.report.document import plots as places
from sordino.report.reading import RunView
from sordino.report.remarks import missing, remarks
from sordino.report.words import Promise, figure, number, promise


def write(view: RunView, out: Path, images: Path | None) -> list[Path]:
    """Writes the report, and with `images` every plot of it as SVG and PNG; returns the files."""
    charts = plots.charts(view)
    pictures = [path for chart in charts for path in static.save(chart, images)] if images is not None else []
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(view, charts), encoding="utf-8")
    return [out, *pictures]


def page(view: RunView, charts: list[Chart]) -> str:
    """Returns the page of one run."""
    mechanism, data = view.recipe.mechanism, view.recipe.data
    kind = "simulation" if view.facts.get("simulation") else "deployment"
    sub = f"run {escape(view.name)} · {mechanism.mode} · {escape(trust(view))} trust · {kind}"
    went = "<h2>How it went</h2>", remarks(view), places(charts), missing(view), _rounds(view)
    body = "".join((certificate(view), _tiles(view), *went, _recipe(view)))
    return document(f"{mechanism.name} on {data.name}", sub, body, charts)


def trust(view: RunView) -> str:
    """Returns how noise was applied: the recipe's choice, or the mechanism's own."""
    return str(getattr(view.recipe.mechanism, "trust", None) or MECHANISMS[view.recipe.mechanism.name].trust)


def certificate(view: RunView) -> str:
    """Returns what was protected, and against whom."""
    if not view.certificate:
        text = "This run has not finished: there is no certificate yet. What it has spent so far is below."
        return f'<h2>What was protected, and against whom</h2><p class="lead">{text}</p>'
    ranked = sorted(view.promises.items(), key=lambda item: item[1]["epsilon"] is None)
    budget = view.recipe.budget.epsilon
    told = (promise(entry, trust(view), budget, alone=name.count("/") == 1) for name, entry in ranked)
    cards = "".join(_card(name, words, entry) for (name, entry), words in zip(ranked, told, strict=True))
    return f'<h2>What was protected, and against whom</h2><div class="promises">{cards}</div>{_seed(view)}'


def _card(name: str, told: Promise, entry: Mapping[str, Any]) -> str:
    exact = value("epsilon", told.epsilon, entry["epsilon"])
    proved, at = (
        ("certified", f"<small>at δ = {told.delta}</small>") if entry["epsilon"] is not None else ("proved", "")
    )
    figures = f'<div><span class="what">{proved}</span><div class="big">ε = {exact}{at}</div></div>'
    if told.claimed is not None:
        claimed = value("claimed_epsilon", told.claimed, entry["claimed_epsilon"])
        figures += (
            f'<div><span class="what">claimed by the paper</span><div class="big struck">ε = {claimed}</div></div>'
        )
    mood = " alarming" if told.alarming else ""
    contrast = f'<p class="contrast">{escape(told.contrast)}</p>' if told.contrast else ""
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in told.facts)
    return (
        f'<article class="card promise{mood}" data-entry="{escape(name)}">'
        f'<div class="head"><h3>{escape(told.title)}</h3><span class="badge{mood}">{told.verdict}</span></div>'
        f'<div class="figures">{figures}</div>{contrast}<p>{escape(told.sentence).replace(" %", "&nbsp;%")}</p>'
        f'<dl class="facts">{facts}</dl></article>'
    )


def _seed(view: RunView) -> str:
    if not view.facts.get("simulation"):
        return ""
    text = (
        "This was a simulation: its noise is drawn from a seed, so that it can be repeated. The certificate holds for "
        "the same mechanism with noise that nobody can predict."
    )
    return f'<p class="sub" style="margin-top:14px">{text}</p>'


def _tiles(view: RunView) -> str:
    accuracy, loss = view.last("accuracy"), view.last("loss")
    seconds = sum(line.get("seconds_total", 0.0) for line in view.rounds)
    tiles = [
        ("test accuracy", value("accuracy", f"{accuracy:.1%}".replace("%", " %"), accuracy))
        if accuracy is not None
        else None,
        ("test loss", value("loss", figure(loss), loss)) if loss is not None else None,
        (f"rounds of {view.recipe.run.rounds}", value("rounds", str(len(view.rounds)), len(view.rounds))),
        ("clients", f"{len(view.participations):,}") if len(view.participations) else None,
        ("budget ε", f"{view.recipe.budget.epsilon:g}") if view.recipe.budget.epsilon is not None else None,
        ("seconds", f"{seconds:.1f}"),
    ]
    inner = "".join(
        f'<div class="card tile"><b>{text}</b><span>{name}</span></div>' for name, text in filter(None, tiles)
    )
    return f'<div class="tiles">{inner}</div>'


def _rounds(view: RunView) -> str:
    observers = list(dict.fromkeys(key for line in view.rounds for key in line.get("epsilon", {})))
    head = ["round", "asked", "counted", "accuracy", "loss", "noise", *(f"ε {key}" for key in observers)]
    rows = []
    for line in view.rounds:
        counts = ["aborted" if line.get(key) is None else f"{line[key]:,}" for key in ("cohort", "survivors")]
        measured = ["" if line.get(key) is None else figure(line[key]) for key in ("accuracy", "loss", "noise_stddev")]
        spent = [number(line["epsilon"][key]) if key in line.get("epsilon", {}) else "" for key in observers]
        rows.append([(text, "n") for text in (str(line["round"]), *counts, *measured, *spent)])
    inner = table([(name, "n") for name in head], rows)
    return f"<details class='card'><summary>Every round as a table</summary>{inner}</details>"


def _recipe(view: RunView) -> str:
    return (
        f"<details class='card'><summary>The recipe, with every setting</summary>"
        f"<pre>{escape(recipes.dump(view.recipe))}</pre></details>"
    )
