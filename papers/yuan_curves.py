"""What Yuan et al. (2023) say of the shapes and courses of their curves, judged by the curves that were recorded.

Recorded curves are means over seeds. A bend, a fall or a lead that is smaller than `BLUNT` says nothing about a shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from papers.cited import YUAN
from papers.drawn import PICTURES, Point, curves
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner
from papers.printed_line import PrintedLine, number, statement
from papers.yuan_verdicts import BLUNT, DOUBT, NEAR

UNIT = {"loss": (1.0, 3, ""), "accuracy": (100.0, 2, " points")}
EARLY = 5
"""So many aggregations count as the early stage."""
PLANNED = 30.0
Curves = Mapping[str, Sequence[Point]]


def found(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 2, 3, 4, 6, 7, 9 and 10: every statement about a course that their own sections do not judge."""
    lines = [*_fig2(), *_fig3(), *_fig4(), *_fig6(), *_fig7(), *_fig10()]
    return ExperimentResult(tuple(replace(line, why="") if line.status == "equal" else line for line in lines))


def _fig2() -> list[PrintedLine]:
    loss, accuracy = (_read(f"yuan-fig2-{field}") for field in UNIT)
    early = {name: sum(y for _, y in path[:EARLY]) / EARLY for name, path in loss.items()}
    shown = ", ".join(f"{name}: {early[name]:.3f}" for name in ("ϑ = 0.9", "ϑ = 0.95", "ϑ = 1"))
    lost = {name: peak_to_end(path) for name, path in accuracy.items() if name != "Laplace"}
    told = ", ".join(f"{name}: {100 * value:.2f}" for name, value in lost.items())
    quantity = f"Fig. 2(a): mean loss of the first {EARLY} aggregations"
    return [
        leads(f"{quantity}, ϑ < 1", "large: above ϑ = 1", shown, early["ϑ = 0.95"] - early["ϑ = 1"], "loss"),
        leads(f"{quantity}, ϑ = 0.9 → 0.95", "decreases", shown, early["ϑ = 0.9"] - early["ϑ = 0.95"], "loss"),
        leads(
            "Fig. 2(b): points of accuracy lost from the peak to the end", "more stable under a smaller ϑ", told,
            lost["ϑ = 1.1"] - lost["ϑ = 0.9"], "accuracy",
        ),
    ]  # fmt: skip


def _fig3() -> list[PrintedLine]:
    loss, accuracy = (_read(f"yuan-fig3-{field}") for field in UNIT)
    least = {name: min(y for _, y in path) for name, path in loss.items()}
    up, down = (min(least[name] for name in pair) for pair in (("ϑ = 1.05", "ϑ = 1.1"), ("ϑ = 0.9", "ϑ = 0.95")))
    shown = ", ".join(f"{name}: {value:.3f}" for name, value in least.items())
    lead = min(down - up, least["ϑ = 1"] - down)
    order = leads("Fig. 3: least loss", "ϑ > 1 best, then ϑ < 1, then 1", shown, lead, "loss")
    rises = [_diverges(f"Fig. 3, {name}", path) for name, path in loss.items()]
    return [*_shapes("Fig. 3", loss, accuracy), *rises, order]


def _fig4() -> list[PrintedLine]:
    loss, accuracy = ({n: p for n, p in _read(f"yuan-fig4-{field}").items() if n != "no noise"} for field in UNIT)
    best = {name: max(y for _, y in path) for name, path in accuracy.items()}
    shown = ", ".join(f"{name}: {100 * value:.1f} %" for name, value in best.items())
    rises = list(best.values()) == sorted(best.values())
    return [*_shapes("Fig. 4", loss, accuracy), statement("Fig. 4(b): best accuracy", "rises with ε", shown, rises)]


def _fig6() -> list[PrintedLine]:
    loss, accuracy = (_read(f"yuan-fig6-{field}") for field in UNIT)
    plain = {name: dict(path)[PLANNED] for name, path in _read("yuan-fig3-accuracy").items()}
    lines = []
    for shrink, printed in ((0.8, 1.05), (0.9, 1.1)):
        mine = {name: path for name, path in accuracy.items() if name.startswith(f"α_d = {shrink}")}
        end = {name.split(", ")[1]: path[-1][1] for name, path in mine.items()}
        best = max(end, key=end.__getitem__)
        lines.append(number(f"Fig. 6: ϑ of the best accuracy, α_d = {shrink}", printed, float(best.split()[-1]), 2))
        for name in ("ϑ = 1", "ϑ = 1.05", "ϑ = 1.1"):
            shown = f"{100 * plain[name]:.2f} % (Fig. 3, M = 30) → {100 * end[name]:.2f} %"
            quantity = f"Fig. 6: accuracy, α_d = {shrink}, {name}"
            lines.append(leads(quantity, "improves", shown, end[name] - plain[name], "accuracy"))
    rise = {name: path[-1][1] - min(y for _, y in path) for name, path in loss.items()}
    worst = max(rise, key=rise.__getitem__)
    shown = f"ends {rise[worst]:.3f} above its least at most ({worst})"
    return [*lines, statement("Fig. 6: loss", "decreases under all ϑ", shown, rise[worst] < BLUNT["loss"])]


