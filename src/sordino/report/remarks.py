"""What a reader would otherwise have to guess: why a chart is missing, and what numbers alone do not say."""

from __future__ import annotations

from html import escape

from sordino.report.view import RunView
from sordino.report.words import number


def remarks(view: RunView) -> str:
    """Returns what is to be known before looking at the plots, as HTML."""
    told = filter(None, (_unproved(view), _still(view), _short(view)))
    return "".join(f'<p class="contrast">{escape(text)}</p>' for text in told)


def missing(view: RunView) -> str:
    """Returns what is not shown, and why: a file is gone or cannot be read, or the mechanism has no such number."""
    if view.public:
        text = "Not shown, because it is private: who took part, costs by client and by round, clipping, and timings"
        scores = "" if view.last("loss") is not None else "; scores, because the test records are private"
        return f'<p class="sub" style="margin-top:14px">{text}{scores}.</p>'
    gone = []
    if view.federation is None:
        gone.append("the label map (the data of this run is not here)")
    if not view.costs:
        gone.append("costs by client (the ledger of this run is not here)")
    if not view.knobs:
        gone.append("what the mechanism learned (checkpoint.safetensors is gone or cannot be read)")
    chosen = view.recipe.mechanism
    if chosen.name == "component_adaptive" and chosen.mode == "faithful":
        gone.append("component scales (as printed each client has its own, and they are private)")
    if view.played and all(line.get("clip_fraction") is None for line in view.played):
        gone.append("the share that was clipped (that is done step by step in training, and not counted)")
    if view.recipe.run.notes and not view.notes:
        gone.append("private notes (notes.npz is gone or cannot be read)")
    return f'<p class="sub" style="margin-top:14px">Not shown: {"; ".join(gone)}.</p>' if gone else ""


def _unproved(view: RunView) -> str:
    """Says why there is no ε by round."""
    costs = [cost for line in view.played for cost in line.get("epsilon", {}).values()]
    if not costs or any(cost is not None for cost in costs):
        return ""
    text = "Privacy spent by round is not drawn, because nothing is proved: certified ε is ∞ from the first round on."
    claims = [entry["claimed_epsilon"] for entry in view.certificate if entry["claimed_epsilon"] is not None]
    if claims and view.recipe.budget.epsilon is not None:
        budget = f"{view.recipe.budget.epsilon:g}"
        text += f" The budget of ε = {budget} bound only what the paper claims, which is {number(max(claims))}."
    return text


def _still(view: RunView) -> str:
    """Says when nothing was learned, and nothing unlearned."""
    seen = [(line["loss"], line.get("accuracy")) for line in view.played if line.get("loss") is not None]
    return "The model never moved: its test loss is the same after every round." if _alike(seen) else ""


def _alike(seen: list[tuple[float, float | None]]) -> bool:
    return len(seen) > 1 and len(set(seen)) == 1


def _short(view: RunView) -> str:
    """Says when more was certified than metrics tell of."""
    charged, told = view.charged_rounds, view.rounds[-1]["round"]
    if not view.certificate or charged <= told:
        return ""
    return f"metrics.jsonl ends with round {told}, and the certificate covers {charged}: the plots lack the last ones."
