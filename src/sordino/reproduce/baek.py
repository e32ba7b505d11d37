"""Baek, Kim, Nam, Park (2021), "Enhancing Differential Privacy for Federated Learning at Scale" (`dropout_robust`)."""

from __future__ import annotations

from collections.abc import Callable

from sordino.account.accountant import price
from sordino.account.calibrate import largest_rounds
from sordino.account.reproduce import BAEK_ROUNDS, BAEK_TABLE, DELTA, counted
from sordino.events import GaussianDpEvent, PoissonSampledDpEvent
from sordino.report.chart import Axis, Chart, Series
from sordino.reproduce.bench import UNBOUND, Bench, Runs, printed_rules
from sordino.reproduce.experiment import Experiment, Finding
from sordino.reproduce.line import Line, accuracy, number, statement
from sordino.reproduce.papers import BAEK

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
    "5,000 users of 1,200 images are more than MNIST has: each user draws its own, so an image has several holders.",
    "The dropout layer that the paper adds to the tutorial's network is left out: its rate is not stated.",
)
NATURAL = (
    "MNIST by writer (539 writers of about 111 digits) stands in for FEMNIST (3,383 writers, digits in Google's "
    "version); a writer is asked with probability 0.0928, so that about 50 take part, as in the paper.",
)
OTHER_DATA = "other data: MNIST by writer in place of FEMNIST"


def epsilon(multiplier: float, rounds: int, accountant: str = "rdp-classic") -> float:
    """Returns ε of a Gaussian that is sampled at the paper's rate of 0.01."""
    event = PoissonSampledDpEvent(0.01, GaussianDpEvent(multiplier))
    return price({event: rounds}, accountant).epsilon(DELTA)


def table2(bench: Bench) -> Finding:
    """Table 2: ε after some rounds, and rounds below some ε, by dropout rate. No training."""
    lines = []
    for dropout, row in BAEK_TABLE.items():
        kept = (1 - dropout) ** 0.5
        event = PoissonSampledDpEvent(0.01, GaussianDpEvent(kept))
        for rounds, printed in zip(BAEK_ROUNDS, row[:6], strict=True):
            found = price({event: rounds}, "rdp-classic").epsilon(DELTA)
            lines.append(number(f"ε after {counted(rounds)}, {dropout:.0%} dropout", printed, found, 3, 0.001))
        for budget, printed in zip((2, 4, 8), row[6:], strict=True):
            most = largest_rounds(budget, DELTA, lambda n, e=event: {e: n}, "rdp-classic")  # type: ignore[misc]
            lines.append(number(f"rounds below ε = {budget}, {dropout:.0%} dropout", printed, most, 0, 1))
    remark = "Rényi orders 1.1 … 10.9 and 12 … 63 with the classic conversion; dropouts leave z·√(1 − rate)."
    return Finding(tuple(lines), (_table2_chart(),), (remark,))


def _table2_chart() -> Chart:
    rounds, series = BAEK_ROUNDS[:4], []
    for color, (dropout, row) in enumerate(BAEK_TABLE.items()):
        kept = (1 - dropout) ** 0.5
        tight = [epsilon(kept, n, "pld") for n in rounds]
        series.append(Series(f"printed, {dropout:.0%} dropout", rounds, row[:4], "dots", color))
        series.append(Series(f"classic, {dropout:.0%}", rounds, [epsilon(kept, n) for n in rounds], "line", color))
        series.append(Series(f"tight (PLD), {dropout:.0%}", rounds, tight, "line", color, dashed=True))
    note = "Printed values lie on the classic accountant's line; the same noise is worth more to a tight one."
    axes = Axis("rounds", log=True), Axis("ε at δ = 1e-5")
    return Chart("baek-table2", "Baek et al., Table 2", note, *axes, tuple(series))


def fig1(bench: Bench) -> Finding:
    """Fig. 1: accuracy and ε on MNIST for four noise multipliers."""
    rounds = bench.size(100, 4)
    plans = {f"z = {z:g}": [*_noise(z), f"run.rounds={rounds}"] for z in (0.5, 1.0, 1.5, 2.0)}
    runs = bench.play(plans | {"no noise": [*MNIST, *PLAIN, f"run.rounds={rounds}"]})
    printed = {"z = 0.5": 0.9406, "z = 1": 0.9289, "z = 1.5": 0.9013, "z = 2": 0.8218, "no noise": 0.9615}
    lines = [*_epsilons((0.5, 9.1418), (1.0, 1.6118), (1.5, 0.6731), (2.0, 0.4437))]
    lines += [
        accuracy(f"accuracy after {_of(rounds, 100)}, {name}", printed[name], *runs[name].last()) for name in runs
    ]
    return Finding(tuple(lines), (_curves("baek-fig1", "Baek et al., Fig. 1: MNIST", runs, printed),))


