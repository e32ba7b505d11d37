"""`sordino plan`: from what you know about a run, what you left open."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import strict_json
from sordino.cli.idle import refuse_options, refuse_others

if TYPE_CHECKING:
    from sordino.account.plan.planner import Plan, Scenario
    from sordino.mechanisms.choice import Choice

_CONVERGENCE = ("convergence", "epsilon", "delta", "population", "cohort")
_OF_CONVERGENCE = (
    "theta", "iterations", "sensitivity", "learning_rate", "smoothness", "lipschitz", "polyak", "dissimilarity",
    "divergence", "gap", "printed",
)  # fmt: skip
_CHOICE = ("choose", "unit", "trust", "population", "rounds", "parameters", "epsilon", "delta", "dropout")
_OF_CHOICE = ("rounds_apart", "weight_decay", "momentum")
"""Options that each kind of plan looks at, and those that no other does."""


def plan(
    population: Annotated[int | None, typer.Option(help="clients of the federation (default: the cohort)")] = None,
    cohort: Annotated[int | None, typer.Option(help="expected clients of one round")] = None,
    rounds: Annotated[int | None, typer.Option(help="releases")] = None,
    epsilon: Annotated[float | None, typer.Option(help="budget")] = None,
    delta: Annotated[float | None, typer.Option(help="budget (1e-5, unless it is what is left open)")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="noise stddev over sensitivity")] = None,
    dropout: Annotated[float, typer.Option(help="share of a cohort whose message does not arrive")] = 0.0,
    clip_norm: Annotated[float, typer.Option(help="L2 bound on one contribution")] = 1.0,
    unit: Annotated[str, typer.Option(help="record or client")] = "client",
    observer: Annotated[str, typer.Option(help="server or outsider")] = "outsider",
    trust: Annotated[str, typer.Option(help="local, distributed or central")] = "distributed",
    parameters: Annotated[int, typer.Option(help="parameters of the model")] = 10_000,
    participations: Annotated[int | None, typer.Option(help="cap on one client's uploads (server)")] = None,
    record_rate: Annotated[float, typer.Option(help="share of a client's records in a batch (record unit)")] = 1.0,
    steps: Annotated[int, typer.Option(help="batches of one participation (record unit)")] = 1,
    batch: Annotated[int, typer.Option(help="records of one client in a batch (record unit)")] = 1,
    signal_to_noise: Annotated[float, typer.Option(help="what the cohort must reach when it is left open")] = 1.0,
    accountant: Annotated[str, typer.Option(help="pld, rdp or exact")] = "pld",
    choose: Annotated[
        bool, typer.Option("--choose", help="pick a mechanism for these facts, and say why in three sentences")
    ] = False,
    rounds_apart: Annotated[
        int, typer.Option(min=1, help="--choose: a client can take part once in so many rounds")
    ] = 1,
    weight_decay: Annotated[float, typer.Option(help="--choose: share of the model that the server takes away")] = 0.0,
    momentum: Annotated[float, typer.Option(help="--choose: the server's momentum")] = 0.0,
    plot: Annotated[Path | None, typer.Option(help="write the trade-off as an HTML plot")] = None,
    convergence: Annotated[
        bool, typer.Option("--convergence", help="the geometric paper's bound and best number of aggregations M*")
    ] = False,
    theta: Annotated[float, typer.Option(help="--convergence: factor of the noise variance, ϑ")] = 1.05,
    iterations: Annotated[int, typer.Option(help="--convergence: local steps in all, T")] = 150,
    sensitivity: Annotated[float, typer.Option(help="--convergence: Δs")] = 10 / 600,
    learning_rate: Annotated[float, typer.Option(help="--convergence: η")] = 0.05,
    smoothness: Annotated[float, typer.Option(help="--convergence: L")] = 10.0,
    lipschitz: Annotated[float, typer.Option(help="--convergence: L_c")] = 1.0,
    polyak: Annotated[float, typer.Option(help="--convergence: ρ")] = 1.0,
    dissimilarity: Annotated[float, typer.Option(help="--convergence: ℬ")] = 1.0,
    divergence: Annotated[float, typer.Option(help="--convergence: γ")] = 0.0,
    gap: Annotated[float, typer.Option(help="--convergence: loss above its minimum at the start, Θ")] = 1.0,
    printed: Annotated[bool, typer.Option("--printed", help="--convergence: with U−1 as printed, not ϑ−1")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Find the noise, the rounds, the cohort or the ε that was left open."""
    from sordino.account.plan.planner import Scenario, solve
    from sordino.errors import AccountingError

    if convergence:
        refuse_others((*_CONVERGENCE, *_OF_CONVERGENCE), "on the bound of --convergence: leave it out")
        from sordino.account.plan.printed_convergence import PrintedConvergence

        if epsilon is None:
            raise AccountingError("--epsilon is missing: the bound depends on the budget")
        users = population if population is not None else 100
        problem = PrintedConvergence(
            iterations=iterations,
            clients=users,
            cohort=cohort if cohort is not None else max(1, users // 10),
            theta=theta,
            epsilon=epsilon,
            delta=1e-3 if delta is None else delta,
            sensitivity=sensitivity,
            learning_rate=learning_rate,
            smoothness=smoothness,
            lipschitz=lipschitz,
            polyak=polyak,
            dissimilarity=dissimilarity,
            divergence=divergence,
            gap=gap,
            printed=printed,
        )
        _converge(problem, as_json)
        return
    refuse_options(_OF_CONVERGENCE, "without --convergence, whose constant it is: add that, or leave it out")
    for name, value, known in (
        ("unit", unit, ("record", "client")),
        ("observer", observer, ("server", "outsider")),
        ("trust", trust, ("local", "distributed", "central")),
    ):
        if value not in known:
            raise AccountingError(f"--{name} {value!r} is unknown: choose one of {', '.join(known)}")
    if choose:
        refuse_others((*_CHOICE, *_OF_CHOICE), "on what --choose picks: leave it out")
        from sordino.adapt.contraction import Contraction
        from sordino.mechanisms.choice import Known
        from sordino.mechanisms.choice import choose as chosen_for

        if population is None or rounds is None or epsilon is None:
            raise AccountingError("--choose needs --population, --rounds and --epsilon: they are what it follows from")
        forgets = Contraction(decay=weight_decay, momentum=momentum)
        delta = 1e-5 if delta is None else delta
        facts = Known(unit, trust, population, rounds, parameters, epsilon, delta, dropout, rounds_apart, forgets)  # type: ignore[arg-type]
        _choice(chosen_for(facts), as_json)
        return
    refuse_options(_OF_CHOICE, "without --choose, which follows from it: add that, or leave it out")
    if population is None and None in (epsilon, noise_multiplier, rounds):
        population = cohort  # nothing is said about others to hide among: everybody takes part
    given = (epsilon, noise_multiplier, rounds, cohort, population)
    scenario = Scenario(
        population=population,
        delta=1e-5 if delta is None and None in given else delta,
        cohort=cohort,
        rounds=rounds,
        noise_multiplier=noise_multiplier,
        epsilon=epsilon,
        dropout=dropout,
        clip_norm=clip_norm,
        unit=unit,  # type: ignore[arg-type]
        observer=observer,  # type: ignore[arg-type]
        trust=trust,  # type: ignore[arg-type]
        parameters=parameters,
        participations=participations,
        record_rate=record_rate,
        steps=steps,
        batch=batch,
    )
    found = solve(scenario, accountant, signal_to_noise)
    grid = _trade_off(found)
    if plot is not None:
        _plot(plot, grid)
    if as_json:
        print(strict_json.dumps(_record(found, grid)))
    else:
        _show(found, grid)


def _choice(chosen: Choice, as_json: bool) -> None:
    """Shows a mechanism that was picked."""
    if as_json:
        print(strict_json.dumps({**asdict(chosen), "settings": dict(chosen.settings)}))
        return
    settings = "".join(f", mechanism.{name} = {value}" for name, value in chosen.settings.items())
    coins = "" if chosen.sampling_rate is None else f", select.kind = poisson, select.rate = {chosen.sampling_rate:g}"
    print(f"mechanism.name = {chosen.mechanism}{settings}{coins}")
    from sordino.cli.shown import sentences

    sentences(highlight=False).print(" ".join(chosen.why))


def _trade_off(found: Plan) -> list[Scenario]:
    """Returns calibrated neighbours of the plan: fewer and more rounds, smaller and larger cohorts."""
    from dataclasses import replace

    from sordino.account.plan.planner import trade_off

    known = replace(found.scenario, epsilon=found.scenario.epsilon or found.epsilon, noise_multiplier=None)
    rounds, cohort = known.rounds or 1, known.cohort or 1
    many = sorted({max(1, rounds // 4), max(1, rounds // 2), rounds, rounds * 2, rounds * 4})
    sizes = sorted(
        {
            max(1, cohort // 4),
            max(1, cohort // 2),
            cohort,
            *(min(known.population or cohort, cohort * k) for k in (2, 4)),
        }
    )
    return trade_off(known, many, sizes)


def _record(found: Plan, grid: list[Scenario]) -> dict[str, Any]:
    def numbers(scenario: Scenario) -> dict[str, Any]:
        return {"stddev": scenario.stddev, "signal_to_noise": scenario.signal_to_noise, "audible": scenario.audible}

    keep = ("rounds", "cohort", "noise_multiplier")
    table = [{name: getattr(s, name) for name in keep} | numbers(s) for s in grid]
    plan_ = asdict(found.scenario) | {"epsilon": found.epsilon, "adjacency": found.scenario.relation}
    return {
        "solved": found.solved,
        "plan": plan_ | numbers(found.scenario) | {"uploads": found.scenario.uploads},
        "accountant": found.accountant,
        "note": found.note,
        "warning": found.scenario.warning,
        "trade_off": {"accountant": "rdp", "rows": table},
    }


def _show(found: Plan, grid: list[Scenario]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from sordino.cli.shown import terminal
    from sordino.cli.terminal_chart import chart

    told, console = found.scenario, terminal(soft_wrap=False)
    console.print(
        f"[bold]{found.solved.replace('_', ' ')} found[/]: ε = {found.epsilon:.5g} at δ = {told.delta:g} for a "
        f"{told.unit} against the {told.observer} ({told.relation}, {found.accountant}); noise multiplier "
        f"{told.noise_multiplier:.5g}, {told.rounds} rounds, cohort {told.cohort} of {told.population}"
    )
    console.print(
        f"noise on each coordinate of the released mean: {told.stddev:.4g}; signal to noise {told.signal_to_noise:.3g} "
        f"over {told.parameters} parameters (1 at {told.audible} parameters)"
    )
    for words in (found.note, told.warning and f"[bold yellow]warning:[/] {told.warning}"):
        if words:
            console.print(words)
    rounds = sorted({s.rounds or 0 for s in grid})
    table = Table(
        title="noise on the released mean (signal to noise), by rdp",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("cohort", justify="right")
    for count in rounds:
        table.add_column(f"{count} rounds", justify="right")
    for size in sorted({s.cohort or 0 for s in grid}):
        row = [s for s in grid if s.cohort == size]
        table.add_row(str(size), *(f"{s.stddev:.3g} ({s.signal_to_noise:.2g})" for s in row))
    console.print(table)
    console.print(chart({f"cohort {s}": [x.stddev for x in grid if x.cohort == s] for s in _sizes(grid)}, rounds))


def _sizes(grid: list[Scenario]) -> list[int]:
    return sorted({scenario.cohort or 0 for scenario in grid})


def _plot(path: Path, grid: list[Scenario]) -> None:
    import plotly.graph_objects as go

    from sordino.errors import AccountingError

    figure = go.Figure()
    for size in _sizes(grid):
        row = [s for s in grid if s.cohort == size]
        figure.add_scatter(
            x=[s.rounds for s in row], y=[s.stddev for s in row], mode="lines+markers", name=f"cohort {size}"
        )
    figure.update_layout(
        title="Noise on the released mean",
        xaxis_title="rounds",
        yaxis_title="stddev per coordinate",
        xaxis_type="log",
        yaxis_type="log",
    )
    try:
        figure.write_html(path, include_plotlyjs=True)
    except OSError as error:
        raise AccountingError(f"--plot {path} cannot be written ({error.strerror}): name another file") from None


def _converge(problem: Any, as_json: bool) -> None:
    import numpy as np

    best, root = problem.optimum()
    bound = float(problem.bound(np.array([float(best)]))[0])
    told = {
        "aggregations": best,
        "root": root,
        "bound": bound,
        "decay": problem.decay,
        "phi": problem.phi,
        "drift": float(problem.drift(np.array([problem.iterations / best]))[0]),
        "tau": problem.iterations / best,
        "printed": problem.printed,
    }
    if as_json:
        print(strict_json.dumps(told))
        return
    where = (
        f"Eq. (14) vanishes at M = {root:.4f}" if root is not None else "Eq. (14) has no root there: M* is at the edge"
    )
    print(f"M* = {best} aggregations (best of all 1 … {problem.iterations}; {where})")
    print(
        f"bound {bound:.6g} on the loss above its minimum, τ = {told['tau']:.4g}, 𝒜 = {problem.decay:.6g}, "
        f"ϕ = {problem.phi:.6g}, ℋ(τ) = {told['drift']:.6g}"
    )
