"""Yuan et al. (2023), "Amplitude-Varying Perturbation for Balancing Privacy and Utility in FL" (`geometric`): MLP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from papers.cited import YUAN
from papers.experiment import PIXELS, Experiment, ExperimentResult
from papers.experiment_runner import BY_CHANCE, UNBOUND, ExperimentRunner, SeedRuns
from papers.printed_line import PrintedLine, ahead_by, impossible, number, statement
from papers.yuan_verdicts import (
    BLUNT,
    DOUBT,
    NEAR,
    accuracies,
    behind,
    best_count,
    compared,
    earlier,
    later_optima,
    less_loss,
    near_silence,
)
from sordino.account.accountants.published import yuan_sensitivity, yuan_sigma, yuan_sum
from sordino.charts import Axis, Chart, Rule, Series

LEARNT = 0.2
"""Ten classes: what stays below this has learnt nothing to speak of."""
THETAS = (0.9, 0.95, 1.0, 1.05, 1.1)
TABLE = {0.9: 0.003556, 0.95: 0.003654, 1.0: 0.003749, 1.05: 0.003841, 1.1: 0.003932}
LEAST = {0.9: 1.03783, 0.95: 0.92706, 1.0: 0.94142, 1.05: 0.88862, 1.1: 1.01871}
SCENE = [
    "partition.clients=100", "train.learning_rate=0.1", "train.steps=5", "select.kind=fixed", "select.size=10",
    "budget.delta=0.001",
]  # fmt: skip
MLP = [*SCENE, "data.name=mnist", "model.name=mlp_yuan"]
RATE = "The learning rate is not stated: 0.1, with full batches."
SHARED = (RATE, PIXELS, "|D_k| is 600: the training images shared out over 100 users.")
LAPLACE_RUN = [*MLP, "mechanism.name=laplace", "mechanism.clip_norm=5.0", "budget.epsilon=10", "run.rounds=30"]
LAPLACE = (
    "The Laplace mechanism's scale is not stated: certified noise for a client's whole update at ε = 10, which is "
    "another guarantee than the printed one of ϑ. Beside certified noise of every ϑ at the same ε, unit and adjacency "
    "it is in yuan-fig2-laplace."
)
EQUAL = [*MLP, "mechanism.clip_norm=5.0", "budget.epsilon=10", "run.rounds=30"]


def laplace(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 2 and 3: Laplace noise against Gaussian of every ϑ, all certified for the same ε, unit and adjacency."""
    plans = {f"ϑ = {t:g}": [*EQUAL, "mechanism.name=geometric", f"mechanism.theta={t}"] for t in THETAS}
    runs = runner.play(plans | {"Laplace": LAPLACE_RUN})
    end = {name: found.last()[0] for name, found in runs.items()}
    shown = ", ".join(f"{name}: {100 * value:.1f} %" for name, value in end.items())
    worst = min(plans, key=lambda name: end[name])
    why = "all of them are at chance: ten messages of 25,450 weights leave nothing at a certified ε of 10"
    quantity = "Laplace at the same certified guarantee (client, zero_out, ε = 10)"
    if max(end.values()) < LEARNT:
        return ExperimentResult((statement(quantity, "worse than all of them", shown, False, why),))
    return ExperimentResult((ahead_by(quantity, "worse than all of them", shown, *runs[worst].lead(runs["Laplace"])),))


def geometric(theta: float, rounds: int, epsilon: float = 10.0, scene: Sequence[str] = MLP) -> list[str]:
    """Returns the paper's mechanism on a scene."""
    own = ["mechanism.name=geometric", "mechanism.mode=faithful", "mechanism.clip_norm=5.0", f"mechanism.theta={theta}"]
    return [*scene, *own, f"budget.epsilon={epsilon}", f"run.rounds={rounds}"]


