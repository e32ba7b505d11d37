"""Yuan et al. (2023), §V-C: the same mechanism on a support vector machine and on convolutional networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from papers.charts import beside
from papers.cited import YUAN
from papers.experiment import PIXELS, Experiment, ExperimentResult
from papers.experiment_runner import UNBOUND, ExperimentRunner, SeedRuns
from papers.printed_line import SPREADS, PrintedLine, number, statement
from papers.yuan import FEWER, FREE, MLP, RATE, SCENE, experiment, geometric, grids, over, silent
from papers.yuan_verdicts import at_best, best_m, later_optima, least_loss, least_of, less_loss, near_silence, order
from sordino.audit.membership import infer
from sordino.charts import Axis, Chart, Rule
from sordino.recipe import Recipe
from sordino.runs.setup import load

SVM = [*SCENE, "data.name=adult", "model.name=svm"]
CNN = {name: [*SCENE, f"data.name={name}", "model.name=cnn_yuan"] for name in ("cifar10", "fashion-mnist")}
NAMES = {"cifar10": "CIFAR-10", "fashion-mnist": "Fashion-MNIST"}
ADULT = (
    "The paper's Adult has 40,000 records of up to 58 attributes: ours are the 32,561 + 16,281 of its two files, with "
    "104 inputs once categories are spelt out."
)
SETTINGS = (
    RATE,
    ADULT,
    "λ_r is not stated: no regulariser here, others in yuan-fig7-readings. The usual hinge loss is trained with "
    "gradient steps, as the rest is; the text has “a standard quadratic optimization algorithm”.",
)
CURVES = "Every point is a run of its own, as in Fig. 3; for Fig. 9 the text says that of every curve, and has M = 50."
SHADOWS = (
    RATE,
    PIXELS,
    "The attack is not stated beyond its shadow models: Shokri et al. (2017), boosted trees on the three highest "
    "confidences and on that in the record's own class.",
    "The model that is released last is attacked; §II-B speaks of that of one user.",
    "Every model is trained on its own random half of the images (about 300 a user), and the other half are the "
    "non-members.",
    "25 shadow models and 50 trials, as printed (quick: 3 and 2).",
)
REMEMBERS = [
    "partition.clients=20", "partition.size=40", "data.name=mnist", "model.name=mlp", "model.hidden=[256]",
    "train.learning_rate=0.5", "train.steps=40", "select.kind=fixed", "select.size=10", "budget.delta=0.001",
]  # fmt: skip
"""Declared before it was run: 20 users of 40 images, 256 hidden units with ReLU, 40 full-batch steps of 0.5 a round."""
DECLARED = (
    "Declared to overfit, in place of the paper's linear network: 20 users of 40 images, 256 hidden units with ReLU, "
    "and 40 full-batch steps of 0.5 between aggregations. Members can be told where the share of right answers is "
    "above a half by more than two standard deviations of the trials.",
)
NO_FALL = "noise of the printed σ leaves as much to infer as is told for no DP, or more than 0.6"
NOT_YET = "even this network does not give its records away"
OVERFIT = (
    "the learning rate is not stated; with ours a linear network of 32 hidden units hardly remembers anything after "
    "150 gradient steps: LiRA's area under the curve is {:.3f}, where 0.5 is guessing"
)
SILENT = "without noise the network gives as little away (“no DP”), so there is nothing that noise could hide"
WEIGHTS = (
    "nothing is learnt: C = 5 bounds the norm of all weights together, and those of LeNet begin above it, so clipping "
    "shrinks every layer after each step"
)
LAYERS = (
    RATE,
    PIXELS,
    "The network is trained “using the SGD”, without the size of a batch: full batches, as for the others.",
    "Sizes of the network's layers are not stated: LeNet's (6 and 16 channels, 120 and 84 units).",
)


def fig7(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 7: the SVM on Adult, by ϑ."""
    grid = runner.size((5, 10, 15, 20, 30, 40, 50), (5, 15, 30, 50))
    runs = {f"ϑ = {t:g}": over(runner, grid, t, scene=SVM) for t in (0.9, 0.95, 1.0, 1.05, 1.1)}
    least = {name: least_loss(row) for name, row in runs.items()}
    shown = ", ".join(f"{name}: {value:.4f}" for name, value in least.items())
    at = {name: at_best(row) for name, row in runs.items()}
    groups = [[at["ϑ = 1.05"], at["ϑ = 1.1"]], [at["ϑ = 1"]], [at["ϑ = 0.9"], at["ϑ = 0.95"]]]
    line = order("least loss", "ϑ > 1 best, then 1, then ϑ < 1", shown, groups)
    return ExperimentResult((line,), grids("yuan-fig7", "Yuan et al., Fig. 7: SVM on Adult", runs))


