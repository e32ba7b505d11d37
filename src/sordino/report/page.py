"""The report of one run: the certificate first, in words; then the model, the plots, and the recipe."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from sordino.charts import Chart
from sordino.files import PRIVATE, PUBLIC, replace_file
from sordino.mechanisms import MECHANISMS
from sordino.report import plots, static
from sordino.report.document import document, table, value
from sordino.report.document import plots as places
from sordino.report.remarks import missing, remarks
from sordino.report.view import RunView
from sordino.report.words import PromiseWords, figure, number, promise


def write(view: RunView, out: Path, images: Path | None) -> list[Path]:
    """Writes the report, and with `images` every plot of it as SVG and PNG; returns the files."""
    charts = plots.charts(view)
    pictures = [path for chart in charts for path in static.save(chart, images)] if images is not None else []
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, page(view, charts).encode(), PUBLIC if view.public else PRIVATE)
    return [out, *pictures]


def page(view: RunView, charts: list[Chart]) -> str:
    """Returns the page of one run."""
    mechanism, data = view.recipe.mechanism, view.recipe.data
    kind = "simulation" if view.facts.get("simulation") else "deployment"
    for_whom = "public page" if view.public else "private page: do not publish"
    sub = f"run {escape(view.name)} · {mechanism.mode} · {escape(trust(view))} trust · {kind} · <b>{for_whom}</b>"
    went = "<h2>How it went</h2>", remarks(view), places(charts), missing(view), _rounds(view)
    body = "".join((_for_whom(view), certificate(view), _tiles(view), *went, _stated(view), _recipe(view)))
    return document(f"{view.mechanism} on {data.name}", sub, body, charts)


def _for_whom(view: RunView) -> str:
    text = (
        "This is a public page: it shows what was released or fixed beforehand, and what the certificate covers."
        if view.public
        else "This is a private page: it shows numbers of the clients' data that nothing protects. Do not publish it; "
        "`sordino report` without --private makes a page that may be."
    )
    return f'<p class="{"sub" if view.public else "contrast"}" data-field="page">{escape(text)}</p>'


def trust(view: RunView) -> str:
    """Returns how noise was applied: the recipe's choice, or the mechanism's own."""
    chosen = view.recipe.mechanism
    return MECHANISMS[chosen.name].trust_of(chosen)


def certificate(view: RunView) -> str:
    """Returns what was protected, and against whom."""
    if not view.certificate:
        text = "This run has not finished: there is no certificate yet. What it has spent so far is below."
        return f'<h2>What was protected, and against whom</h2><p class="lead">{text}</p>'
    ranked = sorted(view.promises.items(), key=lambda item: item[1]["epsilon"] is None)
    budget = view.recipe.budget.epsilon
    seeded = bool(view.facts.get("simulation"))
    told = (promise(_named(entry, view), trust(view), budget, name.count("/") == 1, seeded) for name, entry in ranked)
    cards = "".join(_card(name, words, entry) for (name, entry), words in zip(ranked, told, strict=True))
    return f'<h2>What was protected, and against whom</h2><div class="promises">{cards}</div>{_seed(view)}'


def _named(entry: Mapping[str, Any], view: RunView) -> Mapping[str, Any]:
    """Returns the entry with the name of the client that paid most, where it has one and the page is private."""
    worst = entry.get("worst")
    if view.public or not worst or worst["client"] not in view.client_names:
        return entry
    return {**entry, "worst": {**worst, "name": view.client_names[worst["client"]]}}


def _card(name: str, told: PromiseWords, entry: Mapping[str, Any]) -> str:
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
        "This was a simulation: its noise is drawn from a seed, and whoever knows the seed can take it away. What is "
        "certified is the same mechanism with noise that nobody can predict."
    )
    return f'<p class="sub" style="margin-top:14px">{text}</p>'


def _tiles(view: RunView) -> str:
    accuracy, loss = view.last("accuracy"), view.last("loss")
    tiles = [
        ("test accuracy", value("accuracy", f"{accuracy:.1%}".replace("%", " %"), accuracy))
        if accuracy is not None
        else None,
        ("test loss", value("loss", figure(loss), loss)) if loss is not None else None,
        *_task_tiles(view),
        (f"rounds of {view.recipe.run.rounds}", value("rounds", str(len(view.rounds)), len(view.rounds))),
        ("clients", f"{len(view.participations):,}") if len(view.participations) else None,
        ("budget ε", f"{view.recipe.budget.epsilon:g}") if view.recipe.budget.epsilon is not None else None,
        ("seconds", f"{view.seconds:.1f}") if view.seconds is not None else None,
    ]
    shown = filter(None, tiles)
    inner = "".join(f'<div class="card tile"><b>{text}</b><span>{name}</span></div>' for name, text in shown)
    return f'<div class="tiles">{inner}</div>'


def _task_tiles(view: RunView) -> list[tuple[str, str]]:
    """Returns what else fits the task: area under the curve; error in the target's unit, and variance explained."""
    told, unit = view.scores, escape(str(view.scores.get("unit", "")))
    shown = []
    if told.get("auc") is not None:
        shown.append(("AUC", value("auc", f"{told['auc']:.3f}", told["auc"])))
    if told.get("rmse") is not None:
        shown.append((f"RMSE {unit}".strip(), value("rmse", figure(told["rmse"]), told["rmse"])))
    if told.get("r2") is not None:
        shown.append(("R²", value("r2", f"{told['r2']:.3f}", told["r2"])))
    return shown


def _rounds(view: RunView) -> str:
    if view.public:
        return _released(view)
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


def _released(view: RunView) -> str:
    head = ["round", "accuracy", "loss", "noise"]
    rows = []
    for line in view.rounds:
        told = ["" if line.get(key) is None else figure(line[key]) for key in ("accuracy", "loss", "noise_stddev")]
        rows.append([(text, "n") for text in (str(line["round"]), *told)])
    inner = table([(name, "n") for name in head], rows)
    return f"<details class='card'><summary>Every round as a table</summary>{inner}</details>"


def _stated(view: RunView) -> str:
    """Returns how the run was made, as its certificate says."""
    rows = [(escape(name), escape(text)) for name, text in view.facts.get("stated", {}).items()]
    if not rows:
        return ""
    inner = table(["", ""], rows)
    return f"<details class='card'><summary>What the certificate says of the run</summary>{inner}</details>"


def _recipe(view: RunView) -> str:
    if view.public:
        title, text = "The recipe, without what is private", (view.folder.public / "recipe.toml").read_text()
    else:
        title, text = "The recipe, with every setting", view.recipe.to_toml()
    return f"<details class='card'><summary>{title}</summary><pre>{escape(text)}</pre></details>"
