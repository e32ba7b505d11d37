"""Baek et al. (2021), Algorithm 3 from end to end: noise for n_0, the secure sum, and calibration."""

from __future__ import annotations

from papers.baek import PERCENT, SHARED, noise_on_mnist
from papers.cited import BAEK
from papers.experiment import Experiment, ExperimentResult
from papers.experiment_runner import ExperimentRunner, SeedRuns
from papers.printed_line import PrintedLine, points, statement
from sordino.charts import Axis, Chart

Z, CLIP = 1.0, 0.5
LOST = 0.1
SUMS = {
    "through the secure sum": ["aggregate.kind=secure", "aggregate.fidelity=full"],
    "summed in the clear": ["aggregate.kind=plain"],
}


def algorithm3(runner: ExperimentRunner) -> ExperimentResult:
    """Algorithm 3 on MNIST with 10 % of the users lost, with the protocol and without."""
    rounds = runner.size(20, 1)
    base = [*noise_on_mnist(Z), "mechanism.form=extended", f"dropout.rate={LOST}", "aggregate.tolerance=0.4"]
    base += ["public.sizes=true", "run.evaluate_every=1", f"run.rounds={rounds}"]
    runs = runner.play({name: [*base, *how] for name, how in SUMS.items()})
    secure, plain = runs.values()
    lead, spread = secure.lead(plain)
    lines = (
        _noise(secure),
        points(f"accuracy with the protocol less without, rounds: {rounds}", 0.0, lead, spread=spread),
    )
    series = tuple(found.series(name, color) for color, (name, found) in enumerate(runs.items()))
    note = "Ours, with and without the protocol; each has noise of its own."
    chart = Chart("baek-algorithm3", "Baek et al., Algorithm 3", note, Axis("round"), PERCENT, series, wide=True)
    return ExperimentResult(lines, (chart,))


def _noise(secure: SeedRuns) -> PrintedLine:
    """Judges σ′ of every round that released something: 2·C·z over the survivors' weight (each user weighs 1)."""
    told = [line for view in secure.views for line in view.rounds if line["survivors"]]
    shares = [line["noise_stddev"] * line["survivors"] / (2 * CLIP * Z) for line in told]
    shown = (
        f"{min(shares):.6f} to {max(shares):.6f} of it, rounds: {len(shares)}" if shares else "no round was released"
    )
    holds = bool(shares) and max(abs(share - 1) for share in shares) < 1e-6
    return statement("noise of the released mean after calibration", "σ′ = 2·C·z/n′", shown, holds)


EXPERIMENTS = (
    Experiment(
        "baek-algorithm3", BAEK, "Algorithm 3, appendix", "The extended algorithm with its secure sum", algorithm3,
        choices=(
            *SHARED,
            "n_0 and the threshold of secret sharing are not stated: n_0 is 60 % of the expected weight, the threshold "
            "what the protocol needs for that. Numbers have 24 bits behind the point, of which the paper says nothing.",
        ),
        doubt="each run has noise of its own", shorter="one seed, 1 of 20 rounds",
    ),
)  # fmt: skip