def fig8(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 8: the CNN on CIFAR-10 and Fashion-MNIST, by ϑ."""
    lines: list[PrintedLine] = []
    charts: list[Chart] = []
    for name, scene in CNN.items():
        part = runner.on(NAMES[name])
        grid, thetas = part.size((5, 10, 20, 30), (1, 2)), part.size((0.9, 0.95, 1.0, 1.05, 1.1), (0.95, 1.0, 1.05))
        runs = {f"ϑ = {t:g}": over(part, grid, t, scene=scene) for t in thetas}
        best = least_of(runs)
        shown = ", ".join(f"{theta}: {least_loss(row):.3f}" for theta, row in runs.items())
        lines.append(_learnt(f"{NAMES[name]}: least loss", "ϑ < 1", shown, best in ("ϑ = 0.9", "ϑ = 0.95"), runs))
        charts += grids(f"yuan-fig8-{name}", f"Yuan et al., Fig. 8: {NAMES[name]}", runs)
    return ExperimentResult(tuple(lines), tuple(charts), short=runner.short(NAMES.values()))


def fig9(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 9: the SVM on Adult, by ε."""
    grid, levels = runner.size((5, 10, 20, 30, 40, 50), (5, 20, 50)), (2.0, 5.0, 10.0, 20.0, 50.0)
    runs = {f"ε = {e:g}": over(runner, grid, 1.05, e, SVM) for e in levels} | {"no noise": silent(runner, grid, SVM)}
    free = [found.last("loss")[0] for found in runs["no noise"].values()]
    best = [best_m(runs[f"ε = {e:g}"]) for e in levels]
    accurate = [max(found.last()[0] for found in runs[f"ε = {e:g}"].values()) for e in levels]
    shown = ", ".join(f"{e:g}: {100 * x:.1f} %" for e, x in zip(levels, accurate, strict=True))
    lines = (
        less_loss(runs, levels),
        near_silence(runs, levels, max(levels)),
        statement("best accuracy as ε rises", "can improve", shown, accurate[-1] > accurate[0]),
        statement(
            "without noise",
            "does not diverge",
            ", ".join(f"{x:.4f}" for x in free),
            free == sorted(free, reverse=True),
        ),
        statement("with noise", "diverges", f"M*: {', '.join(map(str, best))}", max(best) < max(grid)),
    )
    return ExperimentResult(lines, grids("yuan-fig9", "Yuan et al., Fig. 9: SVM on Adult", runs))


def fig10(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 10: the CNN, by ε."""
    lines: list[PrintedLine] = []
    charts: list[Chart] = []
    for name, scene in CNN.items():
        part = runner.on(NAMES[name])
        grid, levels = part.size((5, 10, 20, 30), (5, 12)), part.size((5.0, 10.0, 20.0, 50.0), (5.0, 50.0))
        found = _levels(part, grid, levels, scene)
        noisy = {label: row for label, row in found.items() if label != "no noise"}
        lines += [
            _learnt(f"{NAMES[name]}: {line.quantity}", line.printed, line.ours, line.status == "equal", noisy)
            for line in (less_loss(found, levels), later_optima(found, levels))
        ]
        charts += grids(f"yuan-fig10-{name}", f"Yuan et al., Fig. 10: {NAMES[name]}", found)
    return ExperimentResult(tuple(lines), tuple(charts), short=runner.short(NAMES.values()))


def table3(runner: ExperimentRunner) -> ExperimentResult:
    """Table III: success of membership inference."""
    printed = {5: (0.581, 0.582, 0.573), 10: (0.599, 0.587, 0.583), 20: (0.607, 0.602, 0.596)}
    wanted = [
        (epsilon, theta, value)
        for epsilon, row in printed.items()
        for theta, value in zip((0.95, 1.0, 1.05), row, strict=True)
    ]
    free = _attacked(runner, [*MLP, "mechanism.name=fedavg", UNBOUND, "run.rounds=30"])
    found = [_attacked(runner, geometric(theta, 30, epsilon)) for epsilon, theta, _ in wanted]
    lines = [
        number(
            f"ε = {epsilon}, ϑ = {theta:g}", value, one["success_rate"], 3, 0.02, SILENT, one["success_stddev"] or 0.0
        )
        for (epsilon, theta, value), one in zip(wanted, found, strict=True)
    ]
    alone, around = free["success_rate"], free["success_stddev"] or 0.0
    lines.append(number("no DP", 0.993, alone, 3, 0.02, OVERFIT.format(free["lira"]["area"]), around))
    later = [one["success_rate"] for (_, theta, _), one in zip(wanted, found, strict=True) if theta == 1.05]
    shown = ", ".join(f"{100 * (alone - rate):z.1f} % to {100 * rate:.1f} %" for rate in later)
    fallen = all(abs(alone - rate - 0.4) < 0.05 and rate < 0.6 for rate in later)
    lines.append(statement("fall from no DP, ϑ = 1.05", "by about 40 % to less than 60 %", shown, fallen, SILENT))
    best = max([*found, free], key=lambda one: one["lira"]["tpr_at_fpr_0.001"])["lira"]["tpr_at_fpr_0.001"]
    places = [*(f"{epsilon}, {theta:g}" for epsilon, theta, _ in wanted), "no DP"]
    told = {
        "printed": [*(value for *_, value in wanted), 0.993],
        "ours": [one["success_rate"] for one in (*found, free)],
    }
    axis = Axis("share of right answers", percent=True, range=(0.0, 1.0))
    guess = (Rule(0.5, "guessing", 7, below=True),)
    chart = beside("yuan-table3", "Yuan et al., Table III: membership inference", "ε, ϑ", places, told, axis, guess)
    areas = [f"{place}: {one['lira']['area']:.3f}" for place, one in zip(places, (*found, free), strict=True)]
    remarks = (
        f"LiRA finds at most {best:.2%} of the members at 0.1 % false alarms.",
        f"LiRA's area under the curve, where 0.5 is guessing, by ε and ϑ: {'; '.join(areas)}.",
    )
    return ExperimentResult(tuple(lines), (chart,), remarks)


def table3_overfitting(runner: ExperimentRunner) -> ExperimentResult:
    """Table III's question where something can be inferred: a declared network that remembers its records."""
    free = _attacked(runner, [*REMEMBERS, "mechanism.name=fedavg", UNBOUND, "run.rounds=30"])
    found = {e: _attacked(runner, geometric(1.05, 30, e, REMEMBERS)) for e in (5.0, 10.0, 20.0)}
    alone, around = free["success_rate"], free["success_stddev"] or 0.0
    told = alone - 0.5 > SPREADS * around
    lines = [statement("no DP", "members can be told (0.993)", _around(free), told, NOT_YET)]
    for epsilon, one in found.items():
        falls = one["success_rate"] < min(0.6, alone)
        lines.append(statement(f"ε = {epsilon:g}, ϑ = 1.05", "falls below 0.6", _around(one), falls, NO_FALL))
    lines = [replace(line, why="") if line.status == "equal" else line for line in lines]
    areas = ", ".join(f"ε = {epsilon:g}: {one['lira']['area']:.3f}" for epsilon, one in found.items())
    remark = f"LiRA's area under the curve, where 0.5 is guessing: no DP {free['lira']['area']:.3f}, {areas}."
    return ExperimentResult(tuple(lines), (), (remark,))


def _around(found: Mapping[str, Any]) -> str:
    """Returns a share of right answers, and its standard deviation over trials."""
    spread = found["success_stddev"]
    return f"{found['success_rate']:.3f}" + (f" ± {spread:.3f}" if spread else "")


def _attacked(runner: ExperimentRunner, settings: Sequence[str]) -> Mapping[str, Any]:
    """Returns how members are told from others, found once for each recipe and kept."""
    return runner.once(membership, settings, *runner.size((25, 50), (3, 2)))


def membership(recipe: Recipe, place: Path, arguments: tuple[int, ...]) -> dict[str, Any]:
    """Measures how members are told from others (`audit.membership`), by so many shadow models and trials."""
    shadows, trials = arguments
    federation = load(recipe)
    every = len(federation.train_y)
    found = infer(recipe, federation, shadows, trials, every, recipe.run.rounds, recipe.run.seed)
    told: dict[str, Any] = found.to_json()
    return told


def _learnt(
    quantity: str, printed: str, ours: str, holds: bool, runs: Mapping[str, Mapping[int, SeedRuns]]
) -> PrintedLine:
    """Judges a statement about networks, which means nothing where none has learnt anything: then it differs.

    It is not called impossible, since a network of other sizes, which are not stated, may begin within C.
    """
    if max(found.last()[0] for row in runs.values() for found in row.values()) < 0.2:
        return statement(quantity, printed, ours, False, WEIGHTS)
    return statement(quantity, printed, ours, holds)


def _levels(
    runner: ExperimentRunner, grid: Sequence[int], levels: Sequence[float], scene: Sequence[str]
) -> dict[str, dict[int, SeedRuns]]:
    runs = {f"ε = {e:g}": over(runner, grid, 1.05, e, scene) for e in levels}
    return runs | {"no noise": silent(runner, grid, scene)}


FEW = "The levels are not stated: ε = 5, 10, 20, 50."
ALL = "The levels are not stated: ε = 2, 5, 10, 20, 50."
EXPERIMENTS = (
    experiment("yuan-fig7", "Fig. 7, §V-C", "SVM on Adult by ϑ", fig7, *SETTINGS, shorter=FEWER),
    experiment(
        "yuan-fig8",
        "Fig. 8, §V-C",
        "CNN by ϑ",
        fig8,
        *LAYERS,
        shorter=f"{FEWER}, at most 2 of 30 rounds",
    ),
    experiment("yuan-fig9", "Fig. 9, §V-C", "SVM on Adult by ε", fig9, *SETTINGS, CURVES, ALL, FREE, shorter=FEWER),
    experiment(
        "yuan-fig10",
        "Fig. 10, §V-C",
        "CNN by ε",
        fig10,
        *LAYERS,
        FEW,
        FREE,
        shorter=f"{FEWER}, at most 12 of 30 rounds",
    ),
    Experiment(
        "yuan-table3",
        YUAN,
        "Table III, §V-B-4",
        "Membership inference",
        table3,
        choices=SHADOWS,
        shorter="3 shadow models, 2 trials",
        whole="25 shadow models, 50 trials",
    ),
    Experiment(
        "yuan-table3-overfitting",
        YUAN,
        "Table III, §V-B-4",
        "Membership inference where there is something to infer",
        table3_overfitting,
        choices=(*DECLARED, *SHADOWS[2:4]),
        shorter="3 shadow models, 2 trials",
        whole="25 shadow models, 50 trials",
    ),
)