def table2(runner: ExperimentRunner) -> ExperimentResult:
    """Table II: the first noise amplitude, and the least loss at M* = 17."""
    lines: list[PrintedLine] = []
    for theta, printed in TABLE.items():
        found = {m: first_sigma(theta, m) for m in (30, 17)}
        shown = ", ".join(f"{sigma:.6f} (M = {m})" for m, sigma in found.items())
        row = f"{TABLE[1.0]}·√ϑ = {TABLE[1.0] * theta**0.5:.6f}"
        why = f"the row is {row}, and rises with ϑ; Eq. (8) never does, for any M"
        lines.append(impossible(f"σ at ϑ = {theta:g}", f"{printed:.6f}", shown, why))
    runs = runner.play({f"{theta:g}": geometric(theta, 17) for theta in THETAS})
    told = runner.play(
        {f"{t:g}": [*geometric(t, 17), f"mechanism.noise_multiplier={TABLE[t] / 5}", UNBOUND] for t in THETAS}
    )
    for theta, printed in LEAST.items():
        mean, spread = runs[f"{theta:g}"].last("loss")
        with_table = told[f"{theta:g}"].last("loss")[0]
        why = f"learning rate not stated; with Table II's own σ: {with_table:.3f}"
        lines.append(number(f"loss at M = 17, ϑ = {theta:g}", printed, mean, 5, 0.1, why, spread))
    ours = [runs[f"{t:g}"].last("loss")[0] for t in THETAS]
    series = (
        Series("ours", list(THETAS), ours, "both", 0),
        Series("printed", list(THETAS), list(LEAST.values()), "both", 1),
    )
    chart = Chart("yuan-table2", "Yuan et al., Table II: loss at M = 17", "Test loss.", Axis("ϑ"), Axis("loss"), series)
    return ExperimentResult(tuple(lines), (chart,))


def first_sigma(theta: float, rounds: int) -> float:
    """Returns the first noise amplitude of Eq. (8) at ε = 10, for M rounds."""
    return yuan_sigma(yuan_sensitivity(5, 600), 10, 1e-3, 0.1, yuan_sum(theta, rounds))


