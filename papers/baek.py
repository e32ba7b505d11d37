"""Baek, Kim, Nam, Park (2021), "Enhancing Differential Privacy for Federated Learning at Scale" (`dropout_robust`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from papers.baek_accounting import dropout_epsilons, epsilons, table2
from papers.cited import BAEK
from papers.experiment import PIXELS, Experiment, ExperimentResult
from papers.experiment_runner import UNBOUND, ExperimentRunner, SeedRuns, printed_rules
from papers.printed_line import PrintedLine, accuracy, ahead_by, all_ahead, joined, left_out
from sordino.charts import Axis, Chart

PERCENT = Axis("test accuracy", percent=True, range=(0.0, 1.0))

ROBUST = [
    "mechanism.name=dropout_robust", "mechanism.mode=faithful", "mechanism.form=plain", "mechanism.clip_norm=0.5",
    "aggregate.tolerance=0.6",
]  # fmt: skip
PLAIN = ["mechanism.name=fedavg"]
MNIST = [
    "data.name=mnist", "partition.clients=5000", "partition.size=1200",
    "model.name=cnn_tfp", "train.learning_rate=0.15", "train.batch_size=100", "train.epochs=1", "select.kind=poisson",
    "select.rate=0.01", "run.evaluate_every=5", UNBOUND,
]  # fmt: skip
WRITERS = [
    "data.name=mnist-writers", "partition.kind=by_key", "model.name=cnn_tfp",
    "train.learning_rate=0.15", "train.batch_size=16", "train.epochs=10", "select.kind=poisson", "select.rate=0.0928",
    "run.evaluate_every=5", UNBOUND,
]  # fmt: skip
SHARED = (
    PIXELS,
    "Whether the paper's “non-DP case” clips is not stated: without noise nothing is clipped, but where it is said so.",
    "Each user is asked, and lost, by a coin of its own, so that numbers vary; the text has 50 users and exact shares.",
    "5,000 users of 1,200 images are more than MNIST has: each user draws its own, so an image has several holders.",
    "The rate of the dropout layer that the paper adds to the tutorial's network is not stated: 0, so without it "
    "(`cnn_tfp_dropout` has one of rate 0.5).",
)
NATURAL = (
    *SHARED[:3],
    "MNIST by writer (539 writers of about 111 digits) stands in for FEMNIST (3,383 writers, digits in Google's "
    "version, which `femnist-digits` loads where one has it); "
    "a writer is asked with probability 0.0928, so that about 50 take part, as in the paper. ε is "
    "that of the paper's rate of 0.01.",
)
FIXED = (
    "z and C are not stated for Fig. 3, where C is “slightly changed”: z = 1, and C = 1 beside the 0.5 of the other "
    "figures."
)
FORMS = {"uncalibrated": "as it is", "plain": "calibrated"}
ONLY, LARGE = "large loss to calibration (0.02 counts as that)", "only at z = 1.5 and 30 %"
AS_MNIST = "similar to MNIST (there less than 0.02 at z = 1)"
CLIPPED = "no noise to speak of (z = 0.01), clipped"
OTHER_DATA = "other data: MNIST by writer in place of FEMNIST"


def fig1(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 1: accuracy and ε on MNIST for four noise multipliers."""
    rounds = runner.size(100, 4)
    plans = {f"z = {z:g}": [*noise_on_mnist(z), f"run.rounds={rounds}"] for z in (0.5, 1.0, 1.5, 2.0)}
    runs = runner.play(plans | {"no noise": [*MNIST, *PLAIN, f"run.rounds={rounds}"]})
    printed = {"z = 0.5": 0.9406, "z = 1": 0.9289, "z = 1.5": 0.9013, "z = 2": 0.8218, "no noise": 0.9615}
    lines = epsilons(100, {0.5: 9.1418, 1.0: 1.6118, 1.5: 0.6731, 2.0: 0.4437})
    lines += [
        accuracy(f"accuracy after {_of(rounds, 100)}, {name}", printed[name], *runs[name].last()) for name in runs
    ]
    lines.append(little_lost({name: runs["no noise"].lead(runs[name]) for name in ("z = 0.5", "z = 1", "z = 1.5")}))
    return ExperimentResult(tuple(lines), (_curves("baek-fig1", "Baek et al., Fig. 1: MNIST", runs, printed),))