def _fig7() -> list[PrintedLine]:
    loss, accuracy = (_read(f"yuan-fig7-{field}") for field in UNIT)
    best = {name: max(y for _, y in path) for name, path in accuracy.items()}
    up, down = (max(best[name] for name in pair) for pair in (("ϑ = 1.05", "ϑ = 1.1"), ("ϑ = 0.9", "ϑ = 0.95")))
    shown = ", ".join(f"{name}: {100 * value:.2f} %" for name, value in best.items())
    lead = min(up - best["ϑ = 1"], best["ϑ = 1"] - down)
    order = leads("Fig. 7: best accuracy", "ϑ > 1 best, then 1, then ϑ < 1", shown, lead, "accuracy")
    return [order, *(_diverges(f"Fig. 7, {name}", path) for name, path in loss.items())]


def _fig10() -> list[PrintedLine]:
    """The CNN's losses, which hardly move at all."""
    loss = {n: p for n, p in _read("yuan-fig10-fashion-mnist-loss").items() if n != "no noise"}
    moved = max(max(y for _, y in path) - min(y for _, y in path) for path in loss.values())
    why = "nothing is learnt: LeNet's weights begin outside C"
    shown = f"no loss moves by more than {moved:.3f} over all M"
    return [statement("Fig. 10: loss on Fashion-MNIST", "convex in M", shown, moved > BLUNT["loss"], why)]


def _shapes(figure: str, loss: Curves, accuracy: Curves) -> list[PrintedLine]:
    return [
        *(bent(f"{figure}, {name}", path, "loss") for name, path in loss.items()),
        *(bent(f"{figure}, {name}", path, "accuracy") for name, path in accuracy.items()),
    ]


def bent(name: str, path: Sequence[Point], field: str) -> PrintedLine:
    """Judges whether loss is convex, or accuracy concave, in M.

    Every inner point is held to the straight line between its neighbours: it may lie on the wrong side by `BLUNT`.
    """
    sign = 1 if field == "loss" else -1
    wrong = {round(m): depth for m, depth in bends(path).items() if sign * depth < -BLUNT[field]}
    factor, digits, unit = UNIT[field]
    told = ", ".join(f"{factor * abs(depth):.{digits}f}{unit} at M = {m}" for m, depth in wrong.items())
    printed = "convex in M" if field == "loss" else "concave in M"
    shown = f"bends the other way: {told}" if told else f"so at all {len(path) - 2} inner M"
    return statement(f"{name}: {field}", printed, shown, not wrong)


def bends(path: Sequence[Point]) -> dict[float, float]:
    """Returns by how much every inner point lies below the straight line between its neighbours."""
    depths = {}
    for (before, low), (at, value), (after, high) in zip(path, path[1:], path[2:], strict=False):
        share = (at - before) / (after - before)
        depths[at] = (1 - share) * low + share * high - value
    return depths


def peak_to_end(path: Sequence[Point]) -> float:
    """Returns what a curve has lost at its end from its peak."""
    return max(y for _, y in path) - path[-1][1]


def _diverges(name: str, path: Sequence[Point]) -> PrintedLine:
    """Judges whether there is an M* within the grid: loss ends above its least by `BLUNT` or more."""
    m, least = min(path, key=lambda point: point[1])
    rise = path[-1][1] - least
    shown = f"least at M = {m:.0f}, {rise:+.3f} at M = {path[-1][0]:.0f}"
    return leads(f"{name}: loss", "rises again after M*", shown, rise or -1.0, "loss")


def leads(quantity: str, printed: str, shown: str, lead: float, field: str) -> PrintedLine:
    """Judges a lead: it holds from `BLUNT` on, differs from that much in the other direction, and else is undecided."""
    if abs(lead) < BLUNT[field]:
        return PrintedLine(quantity, printed, shown, "undecided", NEAR[field])
    return statement(quantity, printed, shown, lead > 0)


def _read(key: str) -> dict[str, list[Point]]:
    return {name: [(round(x, 4), y) for x, y in path] for name, path in curves(PICTURES / f"{key}.svg").items()}


HOW = (
    "By the recorded curves, which are means over three seeds (Fig. 10: one). A bend, a rise or a lead of less than "
    "0.01 of loss or half a point of accuracy counts as none; the early stage is the first five aggregations.",
    "Fig. 6 is compared with Fig. 3 at M = 30, as the text does; under refinement a user holds 540 images, there 600.",
)
EXPERIMENTS = (
    Experiment(
        "yuan-curves", YUAN, "Fig. 2 to 4, 6, 7 and 10, §V-B, C", "Shapes and courses, by the recorded curves", found,
        "exact", recorded=True, choices=HOW, doubt=DOUBT,
    ),
)  # fmt: skip
