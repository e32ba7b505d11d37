"""Zhao et al. (2021), "Utility Optimization of Federated Learning with Differential Privacy" (`a_dpfl`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise

import numpy as np

from papers.cited import A_DPFL
from papers.experiment import PIXELS, Experiment, ExperimentResult
from papers.experiment_runner import BY_CHANCE, UNBOUND, ExperimentRunner, SeedRuns, printed_rules, spread_over
from papers.noise import drowned_told
from papers.printed_line import PrintedLine, accuracy, ahead_by, all_ahead, left_out, number, statement
from sordino.charts import Axis, Chart, Rule, Series

SKEWED = ["partition.kind=label_skew", "partition.share=0.8", "partition.share_min=0.0"]
PRIVATE = [
    "mechanism.name=a_dpfl", "mechanism.mode=faithful", "mechanism.noise_multiplier=1.0", "mechanism.factor=0.7",
    "mechanism.threshold=0.001", "mechanism.adjust_every=1", "mechanism.validation=clients",
]  # fmt: skip
COMMON = ["model.name=cnn_a_dpfl", "train.learning_rate=0.05", "train.batch_size=20", "select.kind=fixed", UNBOUND]
DATA = {
    "MNIST": ["data.name=mnist", "partition.clients=1000", "train.epochs=1", "select.size=100"],
    "CIFAR-10": ["data.name=cifar10", "partition.clients=100", "train.steps=5", "select.size=10"],
}
CLIP = {"MNIST": "mechanism.clip_norm=4.0", "CIFAR-10": "mechanism.clip_norm=7.0"}
SHARED = (
    PIXELS,
    "K, the participants of a round, is not stated: a tenth of them.",
    "Local rounds are not stated: one pass on MNIST (three batches of 20), five batches on CIFAR-10.",
    "The shares of one label are not stated but for Fig. 3's examples: each participant's is drawn from 0 to 80 %.",
    "α and the adjustment rounds are not stated: 0.001, and every round, as Fig. 5 suggests.",
    "Padding of the convolutions and the second one's channels are not stated: none, and 32 as for the first.",
    "How far apart two labels are, and the score, are not stated: 1 where they differ, and exp(−W/c_1), of which the "
    "K best are those of any score that falls with W. Eq. (20) prints a sum of models: their mean.",
    "Accuracy is looked at on the participants' own records, one of the two ways of §5.3.2; ε and δ, which should end "
    "a run, are not stated: none does.",
)
RANKS = ("no privacy", "A-DPFL", "CL-FL", "DPFL")
ORDER = " > ".join(RANKS)
USUAL = 0.7
"""k of the other figures."""
HELD, ROUNDS = (20, 4, 4, 7), 50
"""Rounds for which σ = 1, 0.7, 0.49 and 0.34 are held, as printed, and all rounds of a run."""
AFTER = "holding times after σ = 0.34"
SHORTER, FALLS, FASTER = "holding times as the training proceeds", "accuracy as k grows", "its decrease"
GEYER = "CL-FL, Geyer et al."
DELTAS = {"MNIST": "1e-5", "CIFAR-10": "1e-3"}
"""δ of Geyer et al., for 1,000 and for 100 clients."""
RIVALS = (
    "“DPFL without optimization” is the same local noise, never lowered, with participants drawn all alike.",
    "CL-FL's settings are not stated: noise of a trusted server, multiplier 1, clip norm 4 (7 on CIFAR-10), and the "
    "same for everybody, where the text speaks of personal budgets.",
    "CL-FL as its authors have it is in adpfl-fig4-median.",
)
MEDIAN = (
    "CL-FL as Geyer et al. have it: updates are clipped to the median of their norms, and σ is the one for which they "
    "claim ε = 8, with δ = 1e-5 for 1,000 clients (MNIST) and 1e-3 for 100 (CIFAR-10), after the rounds that are "
    "played. Declared beside the settings of adpfl-fig4.",
)


def fig4(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 4: A-DPFL against no privacy, CL-FL and DPFL."""
    lines: list[PrintedLine] = []
    charts = []
    for name in DATA:
        part = runner.on(name)
        if part.quick and name == "CIFAR-10":
            lines.append(left_out(f"{name}: order", ORDER))
            continue
        length = f"run.rounds={part.size(50, 2)}"
        runs = part.play({label: [*plan, length] for label, plan in _four(name, part).items()})
        end = {label: found.last()[0] for label, found in runs.items()}
        shown = ", ".join(f"{label}: {100 * value:.1f} %" for label, value in end.items())
        least = min(runs[better].lead(runs[worse]) for better, worse in pairwise(RANKS))
        lines.append(ahead_by(f"{name}: order", ORDER, shown, *least, drowned_told(runs["CL-FL"].views[0].recipe)))
        charts.append(_curves(f"adpfl-fig4-{name.lower()}", f"A-DPFL, Fig. 4: {name}", runs))
    return ExperimentResult(tuple(lines), tuple(charts), short=runner.short(DATA))


