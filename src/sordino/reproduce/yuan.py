"""Yuan et al. (2023), "Amplitude-Varying Perturbation for Balancing Privacy and Utility in FL" (`geometric`): MLP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from sordino.account.published import yuan_sensitivity, yuan_sigma, yuan_sum
from sordino.report.chart import Axis, Chart, Rule, Series
from sordino.reproduce.bench import BY_CHANCE, UNBOUND, Bench, Runs
from sordino.reproduce.experiment import Experiment, Finding
from sordino.reproduce.line import Line, impossible, number, statement
from sordino.reproduce.papers import YUAN

THETAS = (0.9, 0.95, 1.0, 1.05, 1.1)
TABLE = {0.9: 0.003556, 0.95: 0.003654, 1.0: 0.003749, 1.05: 0.003841, 1.1: 0.003932}
LEAST = {0.9: 1.03783, 0.95: 0.92706, 1.0: 0.94142, 1.05: 0.88862, 1.1: 1.01871}
SCENE = [
    "partition.clients=100", "train.learning_rate=0.1", "train.steps=5", "select.kind=fixed", "select.size=10",
    "budget.delta=0.001",
]  # fmt: skip
MLP = [*SCENE, "data.name=mnist", "model.name=mlp_yuan"]
RATE = "The learning rate is not stated: 0.1, with full batches."
SHARED = (RATE, "|D_k| is 600: the training images shared out over 100 users.")
LAPLACE = "The Laplace mechanism's scale is not stated: ours, at the same ε for a client's whole update."


def geometric(theta: float, rounds: int, epsilon: float = 10.0, scene: Sequence[str] = MLP) -> list[str]:
    """Returns the paper's mechanism on a scene."""
    own = ["mechanism.name=geometric", "mechanism.mode=faithful", "mechanism.clip_norm=5.0", f"mechanism.theta={theta}"]
    return [*scene, *own, f"budget.epsilon={epsilon}", f"run.rounds={rounds}"]