def fig2(bench: Bench) -> Finding:
    """Fig. 2: dropouts with and without calibration on MNIST."""
    rounds = bench.size(100, 4)
    rates = bench.size((0.1, 0.3), (0.3,))
    plans = {"z = 1, nobody lost": [*_noise(1.0), f"run.rounds={rounds}"]}
    for z in bench.size((1.0, 1.5), (1.0,)):
        for rate in rates:
            for form, word in (("uncalibrated", "as it is"), ("plain", "calibrated")):
                lost = [f"dropout.rate={rate}", f"mechanism.form={form}", f"run.rounds={rounds}"]
                plans[f"z = {z:g}, {rate:.0%} lost, {word}"] = [*_noise(z), *lost]
    runs = bench.play(plans)
    lines = _dropout_epsilons()
    for rate in rates:
        without, with_ = (runs[f"z = 1, {rate:.0%} lost, {word}"].last()[0] for word in ("as it is", "calibrated"))
        cost = f"costs {100 * (without - with_):.2f} points"
        lines.append(
            statement(
                f"accuracy lost to calibration, z = 1, {rate:.0%}", "less than 0.02", cost, without - with_ < 0.02
            )
        )
    return Finding(tuple(lines), (_curves("baek-fig2", "Baek et al., Fig. 2: MNIST with dropouts", runs, {}),))


def fig3(bench: Bench) -> Finding:
    """Fig. 3: number of users and clipping bound on MNIST."""
    rounds = f"run.rounds={bench.size(100, 4)}"
    fewer = "select.rate=0.007"
    plans = {
        "50 users": [*_noise(1.0), rounds],
        "35 users": [*_noise(1.0), fewer, rounds],
        "C = 1": [*_noise(1.0), "mechanism.clip_norm=1.0", rounds],
    }
    more = {
        "50 users, no noise": [*MNIST, *PLAIN, rounds],
        "35 users, no noise": [*MNIST, *PLAIN, fewer, rounds],
        "C = 1, σ kept": [*_noise(0.5), "mechanism.clip_norm=1.0", rounds],
    }
    runs = bench.play(plans | bench.size(more, {}))
    end = {name: found.last()[0] for name, found in runs.items()}
    lines = [
        _falls("35 instead of 50 users, z = 1", "accuracy decreases", end["50 users"], end["35 users"]),
        _falls("C = 1 instead of 0.5, z kept", "accuracy decreases as C increases", end["50 users"], end["C = 1"]),
    ]
    if not bench.quick:
        gap, high = end["50 users, no noise"] - end["35 users, no noise"], end["C = 1, σ kept"]
        near = abs(gap) < 0.02
        lines += [
            statement("35 instead of 50 users, no noise", "quite similar", f"{100 * gap:+.2f} points", near),
            _rises("C = 1 instead of 0.5, σ kept", "a high C gives high accuracy", end["50 users"], high),
        ]
    return Finding(tuple(lines), (_curves("baek-fig3", "Baek et al., Fig. 3: users and clipping", runs, {}),))


def fig4(bench: Bench) -> Finding:
    """Fig. 4: the non-IID case."""
    rounds = bench.size(200, 2)
    plans = {f"z = {z:g}": [*_written(z), f"run.rounds={rounds}"] for z in (1.0, 1.5)}
    runs = bench.play(plans | {"no noise": [*WRITERS, *PLAIN, f"run.rounds={rounds}"]})
    printed = {"z = 1": 0.8205, "z = 1.5": 0.5217, "no noise": 0.9707}
    lines = [
        number(f"ε after 200 rounds, z = {z:g}", e, epsilon(z, 200), 4, 0.001) for z, e in ((1, 1.7456), (1.5, 0.7421))
    ]
    lines += [
        accuracy(f"accuracy after {_of(rounds, 200)}, {name}", printed[name], *runs[name].last()) for name in runs
    ]
    return Finding(tuple(lines), (_curves("baek-fig4", "Baek et al., Fig. 4: by writer", runs, printed),))