def fig2(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 2: loss and accuracy by aggregation, M = 30."""
    plans = {f"ϑ = {theta:g}": geometric(theta, 30) for theta in THETAS}
    runs = runner.play(plans | {"Laplace": LAPLACE_RUN})
    lines = [earlier("least loss", [_best_round(runs[name], "loss") for name in plans])]
    lines.append(earlier("best accuracy", [_best_round(runs[name], "accuracy") for name in plans]))
    loud = {name: runs[name] for name in ("ϑ = 1.05", "ϑ = 1.1")}
    lines += [increases(name, found.last("loss")[0] - found.best("loss")[0]) for name, found in loud.items()]
    lines.append(behind(runs["Laplace"], [runs[name] for name in plans]))
    return ExperimentResult(tuple(lines), pair("yuan-fig2", "Yuan et al., Fig. 2", runs))


def increases(name: str, grown: float) -> PrintedLine:
    """Judges whether a loss ends above its least: by less than 0.01, as everywhere here, that says nothing."""
    printed, shown = "loss declines, then increases", f"ends {grown:.3f} above its least"
    if 0 < grown <= BLUNT["loss"]:
        return PrintedLine(name, printed, shown, "undecided", NEAR["loss"])
    return statement(name, printed, shown, grown > 0)


def fig3(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 3: loss and accuracy over the maximum number of aggregations M."""
    grid = runner.size((5, 10, 15, 17, 20, 25, 30, 40, 50), (5, 10, 17, 25, 30))
    runs = {f"ϑ = {theta:g}": over(runner, grid, theta) for theta in THETAS}
    lines = [best_count(name, 17, found) for name, found in runs.items()]
    lines += [
        *compared(runs),
        *accuracies(runs),
        behind(runner.play({"": LAPLACE_RUN})[""], [row[30] for row in runs.values()]),
    ]
    return ExperimentResult(tuple(lines), grids("yuan-fig3", "Yuan et al., Fig. 3", runs))


def fig4(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 4: privacy levels, ϑ = 1.05."""
    grid = runner.size((5, 10, 15, 17, 20, 25, 30, 40, 50), (5, 17, 30))
    levels = (2.0, 5.0, 10.0, 20.0, 50.0)
    runs = {f"ε = {e:g}": over(runner, grid, 1.05, e) for e in levels} | {"no noise": silent(runner, grid, MLP)}
    lines = (less_loss(runs, levels), near_silence(runs, levels, 20), later_optima(runs, levels))
    return ExperimentResult(lines, grids("yuan-fig4", "Yuan et al., Fig. 4", runs))


def over(
    runner: ExperimentRunner, grid: Sequence[int], theta: float, epsilon: float = 10.0, scene: Sequence[str] = MLP
) -> dict[int, SeedRuns]:
    """Plays one run for each M, whose noise is calibrated for it."""
    runs = runner.play({str(m): geometric(theta, m, epsilon, scene) for m in grid})
    return {m: runs[str(m)] for m in grid}


def silent(runner: ExperimentRunner, grid: Sequence[int], scene: Sequence[str]) -> dict[int, SeedRuns]:
    """Plays one run without noise, which has every M on its way."""
    longest = [*scene, "mechanism.name=fedavg", UNBOUND, f"run.rounds={max(grid)}"]
    runs = runner.play({"": longest})[""]
    return {m: runs.until(m) for m in grid}


def grids(key: str, title: str, runs: Mapping[str, Mapping[int, SeedRuns]]) -> tuple[Chart, ...]:
    """Returns loss and accuracy over M."""
    charts = []
    for field, axis in (
        ("loss", Axis("test loss")),
        ("accuracy", Axis("test accuracy", percent=True, range=(0.0, 1.0))),
    ):
        series = tuple(
            Series(name, list(row), [found.last(field)[0] for found in row.values()], "both", color)
            for color, (name, row) in enumerate(runs.items())
        )
        chance = (BY_CHANCE,) if field == "accuracy" and key not in ("yuan-fig7", "yuan-fig9") else ()
        rules = (Rule(LEAST[1.05], "printed least, ϑ = 1.05", 3),) if key == "yuan-fig3" and field == "loss" else chance
        charts.append(Chart(f"{key}-{field}", title, "Each point is a run of its own.", Axis("M"), axis, series, rules))
    return tuple(charts)


def _best_round(runs: SeedRuns, field: str) -> int:
    path = runs.series("", 0, field)
    pick = min if field == "loss" else max
    return int(path.x[list(path.y).index(pick(y for y in path.y if y is not None))])


def _drawn(name: str, found: SeedRuns, place: int, field: str) -> Series:
    """Returns a curve: a colour for each ϑ, and dashes for the greater α_d."""
    color = place % len(THETAS) if name.startswith("α_d") else place
    return found.series(name, color, field, dashed=name.startswith("α_d = 0.9"))


def pair(key: str, title: str, runs: Mapping[str, SeedRuns]) -> tuple[Chart, ...]:
    """Returns loss and accuracy by aggregation."""
    axes = {"loss": Axis("test loss"), "accuracy": Axis("test accuracy", percent=True, range=(0.0, 1.0))}
    return tuple(
        Chart(
            f"{key}-{field}",
            title,
            "Ours.",
            Axis("aggregation m"),
            axis,
            # the Laplace mechanism's loss is in the thousands, and would flatten all others
            tuple(
                _drawn(name, found, color, field)
                for color, (name, found) in enumerate(runs.items())
                if (name, field) != ("Laplace", "loss")
            ),
        )
        for field, axis in axes.items()
    )


FREE = "Without noise it is FedAvg, whose weights are not clipped."
LEVELS = "The levels are not stated but for 20: ε = 2, 5, 10, 20, 50."


def experiment(
    id_: str,
    place: str,
    title: str,
    find: Callable[[ExperimentRunner], ExperimentResult],
    *choices: str,
    shorter: str = "one seed",
) -> Experiment:
    """Returns an experiment of this paper."""
    return Experiment(id_, YUAN, place, title, find, choices=choices, doubt=DOUBT, shorter=shorter)


FEWER = "one seed, fewer M"
EXPERIMENTS = (
    experiment("yuan-table2", "Table II, §V-B-1", "Noise amplitude and least loss", table2, *SHARED),
    experiment("yuan-fig2", "Fig. 2, §V-B-1", "Loss and accuracy by aggregation", fig2, *SHARED, LAPLACE),
    experiment("yuan-fig2-laplace", "Fig. 2 and 3, §V-B-1", "Laplace noise at the same guarantee", laplace, *SHARED),
    experiment("yuan-fig3", "Fig. 3, §V-B-1", "Loss and accuracy over M", fig3, *SHARED, LAPLACE, shorter=FEWER),
    experiment("yuan-fig4", "Fig. 4, §V-B-2", "Privacy levels", fig4, *SHARED, LEVELS, FREE, shorter=FEWER),
)