def fig4_median(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 4 with CL-FL as Geyer et al. have it: median clipping, and the noise of their own ε."""
    from papers import rivals  # registers mechanisms: only where they are played

    rivals.admit()
    lines: list[PrintedLine] = []
    charts = []
    for name in DATA:
        part, quantity, printed = runner.on(name), f"{name}: A-DPFL", "outperforms CL-FL"
        if part.quick and name == "CIFAR-10":
            lines.append(left_out(quantity, printed))
            continue
        length, scene = f"run.rounds={part.size(50, 2)}", [*_scene(name, part), *SKEWED]
        median = ["mechanism.name=cl_fl", "mechanism.mode=faithful", "budget.epsilon=8", f"budget.delta={DELTAS[name]}"]
        runs = part.play({"A-DPFL": [*_ours(name, part), length], GEYER: [*scene, *median, length]})
        shown = ", ".join(f"{label}: {100 * found.last()[0]:.1f} %" for label, found in runs.items())
        lines.append(ahead_by(quantity, printed, shown, *runs["A-DPFL"].lead(runs[GEYER])))
        charts.append(
            _curves(f"adpfl-fig4-median-{name.lower()}", f"A-DPFL, Fig. 4 with median clipping: {name}", runs)
        )
    return ExperimentResult(tuple(lines), tuple(charts), short=runner.short(DATA))


def table2(runner: ExperimentRunner) -> ExperimentResult:
    """Table 2: accuracy with skewed labels and with IID data."""
    printed = {"MNIST": (0.942, 0.989), "CIFAR-10": (0.641, 0.704)}
    lines: list[PrintedLine] = []
    charts = []
    for name, values in printed.items():
        part = runner.on(name)
        rounds = _rounds(name, part)
        runs = part.play({"skewed": _ours(name, part), "IID": [*_scene(name, part), *PRIVATE, CLIP[name]]})
        for label, value in zip(runs, values, strict=True):
            lines.append(accuracy(f"{name}, {label}, {rounds} of 50 rounds", value, *runs[label].last()))
        lead, spread = runs["IID"].lead(runs["skewed"])
        shown = f"{100 * lead:+.2f} ± {100 * spread:.2f} points"
        lines.append(ahead_by(f"{name}: order", "IID above skewed", shown, lead, spread))
        rules = printed_rules(dict(enumerate(values)))
        charts.append(_curves(f"adpfl-table2-{name.lower()}", f"A-DPFL, Table 2: {name}", runs, rules))
    return ExperimentResult(tuple(lines), tuple(charts), short=runner.short(DATA))


def fig5(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 5: how the noise scale falls on MNIST."""
    views = runner.play({"": _ours("MNIST", runner)})[""].views
    rounds = list(range(1, _rounds("MNIST", runner) + 1))
    # what a round records is the next round's noise: the first round has the first noise
    sigmas = [[1.0, *(line["knobs"]["noise_multiplier"] for line in view.rounds)][: len(rounds)] for view in views]
    lines = _holding([[len(list(group)) for _, group in groupby(sigma)] for sigma in sigmas], len(rounds) == ROUNDS)
    steps = [0.7**place for place, length in enumerate(HELD) for _ in range(length)]
    printed = Series("printed, as far as it is told", list(range(1, len(steps) + 1)), steps, "step", 7, dashed=True)
    ours = [Series(f"ours, seed {seed}", rounds, sigma, "step", seed) for seed, sigma in enumerate(sigmas)]
    note = "σ is multiplied by 0.7 whenever accuracy rises by no more than α."
    chart = Chart("adpfl-fig5", "A-DPFL, Fig. 5: noise scale", note, Axis("round"), Axis("σ"), (*ours, printed))
    return ExperimentResult(tuple(lines), (chart,))


def _holding(held: list[list[int]], whole: bool = False) -> list[PrintedLine]:
    """Judges for how many rounds each noise was held, seed by seed.

    The last one is cut off by the end of the run: it differs if it was held for longer than printed by then. Else it is
    not judged, unless all rounds were played (`whole`): then a noise that printed runs leave behind was not reached.
    """
    shown = "; ".join(", ".join(map(str, one)) for one in held) + " (the last one ended with the run)"
    lines = []
    for place, printed in enumerate(HELD):
        quantity, found = f"rounds at σ = {0.7**place:.2g}", [one[place] for one in held if place < len(one)]
        if all(place < len(one) - 1 for one in held):
            spread = float(np.std(found, ddof=1)) if len(found) > 1 else 0.0
            lines.append(number(quantity, printed, float(np.mean(found)), 0, 1, spread=spread))
        elif max(found, default=0) > printed + 1:
            lines.append(statement(quantity, str(printed), f"{max(found)} and more: then the run ended", False))
        else:
            lines.append(_cut_off(quantity, str(printed), shown, [len(one) > place for one in held], whole))
    later = _cut_off(AFTER, "gradually shortened", shown, [len(one) > len(HELD) for one in held], whole)
    if max(len(one) for one in held) == 1 and max(held)[0] <= HELD[0]:
        return [*lines, left_out(SHORTER, "decrease", "a run ends before the noise is first lowered"), later]
    shorter = all(len(one) > 1 and one == sorted(one, reverse=True) for one in held)
    if any(len(one) > len(HELD) + 1 for one in held):
        tails = [one[len(HELD) - 1 : -1] for one in held]
        later = statement(AFTER, "gradually shortened", shown, all(t == sorted(t, reverse=True) for t in tails))
    return [*lines, statement(SHORTER, "decrease (the printed 20, 4, 4, 7 do not)", shown, shorter), later]


def _cut_off(quantity: str, printed: str, shown: str, reached: Sequence[bool], whole: bool) -> PrintedLine:
    """Judges what a run's end cut off: nothing where rounds are missing, else by how many seeds came to it."""
    if not whole:
        return left_out(quantity, printed, f"a run ends before that: {shown}")
    if all(reached):
        return PrintedLine(quantity, printed, shown, "undecided", "the run ends while it is held")
    return statement(quantity, printed, f"reached by {sum(reached)} of {len(reached)} seeds in {ROUNDS} rounds", False)


def fig6(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 6: the adjusting parameter k on MNIST."""
    factors = runner.size((0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), (0.3, 0.7))
    ours, rounds = _ours("MNIST", runner), runner.size(50, 2)
    looks = {k: 1 if k == USUAL else rounds for k in factors}  # that of the other figures is drawn there
    plans = {
        f"k = {k:g}": [*ours, f"run.rounds={rounds}", f"mechanism.factor={k}", f"run.evaluate_every={looks[k]}"]
        for k in factors
    }
    runs = runner.play(plans)
    ends = {k: runs[f"k = {k:g}"] for k in factors}
    series = Series("ours", list(ends), [found.last()[0] for found in ends.values()], "both", 0)
    axis = Axis("test accuracy", percent=True, range=(0.0, 1.0))
    chart = Chart("adpfl-fig6", "A-DPFL, Fig. 6: k", "Accuracy at the end.", Axis("k"), axis, (series,), (BY_CHANCE,))
    return ExperimentResult(falling({k: found.ends() for k, found in ends.items()}), (chart,))


def falling(ends: Mapping[float, Sequence[float]]) -> tuple[PrintedLine, PrintedLine]:
    """Judges both halves of what is said of k, seed by seed: accuracy falls as it grows, and faster from 0.7 on."""
    path, (printed, faster) = (
        [np.array(one) for one in ends.values()],
        ("decreases", "speeds up significantly beyond 0.7"),
    )
    shown = ", ".join(f"k = {k:g}: {100 * np.mean(end):.1f} %" for k, end in ends.items())
    if all((one == path[0]).all() for one in path):
        why = "the run ends before the noise is first lowered, so k has no effect yet"
        first = statement(FALLS, printed, shown, False, why)
        return first, left_out(FASTER, faster) if max(ends) <= USUAL else statement(FASTER, faster, shown, False, why)
    first = all_ahead(FALLS, printed, shown, [spread_over(one - other) for one, other in pairwise(path)])
    if max(ends) <= USUAL:
        return first, left_out(FASTER, faster)
    usual = np.array(ends[USUAL])
    before, after = (path[0] - usual) / (USUAL - min(ends)) / 10, (usual - path[-1]) / (max(ends) - USUAL) / 10
    told = f"falls by {100 * before.mean():.2f} points for each 0.1 of k up to 0.7, by {100 * after.mean():.2f} beyond"
    return first, ahead_by(FASTER, faster, told, *spread_over(after - np.maximum(before, 0.0)))


def _rounds(name: str, runner: ExperimentRunner) -> int:
    return runner.size(50, {"MNIST": 8, "CIFAR-10": 3}[name])


def _scene(name: str, runner: ExperimentRunner) -> list[str]:
    return [*COMMON, *DATA[name], f"run.rounds={_rounds(name, runner)}"]


def _ours(name: str, runner: ExperimentRunner) -> list[str]:
    return [*_scene(name, runner), *SKEWED, *PRIVATE, CLIP[name]]


def _four(name: str, runner: ExperimentRunner) -> dict[str, list[str]]:
    scene = [*_scene(name, runner), *SKEWED]
    central = ["mechanism.name=dp_fedavg", "mechanism.noise_multiplier=1.0", CLIP[name]]
    return {
        "no privacy": [*scene, "mechanism.name=fedavg"],
        "A-DPFL": _ours(name, runner),
        "CL-FL": [*scene, *central],
        "DPFL": [*_ours(name, runner), "mechanism.threshold=-1.0", "mechanism.selection=uniform"],
    }


def _curves(key: str, title: str, runs: dict[str, SeedRuns], rules: tuple[Rule, ...] = ()) -> Chart:
    series = tuple(found.series(name, color) for color, (name, found) in enumerate(runs.items()))
    axis = Axis("test accuracy", percent=True, range=(0.0, 1.0))
    return Chart(key, title, "Ours, as printed.", Axis("round"), axis, series, (*rules, BY_CHANCE))


def _experiment(
    id_: str,
    place: str,
    title: str,
    find: Callable[[ExperimentRunner], ExperimentResult],
    *more: str,
    shorter: str = "one seed, 8 (CIFAR-10: 3) of 50 rounds",
) -> Experiment:
    doubt = "how many take part, how long they train and α are not stated, and decide how fast it learns"
    choices = (*SHARED, *more)
    return Experiment(id_, A_DPFL, place, title, find, choices=choices, doubt=doubt, shorter=shorter, seeds=5)


EXPERIMENTS = (
    _experiment(
        "adpfl-fig4",
        "Fig. 4, §6.2",
        "Accuracy of four algorithms",
        fig4,
        *RIVALS,
        shorter="MNIST alone, one seed, 2 of 50 rounds",
    ),
    _experiment(
        "adpfl-fig4-median",
        "Fig. 4, §6.2",
        "Against CL-FL as Geyer et al. have it",
        fig4_median,
        *MEDIAN,
        shorter="MNIST alone, one seed, 2 of 50 rounds",
    ),
    _experiment("adpfl-table2", "Table 2, §6.3", "Skewed labels and IID", table2),
    _experiment("adpfl-fig5", "Fig. 5, §6.4.1", "Noise scale by round", fig5),
    _experiment("adpfl-fig6", "Fig. 6, §6.4.2", "The adjusting parameter k", fig6, shorter="one seed, 2 of 50 rounds"),
)