def fig5(bench: Bench) -> Finding:
    """Fig. 5: dropouts in the non-IID case."""
    rounds = bench.size(100, 2)
    base = [*_written(1.0), f"run.rounds={rounds}"]
    plans = {"nobody lost": [*base, f"run.rounds={bench.size(200, 2)}"]}  # that of Fig. 4
    for form, word in (("uncalibrated", "as it is"), ("plain", "calibrated")):
        plans[f"30% lost, {word}"] = [*base, "dropout.rate=0.3", f"mechanism.form={form}"]
    runs = {name: found.until(rounds) for name, found in bench.play(plans).items()}
    end = {name: found.last()[0] for name, found in runs.items()}
    lines = (
        _falls("30 % of the users lost", "accuracy decreases", end["nobody lost"], end["30% lost, as it is"]),
        _falls("… and noise calibrated", "accuracy decreases", end["30% lost, as it is"], end["30% lost, calibrated"]),
    )
    return Finding(lines, (_curves("baek-fig5", "Baek et al., Fig. 5: by writer, with dropouts", runs, {}),))


def _noise(z: float) -> list[str]:
    return [*MNIST, *ROBUST, "mechanism.record_limit=1200", f"mechanism.noise_multiplier={z}"]


def _written(z: float) -> list[str]:
    return [*WRITERS, *ROBUST, "mechanism.record_limit=120", f"mechanism.noise_multiplier={z}"]


def _epsilons(*printed: tuple[float, float]) -> list[Line]:
    odd = "not the same accountant's number as the others: the orders of Table 2 give ours"
    return [
        number(f"ε after 100 rounds, z = {z:g}", value, epsilon(z, 100), 4, 0.002, odd if z == 2 else "")
        for z, value in printed
    ]


def _dropout_epsilons() -> list[Line]:
    why = "the paper's own Table 2 prints {} for the same noise, which is ours"
    return [
        number("ε after 100 rounds, z = 1, 10 % lost", 1.8719, epsilon(0.9**0.5, 100), 4, 0.001, why.format("1.822")),
        number("ε after 100 rounds, z = 1, 30 % lost", 2.5005, epsilon(0.7**0.5, 100), 4, 0.001, why.format("2.463")),
        number("ε after 100 rounds, z = 1, calibrated", 1.6118, epsilon(1.0, 100), 4),
    ]


def _falls(quantity: str, printed: str, before: float, after: float) -> Line:
    return statement(quantity, printed, f"{100 * before:.2f} % → {100 * after:.2f} %", after < before)


def _rises(quantity: str, printed: str, before: float, after: float) -> Line:
    return statement(quantity, printed, f"{100 * before:.2f} % → {100 * after:.2f} %", after > before)


def _of(rounds: int, full: int) -> str:
    return f"{rounds} rounds" if rounds == full else f"{rounds} of {full} rounds"


def _curves(key: str, title: str, runs: dict[str, Runs], printed: dict[str, float]) -> Chart:
    series = tuple(found.series(name, color) for color, (name, found) in enumerate(runs.items()))
    rules = printed_rules({color: printed[name] for color, name in enumerate(runs) if name in printed})
    note = "Lines are ours; dotted lines are the accuracies that the paper prints for the end." if printed else "Ours."
    return Chart(key, title, note, Axis("round"), PERCENT, series, rules, wide=True)


def _experiment(
    id_: str, place: str, title: str, find: Callable[[Bench], Finding], by_writer: bool = False
) -> Experiment:
    choices = (*NATURAL, SHARED[1]) if by_writer else SHARED
    doubt = OTHER_DATA if by_writer else "the paper's dropout layer is left out, its rate not being stated"
    shorter = "one seed, 2 rounds" if by_writer else "one seed, 4 of 100 rounds"
    return Experiment(id_, BAEK, place, title, find, choices=choices, doubt=doubt, shorter=shorter)


EXPERIMENTS = (
    Experiment("baek-table2", BAEK, "Table 2", "Privacy for different dropout rates", table2, "exact"),
    _experiment("baek-fig1", "Fig. 1, §VI-A-1", "Effect of DP noise on MNIST", fig1),
    _experiment("baek-fig2", "Fig. 2, §VI-A-2", "User dropouts and calibration on MNIST", fig2),
    _experiment("baek-fig3", "Fig. 3, §VI-A-3", "Number of users and clipping bound", fig3),
    _experiment("baek-fig4", "Fig. 4, §VI-B", "Effect of DP noise, non-IID", fig4, by_writer=True),
    _experiment("baek-fig5", "Fig. 5, §VI-B", "Dropouts and calibration, non-IID", fig5, by_writer=True),
)