def little_lost(lost: Mapping[str, tuple[float, float]]) -> PrintedLine:
    """Judges whether noise up to z = 1.5 costs no more than the six points that the paper's own numbers have there."""
    shown = ", ".join(f"{name}: {100 * mean:.2f} points" for name, (mean, _) in lost.items())
    printed = "no significant accuracy loss (6.02 points at most)"
    return all_ahead(
        "lost to noise up to z = 1.5", printed, shown, [(0.0602 - mean, std) for mean, std in lost.values()]
    )


def fig2(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 2: dropouts with and without calibration on MNIST."""
    rounds = f"run.rounds={runner.size(100, 4)}"
    rates, levels = runner.size((0.1, 0.3), (0.3,)), runner.size((1.0, 1.5), (1.0,))
    plans = {f"z = {z:g}, nobody lost": [*noise_on_mnist(z), rounds] for z in levels}
    for z in levels:
        for rate in rates:
            for form, word in FORMS.items():
                lost = [f"dropout.rate={rate}", f"mechanism.form={form}", rounds]
                plans[f"z = {z:g}, {rate:.0%} lost, {word}"] = [*noise_on_mnist(z), *lost]
    runs = runner.play(plans)
    costs = {
        (z, rate): runs[f"z = {z:g}, {rate:.0%} lost, as it is"].lead(runs[f"z = {z:g}, {rate:.0%} lost, calibrated"])
        for z in levels
        for rate in rates
    }
    lines = [*dropout_epsilons(), *_fewer(runs, levels, rates)]
    for rate in (0.1, 0.3):
        quantity, printed = f"accuracy lost to calibration, z = 1, {rate:.0%}", "less than 0.02"
        if rate in rates:
            pair = (runs[f"z = 1, {rate:.0%} lost, {word}"] for word in FORMS.values())
            lines.append(_cheap(quantity, printed, *pair))
        else:
            lines.append(left_out(quantity, printed))
    lines.append(only_large(costs) if len(costs) == 4 else left_out(ONLY, LARGE))
    charts = []
    for z in levels:
        these = {name.removeprefix(f"z = {z:g}, "): found for name, found in runs.items() if f"z = {z:g}, " in name}
        charts.append(_curves(f"baek-fig2-{z:g}", f"Baek et al., Fig. 2: MNIST with dropouts, z = {z:g}", these, {}))
    return ExperimentResult(tuple(lines), tuple(charts))


def _fewer(runs: Mapping[str, SeedRuns], levels: Sequence[float], rates: Sequence[float]) -> list[PrintedLine]:
    """Judges whether accuracy falls as more users are lost, calibrated or not."""
    lines = []
    for z in levels:
        for word in FORMS.values():
            path = [runs[f"z = {z:g}, nobody lost"], *(runs[f"z = {z:g}, {rate:.0%} lost, {word}"] for rate in rates)]
            shown = " → ".join(f"{100 * found.last()[0]:.2f} %" for found in path)
            quantity = f"0 → {' → '.join(f'{rate:.0%}' for rate in rates)} lost, z = {z:g}, {word}"
            least = min(before.lead(after) for before, after in pairwise(path))
            lines.append(ahead_by(quantity, "accuracy decreases", shown, *least))
    return lines


def only_large(costs: Mapping[tuple[float, float], tuple[float, float]]) -> PrintedLine:
    """Judges whether calibration costs two points or more in one case alone."""
    shown = ", ".join(f"z = {z:g}, {rate:.0%}: {100 * cost:.2f} points" for (z, rate), (cost, _) in costs.items())
    leads = [((cost - 0.02) * (1 if case == (1.5, 0.3) else -1), spread) for case, (cost, spread) in costs.items()]
    return all_ahead(ONLY, LARGE, shown, leads)


def fig3(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 3: number of users and clipping bound on MNIST."""
    rounds = f"run.rounds={runner.size(100, 4)}"
    fewer = "select.rate=0.007"
    plans = {
        "50 users": [*noise_on_mnist(1.0), rounds],
        "35 users": [*noise_on_mnist(1.0), fewer, rounds],
        "C = 1": [*noise_on_mnist(1.0), "mechanism.clip_norm=1.0", rounds],
    }
    more = {
        "50 users, no noise": [*MNIST, *PLAIN, rounds],
        "35 users, no noise": [*MNIST, *PLAIN, fewer, rounds],
        "C = 1, σ kept": [*noise_on_mnist(0.5), "mechanism.clip_norm=1.0", rounds],
    }
    runs = runner.play(plans | runner.size(more, {}))
    lines = [
        _falls("35 instead of 50 users, z = 1", "accuracy decreases", runs["50 users"], runs["35 users"]),
        _falls("C = 1 instead of 0.5, z kept", "accuracy decreases as C increases", runs["50 users"], runs["C = 1"]),
    ]
    if runner.quick:
        lines += [left_out("35 instead of 50 users, no noise", "quite similar")]
        lines += [left_out("C = 1 instead of 0.5, σ kept", "a high C gives high accuracy")]
    else:
        gap, spread = runs["50 users, no noise"].lead(runs["35 users, no noise"])
        shown, apart = f"{100 * gap:+.2f} points", abs(gap)
        lines += [
            ahead_by("35 instead of 50 users, no noise", "quite similar", shown, 0.02 - apart, spread),
            _rises(
                "C = 1 instead of 0.5, σ kept", "a high C gives high accuracy", runs["50 users"], runs["C = 1, σ kept"]
            ),
        ]
    return ExperimentResult(tuple(lines), (_curves("baek-fig3", "Baek et al., Fig. 3: users and clipping", runs, {}),))


def fig4(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 4: the non-IID case."""
    rounds = runner.size(200, 2)
    plans = {f"z = {z:g}": [*noise_on_writers(z), f"run.rounds={rounds}"] for z in (1.0, 1.5)}
    plans["no noise"] = [*WRITERS, *PLAIN, f"run.rounds={rounds}"]
    plans[CLIPPED] = [*noise_on_writers(0.01), f"run.rounds={rounds}"]
    runs = runner.play(plans)
    printed = {"z = 1": 0.8205, "z = 1.5": 0.5217, "no noise": 0.9707, CLIPPED: 0.9707}
    lines = epsilons(200, {1.0: 1.7456, 1.5: 0.7421})
    lines += [
        accuracy(f"accuracy after {_of(rounds, 200)}, {name}", printed[name], *runs[name].last(), why=diverged(found))
        for name, found in runs.items()
    ]
    return ExperimentResult(tuple(lines), (_curves("baek-fig4", "Baek et al., Fig. 4: by writer", runs, printed),))


def diverged(runs: SeedRuns) -> str:
    """Returns that training left no finite loss, where it did so, and whether anything was clipped."""
    if math.isfinite(runs.last("loss")[0]):
        return ""
    unclipped = runs.views[0].recipe.mechanism.name == "fedavg"
    return joined("diverges: its loss is no longer finite", "without noise nothing is clipped" if unclipped else "")


def fig5(runner: ExperimentRunner) -> ExperimentResult:
    """Fig. 5: dropouts in the non-IID case."""
    rounds = runner.size(100, 2)
    base = [*noise_on_writers(1.0), f"run.rounds={rounds}"]
    plans = {"nobody lost": [*base, f"run.rounds={runner.size(200, 2)}"]}  # that of Fig. 4
    rates = runner.size((0.1, 0.3), (0.3,))
    for rate in rates:
        for form, word in FORMS.items():
            plans[f"{rate:.0%} lost, {word}"] = [*base, f"dropout.rate={rate}", f"mechanism.form={form}"]
    runs = {name: found.until(rounds) for name, found in runner.play(plans).items()}
    lines: list[PrintedLine] = []
    for rate in (0.1, 0.3):
        lost, costs = f"{rate:.0%} of the users lost", f"accuracy lost to calibration, {rate:.0%}"
        if rate not in rates:
            lines += [left_out(lost, "accuracy decreases"), left_out(costs, AS_MNIST)]
            continue
        as_it_is, calibrated = (runs[f"{rate:.0%} lost, {word}"] for word in FORMS.values())
        lines.append(_falls(lost, "accuracy decreases", runs["nobody lost"], as_it_is))
        lines.append(_cheap(costs, AS_MNIST, as_it_is, calibrated))
    return ExperimentResult(
        tuple(lines), (_curves("baek-fig5", "Baek et al., Fig. 5: by writer, with dropouts", runs, {}),)
    )


def noise_on_mnist(z: float) -> list[str]:
    """Returns the printed mechanism on MNIST."""
    return [*MNIST, *ROBUST, "mechanism.record_limit=1200", f"mechanism.noise_multiplier={z}"]


def noise_on_writers(z: float) -> list[str]:
    """Returns the printed mechanism on MNIST by writer."""
    return [*WRITERS, *ROBUST, "mechanism.record_limit=120", f"mechanism.noise_multiplier={z}"]


def _falls(quantity: str, printed: str, before: SeedRuns, after: SeedRuns) -> PrintedLine:
    return ahead_by(quantity, printed, _course(before, after), *before.lead(after))


def _rises(quantity: str, printed: str, before: SeedRuns, after: SeedRuns) -> PrintedLine:
    return ahead_by(quantity, printed, _course(before, after), *after.lead(before))


def _course(before: SeedRuns, after: SeedRuns) -> str:
    return f"{100 * before.last()[0]:.2f} % → {100 * after.last()[0]:.2f} %"


def _cheap(quantity: str, printed: str, as_it_is: SeedRuns, calibrated: SeedRuns) -> PrintedLine:
    """Judges whether calibration costs less than two points."""
    cost, spread = as_it_is.lead(calibrated)
    return ahead_by(quantity, printed, f"costs {100 * cost:.2f} points", 0.02 - cost, spread)


def _of(rounds: int, full: int) -> str:
    return f"{rounds} rounds" if rounds == full else f"{rounds} of {full} rounds"


def _curves(key: str, title: str, runs: dict[str, SeedRuns], printed: dict[str, float]) -> Chart:
    series = tuple(found.series(name, color) for color, (name, found) in enumerate(runs.items()))
    rules = printed_rules({color: printed[name] for color, name in enumerate(runs) if name in printed})
    note = "Lines are ours; dotted lines are the accuracies that the paper prints for the end." if printed else "Ours."
    return Chart(key, title, note, Axis("round"), PERCENT, series, rules, wide=True)


def _experiment(
    id_: str,
    place: str,
    title: str,
    find: Callable[[ExperimentRunner], ExperimentResult],
    *more: str,
    by_writer: bool = False,
) -> Experiment:
    choices = (*((*NATURAL, SHARED[-1]) if by_writer else SHARED), *more)
    unstated = "the paper's dropout layer is left out, its rate not being stated, nor how pixels are scaled"
    doubt = OTHER_DATA if by_writer else unstated
    shorter = "one seed, 2 rounds" if by_writer else "one seed, 4 of 100 rounds"
    return Experiment(id_, BAEK, place, title, find, choices=choices, doubt=doubt, shorter=shorter)


EXPERIMENTS = (
    Experiment("baek-table2", BAEK, "Table 2", "Privacy for different dropout rates", table2, "exact"),
    _experiment("baek-fig1", "Fig. 1, §VI-A-1", "Effect of DP noise on MNIST", fig1),
    _experiment("baek-fig2", "Fig. 2, §VI-A-2", "User dropouts and calibration on MNIST", fig2),
    _experiment("baek-fig3", "Fig. 3, §VI-A-3", "Number of users and clipping bound", fig3, FIXED),
    _experiment("baek-fig4", "Fig. 4, §VI-B", "Effect of DP noise, non-IID", fig4, by_writer=True),
    _experiment("baek-fig5", "Fig. 5, §VI-B", "Dropouts and calibration, non-IID", fig5, by_writer=True),
)
