"""Xue et al. (2023), §VI-C to F: the parameter study of Fig. 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from papers.charts import beside
from papers.experiment import ExperimentResult
from papers.experiment_runner import BY_CHANCE, ExperimentRunner, SeedRuns
from papers.printed_line import PrintedLine, ahead_by, points
from papers.xue_charts import ends
from papers.xue_scene import LEARNT, MNIST, NAMES, READINGS, SHARED, allowed, beyond, client, experiment, judged, ours
from sordino.charts import Axis, Chart, Series

BUDGET = 0.5
SHARE = 0.6
CHOICES = (*SHARED, "ε and σ0 are not stated for these figures: 0.5, and 26, which §VI-D calls the best.")
LEVELS = "But for 26 and 30 the noise levels are not stated: 22 beside them, each for the rounds that it allows."
LONGER = (
    "“Greater than 0.6” is 0.6 here. There are as many more rounds as keep a client's uploads the same on average, "
    "where Algorithm 2 stops for the client that was drawn most."
)
BETAS = "The values of β are not stated: 0.8, 0.9, 1.0, 1.1, 1.2 and 1.4; of the four optimisers, RMSprop alone."


def fig5a(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 5(a): the number of clients."""
    printed = {"sgd": 0.0298, "momentum": 0.0281, "adam": 0.0290, "rmsprop": 0.0278}
    few = {o: _study(runner, o) for o in NAMES}
    many = {o: _study(runner, o, "partition.clients=700", "train.batch_size=5", batch=5) for o in NAMES}
    lines = [_gap(f"50 → 700 clients, {NAMES[o]}", printed[o], few[o], many[o]) for o in NAMES]
    return ExperimentResult(
        tuple(lines), (_lost("xue-fig5a", "Fig. 5(a): lost from 50 to 700 clients", printed, few, many),)
    )