def table2(bench: Bench) -> Finding:
    """Table II: the first noise amplitude, and the least loss at M* = 17."""
    sensitivity = yuan_sensitivity(5, 600)
    lines: list[Line] = []
    for theta, printed in TABLE.items():
        found = {m: yuan_sigma(sensitivity, 10, 1e-3, 0.1, yuan_sum(theta, m)) for m in (30, 17)}
        shown = ", ".join(f"{sigma:.6f} (M = {m})" for m, sigma in found.items())
        why = f"the row is 0.003749·√ϑ = {0.003749 * theta**0.5:.6f}, which Eq. (8) gives for no M"
        lines.append(impossible(f"σ at ϑ = {theta:g}", f"{printed:.6f}", shown, why))
    runs = bench.play({f"{theta:g}": geometric(theta, 17) for theta in THETAS})
    told = bench.play(
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
    return Finding(tuple(lines), (chart,))


def fig2(bench: Bench) -> Finding:
    """Fig. 2: loss and accuracy by aggregation, M = 30."""
    plans = {f"ϑ = {theta:g}": geometric(theta, 30) for theta in THETAS}
    laplace = [*MLP, "mechanism.name=laplace", "mechanism.clip_norm=5.0", "budget.epsilon=10", "run.rounds=30"]
    runs = bench.play(plans | {"Laplace": laplace})
    least = [_best_round(runs[name]) for name in plans]
    grown = runs["ϑ = 1.1"].last("loss")[0] - runs["ϑ = 1.1"].best("loss")[0]
    worst = min(runs[name].last()[0] for name in plans)
    behind = runs["Laplace"].last()[0]
    lines = (
        statement(
            "aggregation of the least loss, ϑ = 0.9 … 1.1",
            "generally declines as ϑ rises",
            ", ".join(map(str, least)),
            least[-1] < least[0] and least[-1] <= min(least),
        ),
        statement("ϑ = 1.1", "loss declines, then increases", f"ends {grown:.3f} above its least", grown > 0.01),
        statement(
            "Laplace",
            "worse than all of them",
            f"{100 * behind:.1f} % against {100 * worst:.1f} % and more",
            behind < worst,
        ),
    )
    return Finding(lines, _pair("yuan-fig2", "Yuan et al., Fig. 2", runs))


def fig3(bench: Bench) -> Finding:
    """Fig. 3: loss and accuracy over the maximum number of aggregations M."""
    grid = bench.size((5, 10, 15, 17, 20, 25, 30, 40, 50), (5, 10, 17, 25, 30))
    runs = {f"ϑ = {theta:g}": over(bench, grid, theta) for theta in THETAS}
    lines = [best_count(name, 17, found) for name, found in runs.items()]
    best, least = least_of(runs), {name: least_loss(row) for name, row in runs.items()}
    shown = ", ".join(f"{name}: {value:.3f}" for name, value in least.items())
    both = max(least["ϑ = 0.95"], least["ϑ = 1.05"]) < least["ϑ = 1"]
    lines += [
        statement("least loss of all", "ϑ ≥ 1.05", shown, best in ("ϑ = 1.05", "ϑ = 1.1")),
        statement("ϑ = 0.95 and ϑ = 1.05", "both below ϑ = 1", shown, both),
    ]
    return Finding(tuple(lines), grids("yuan-fig3", "Yuan et al., Fig. 3", runs))


def fig4(bench: Bench) -> Finding:
    """Fig. 4: privacy levels, ϑ = 1.05."""
    grid = bench.size((5, 10, 15, 17, 20, 25, 30, 40, 50), (5, 17, 30))
    levels = (2.0, 5.0, 10.0, 20.0, 50.0)
    runs = {f"ε = {e:g}": over(bench, grid, 1.05, e) for e in levels} | {"no noise": silent(bench, grid, MLP)}
    return Finding(tuple(levels_lines(runs, levels)), grids("yuan-fig4", "Yuan et al., Fig. 4", runs))


def fig5(bench: Bench) -> Finding:
    """Fig. 5: M′ under online refinement."""
    runs = _refined(bench)
    lines: list[Line] = []
    series = []
    for place, (name, found) in enumerate(runs.items()):
        path = [line["knobs"].get("last_round", 30.0) for line in found.views[0].rounds]
        falls = path == sorted(path, reverse=True) and path[-1] < 30
        why = "" if falls else f"the loss that is watched never stops falling, so nothing is refined; {DOUBT}"
        lines.append(statement(name, "M′ decreases over m", f"30 → {path[-1]:.0f}", falls, why))
        series.append(
            Series(name, list(range(1, len(path) + 1)), path, "step", place % len(THETAS), dashed="0.9," in name)
        )
    note = "The last aggregation that is planned, by aggregation."
    chart = Chart("yuan-fig5", "Yuan et al., Fig. 5: M′", note, Axis("m"), Axis("M′"), tuple(series), wide=True)
    return Finding(tuple(lines), (chart,))


def fig6(bench: Bench) -> Finding:
    """Fig. 6: loss and accuracy under online refinement."""
    runs = _refined(bench)
    fixed = bench.play({f"{t:g}": [*geometric(t, 30), "data.public_fraction=0.1"] for t in THETAS})
    lines: list[Line] = []
    for shrink, printed in ((0.8, 1.05), (0.9, 1.1)):
        end = {t: runs[f"α_d = {shrink:g}, ϑ = {t:g}"].last("loss")[0] for t in THETAS}
        best = min(end, key=lambda t: end[t])
        lines.append(number(f"best ϑ, α_d = {shrink:g}", printed, best, 2))
        for theta in (1.0, 1.05, 1.1):
            plain = fixed[f"{theta:g}"].last("loss")[0]
            shown = f"{plain:.3f} → {end[theta]:.3f}"
            lines.append(
                statement(f"refinement, α_d = {shrink:g}, ϑ = {theta:g}", "improves", shown, end[theta] < plain)
            )
    played = {t: runs[f"α_d = 0.8, ϑ = {t:g}"].rounds() for t in THETAS}
    shown = ", ".join(f"{t:g}: {n:.0f}" for t, n in played.items())
    lines.append(statement("ϑ = 0.9", "terminates earlier than the others", shown, played[0.9] == min(played.values())))
    return Finding(tuple(lines), _pair("yuan-fig6", "Yuan et al., Fig. 6", runs))


def over(
    bench: Bench, grid: Sequence[int], theta: float, epsilon: float = 10.0, scene: Sequence[str] = MLP
) -> dict[int, Runs]:
    """Plays one run for each M, whose noise is calibrated for it."""
    runs = bench.play({str(m): geometric(theta, m, epsilon, scene) for m in grid})
    return {m: runs[str(m)] for m in grid}


def silent(bench: Bench, grid: Sequence[int], scene: Sequence[str]) -> dict[int, Runs]:
    """Plays one run without noise, which has every M on its way."""
    longest = [*scene, "mechanism.name=fedavg", UNBOUND, f"run.rounds={max(grid)}"]
    runs = bench.play({"": longest})[""]
    return {m: runs.until(m) for m in grid}


def best_count(name: str, printed: int, runs: Mapping[int, Runs]) -> Line:
    """Judges the M of the least loss; one step of the grid counts as close."""
    losses = {m: found.last("loss")[0] for m, found in runs.items()}
    best, grid = min(losses, key=lambda m: losses[m]), sorted(losses)
    near = max(abs(b - a) for a, b in pairwise(grid) if printed in (a, b))
    tried = f"M tried: {', '.join(map(str, grid))}"
    return number(f"M*, {name}", printed, best, 0, near, tried if abs(best - printed) <= near else f"{tried}; {DOUBT}")


def least_loss(row: Mapping[int, Runs]) -> float:
    """Returns the least loss over M."""
    return min(found.last("loss")[0] for found in row.values())


def least_of(runs: Mapping[str, Mapping[int, Runs]]) -> str:
    """Returns whose least loss over M is the least."""
    return min(runs, key=lambda name: least_loss(runs[name]))


def levels_lines(runs: Mapping[str, Mapping[int, Runs]], levels: Sequence[float]) -> list[Line]:
    """Judges what the paper says of privacy levels: loss falls with ε, approaches none, and M* grows."""
    least = {name: least_loss(row) for name, row in runs.items()}
    falling = [least[f"ε = {e:g}"] for e in levels]
    best = [min(runs[f"ε = {e:g}"], key=lambda m, e=e: runs[f"ε = {e:g}"][m].last("loss")[0]) for e in levels]  # type: ignore[misc]
    gap = max(loss for e, loss in zip(levels, falling, strict=True) if e >= 20) - least["no noise"]
    told = ", ".join(f"{e:g}: {x:.3f}" for e, x in zip(levels, falling, strict=True))
    return [
        statement("least loss as ε rises", "decreases", told, falling == sorted(falling, reverse=True)),
        statement("ε ≥ 20", "approaches no noise (0.1 counts as that)", f"{gap:+.3f} of loss", gap < 0.1),
        statement("M* as ε rises", "in general increases", ", ".join(map(str, best)), best[-1] >= best[0]),
    ]


def grids(key: str, title: str, runs: Mapping[str, Mapping[int, Runs]]) -> tuple[Chart, ...]:
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


def _refined(bench: Bench) -> dict[str, Runs]:
    plans = {
        f"α_d = {shrink:g}, ϑ = {theta:g}": [
            *geometric(theta, 30), "data.public_fraction=0.1", "mechanism.refine=true", f"mechanism.shrink={shrink}",
        ]
        for shrink in (0.8, 0.9)
        for theta in THETAS
    }  # fmt: skip
    return bench.play(plans)


def _best_round(runs: Runs) -> int:
    path = runs.series("", 0, "loss")
    return int(path.x[list(path.y).index(min(y for y in path.y if y is not None))])


def _drawn(name: str, found: Runs, place: int, field: str) -> Series:
    """Returns a curve: a colour for each ϑ, and dashes for the greater α_d."""
    color = place % len(THETAS) if name.startswith("α_d") else place
    return found.series(name, color, field, dashed=name.startswith("α_d = 0.9"))


def _pair(key: str, title: str, runs: Mapping[str, Runs]) -> tuple[Chart, ...]:
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


ONLINE = "The data on which the loss is watched is not stated: a tenth of the images, declared public."
LEVELS = "The levels are not stated but for 20: ε = 2, 5, 10, 20, 50."
DOUBT = "the learning rate is not stated, and decides after how many rounds noise outweighs what is still learnt"


def experiment(
    id_: str, place: str, title: str, find: Callable[[Bench], Finding], *choices: str, shorter: str = "one seed"
) -> Experiment:
    """Returns an experiment of this paper."""
    return Experiment(id_, YUAN, place, title, find, choices=choices, doubt=DOUBT, shorter=shorter)


FEWER = "one seed, fewer M"
EXPERIMENTS = (
    experiment("yuan-table2", "Table II, §V-B-1", "Noise amplitude and least loss", table2, *SHARED),
    experiment("yuan-fig2", "Fig. 2, §V-B-1", "Loss and accuracy by aggregation", fig2, *SHARED, LAPLACE),
    experiment("yuan-fig3", "Fig. 3, §V-B-1", "Loss and accuracy over M", fig3, *SHARED, shorter=FEWER),
    experiment("yuan-fig4", "Fig. 4, §V-B-2", "Privacy levels", fig4, *SHARED, LEVELS, shorter=FEWER),
    experiment("yuan-fig5", "Fig. 5, §V-B-3", "M′ under refinement", fig5, *SHARED, ONLINE),
    experiment("yuan-fig6", "Fig. 6, §V-B-3", "Learning under refinement", fig6, *SHARED, ONLINE),
)