def fig5b(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 5(b): the noise level σ0."""
    printed = {"sgd": 0.017, "momentum": 0.0104, "adam": 0.0094, "rmsprop": 0.0209}
    runs = {o: {level: _study(runner, o, sigma0=level) for level in (22.0, 26.0, 30.0)} for o in NAMES}
    lines = []
    for optimizer, found in runs.items():
        lines.append(_gap(f"σ0 = 26 → 30, {NAMES[optimizer]}", printed[optimizer], found[26], found[30]))
        lines.append(_best(f"best σ0, {NAMES[optimizer]}", "26", found, (26,)))
    less, more = ({o: found[level] for o, found in runs.items()} for level in (26, 30))
    return ExperimentResult(
        tuple(lines), (_lost("xue-fig5b", "Fig. 5(b): lost from σ0 = 26 to 30", printed, less, more),)
    )


def fig5c(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 5(c): the share of clients that take part."""
    printed = {"sgd": 0.8667, "momentum": 0.8808, "adam": 0.9105, "rmsprop": 0.9221}
    some = [f"select.size={round(SHARE * 50)}", "select.kind=fixed"]
    rounds = runner.size(int(allowed(runner, BUDGET, 26) / SHARE), 1)
    part = {o: _study(runner, o, *some, f"run.rounds={rounds}") for o in NAMES}
    lines = []
    for optimizer, name in NAMES.items():
        lines.append(judged(f"u = {SHARE:g}, {name}", printed[optimizer], part[optimizer]))
        lines.append(_grows(f"u = {SHARE:g} → 1, {name}", part[optimizer], _study(runner, optimizer)))
    title = f"Xue et al., Fig. 5(c): accuracy at u = {SHARE:g}"
    return ExperimentResult(tuple(lines), (ends("xue-fig5c", title, part, printed),))


def fig5d(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 5(d): the truncation factor β."""
    betas = runner.size((0.8, 0.9, 1.0, 1.1, 1.2, 1.4), (0.8, 1.1, 1.4))
    found = {beta: _study(runner, "rmsprop", f"mechanism.beta={beta}") for beta in betas}
    line = _best("best β", "between 1.0 and 1.2", found, [beta for beta in betas if 1.0 <= beta <= 1.2])
    series = tuple(
        Series(name, list(betas), [found[beta][name].last()[0] for beta in betas], "both", color)
        for color, name in enumerate(READINGS)
    )
    note = "Ours, with RMSprop; the paper's best β lies between 1.0 and 1.2."
    chart = Chart("xue-fig5d", "Xue et al., Fig. 5(d): β", note, Axis("β"), _PERCENT, series, (BY_CHANCE,))
    return ExperimentResult((line,), (chart,))


def _study(
    runner: ExperimentRunner, optimizer: str, *changed: str, sigma0: float = 26, batch: int = 75
) -> dict[str, SeedRuns]:
    """Plays the parameter study of §VI-C to F: K = 64 for SGD, 16 for the others."""
    rounds = f"run.rounds={allowed(runner, BUDGET, sigma0)}"
    base = [*MNIST, *client(optimizer, 64 if optimizer == "sgd" else 16), rounds]
    return runner.play({name: [*base, *ours(sigma0, name, batch), *changed] for name in READINGS})


def _gap(quantity: str, printed: float, before: Mapping[str, SeedRuns], after: Mapping[str, SeedRuns]) -> PrintedLine:
    """Judges a difference of accuracies, which means something only where there is accuracy to lose."""
    shown = ", ".join(
        f"{100 * before[name].last()[0]:.1f} % → {100 * after[name].last()[0]:.1f} % ({name})" for name in before
    )
    alive = [name for name in before if before[name].last()[0] >= LEARNT]
    if not alive:
        return beyond(quantity, f"{-100 * printed:+.2f} points", shown, before, after)
    gap, spread = after[alive[0]].lead(before[alive[0]])
    return points(quantity, -printed, gap, spread=spread)


def _grows(quantity: str, part: Mapping[str, SeedRuns], all_: Mapping[str, SeedRuns]) -> PrintedLine:
    """Judges whether more participants give more accuracy, where there is any."""
    pairs = {name: (part[name].last()[0], all_[name].last()[0]) for name in part}
    shown = ", ".join(f"{100 * few:.1f} % → {100 * many:.1f} % ({name})" for name, (few, many) in pairs.items())
    best = max(pairs, key=lambda name: max(pairs[name]))
    if max(pairs[best]) < LEARNT:
        return beyond(quantity, "accuracy increases", shown, part, all_)
    return ahead_by(quantity, "accuracy increases", shown, *all_[best].lead(part[best]))


def _best(
    quantity: str, printed: str, found: Mapping[float, Mapping[str, SeedRuns]], right: Sequence[float]
) -> PrintedLine:
    """Judges where accuracy is highest, in the better reading, where there is any."""
    best = {level: max(runs.last()[0] for runs in readings.values()) for level, readings in found.items()}
    shown = ", ".join(f"{level:g}: {100 * end:.1f} %" for level, end in best.items())
    if max(best.values()) < LEARNT:
        return beyond(quantity, printed, shown, *found.values())
    top = {level: max(readings.values(), key=lambda runs: runs.last()[0]) for level, readings in found.items()}
    mine = max(right, key=lambda level: best[level])
    other = max((level for level in best if level not in right), key=lambda level: best[level])
    return ahead_by(quantity, printed, shown, *top[mine].lead(top[other]))


def _columns(runs: Mapping[str, Mapping[str, SeedRuns]]) -> dict[str, list[float]]:
    """Returns the last accuracies of each reading, by optimiser."""
    return {f"ours, {name}": [readings[name].last()[0] for readings in runs.values()] for name in READINGS}


def _lost(
    key: str,
    what: str,
    printed: Mapping[str, float],
    before: Mapping[str, Mapping[str, SeedRuns]],
    after: Mapping[str, Mapping[str, SeedRuns]],
) -> Chart:
    then, now = _columns(before), _columns(after)
    lost = {name: [a - b for a, b in zip(then[name], now[name], strict=True)] for name in then}
    columns = {"printed": list(printed.values()), **lost}
    axis = Axis("accuracy lost", percent=True)
    return beside(key, f"Xue et al., {what}", "optimiser", list(NAMES.values()), columns, axis)


_PERCENT = Axis("test accuracy", percent=True, range=(0.0, 1.0))
ONE = "one seed, one round"
EXPERIMENTS = (
    experiment("xue-fig5a", "Fig. 5(a), §VI-C", "Number of clients", fig5a, ONE, CHOICES),
    experiment("xue-fig5b", "Fig. 5(b), §VI-D", "Noise level", fig5b, ONE, (*CHOICES, LEVELS)),
    experiment("xue-fig5c", "Fig. 5(c), §VI-E", "Share of participating clients", fig5c, ONE, (*CHOICES, LONGER)),
    experiment(
        "xue-fig5d", "Fig. 5(d), §VI-F", "Truncation factor", fig5d, f"{ONE}, β = 0.8, 1.1, 1.4", (*CHOICES, BETAS)
    ),
)
