"""`sordino account`: what noise costs, or what a budget allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import strict_json
from sordino.cli.idle import refuse_options, refuse_others

if TYPE_CHECKING:
    from sordino.account.accountants.accountant import Curve
    from sordino.account.accountants.history import History
    from sordino.account.plan.schedule import Schedule
    from sordino.types import Adjacency


def account(
    noise_multiplier: Annotated[float | None, typer.Option(help="noise stddev over sensitivity")] = None,
    sampling_rate: Annotated[float, typer.Option(help="Poisson sampling rate of the protected unit, in (0, 1]")] = 1.0,
    rounds: Annotated[int | None, typer.Option(help="number of releases")] = None,
    epsilon: Annotated[float | None, typer.Option(help="answer δ; with --delta, the largest number of rounds")] = None,
    delta: Annotated[float | None, typer.Option(help="answer ε; with --epsilon, the largest number of rounds")] = None,
    accountant: Annotated[str, typer.Option(help="pld, rdp, rdp-classic, exact or pure")] = "pld",
    adjacency: Annotated[str, typer.Option(help="add_remove, replace or zero_out")] = "add_remove",
    mechanism: Annotated[str, typer.Option(help="gaussian or laplace")] = "gaussian",
    schedule: Annotated[
        str, typer.Option(help="constant, geometric:FACTOR (of the noise variance), or a file, one multiplier a line")
    ] = "constant",
    published: Annotated[
        str | None, typer.Option(help="print a paper's numbers: baek, xue, fed_cad, yuan, gaussian or all")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Compute what releases cost: give δ for ε, ε for δ, or both for the largest number of rounds."""
    from sordino.account.accountants.accountant import price
    from sordino.account.accountants.calibrate import largest_rounds
    from sordino.account.plan.schedule import Schedule
    from sordino.errors import AccountingError

    if published is not None:
        _reproduce(published, as_json)
        return
    plan = Schedule.parse(schedule, mechanism, noise_multiplier, sampling_rate)
    if plan.listed:
        refuse_options(("noise_multiplier",), "beside a schedule file, which has one a round: leave one of them out")
    relation: Any = adjacency
    if epsilon is not None and delta is not None:
        if rounds is not None:
            raise AccountingError("--rounds, --epsilon and --delta are all given: leave out the one to compute")
        most = largest_rounds(epsilon, delta, plan.history, accountant, relation, limit=plan.limit)
        curve = price(plan.history(max(1, most)), accountant, relation)
        _tell(plan, most, epsilon, delta, curve, relation, as_json, f"{most} rounds")
        return
    count = plan.rounds if rounds is None else rounds
    if count is None:
        raise AccountingError("--rounds is missing: say how many releases there are")
    curve = price(plan.history(count), accountant, relation)
    if delta is not None:
        found = curve.epsilon(delta)
        _tell(plan, count, found, delta, curve, relation, as_json, f"ε = {found:.6g} at δ = {delta:g}")
    elif epsilon is not None:
        found = curve.delta(epsilon)
        _tell(plan, count, epsilon, found, curve, relation, as_json, f"δ = {found:.6g} at ε = {epsilon:g}")
    else:
        raise AccountingError("--delta and --epsilon are both missing: give one to get the other")


def _tell(
    plan: Schedule,
    rounds: int,
    epsilon: float,
    delta: float,
    curve: Curve,
    adjacency: Adjacency,
    as_json: bool,
    answer: str,
) -> None:
    if as_json:
        told = {
            "epsilon": epsilon if epsilon != float("inf") else None,
            "delta": delta,
            "rounds": rounds,
            "accountant": curve.accountant,
            "adjacency": adjacency,
            "note": curve.note,
            "history": _records(plan.history(rounds)),
        }
        print(strict_json.dumps(told))
        return
    print(f"{answer}  ({curve.accountant}, {adjacency})")
    if curve.note:
        print(f"note: {curve.note}")


def _records(history: History) -> list[dict[str, Any]]:
    from sordino.account.accountants.history import flatten
    from sordino.events import encode

    return [encode(event) | {"count": count} for event, count in flatten(history).items()]


def _reproduce(paper: str, as_json: bool) -> None:
    from dataclasses import asdict

    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from sordino.cli.checkout import require_papers
    from sordino.cli.shown import terminal
    from sordino.errors import AccountingError

    require_papers()
    from papers.accounting import PAPERS, published_numbers

    if paper != "all" and paper not in PAPERS:
        raise AccountingError(f"--published {paper!r} is unknown: choose one of all, {', '.join(PAPERS)}")
    refuse_others(("published",), "beside --published, which prints a paper's numbers: leave one of them out")
    found = list(published_numbers(paper))
    if as_json:
        print(strict_json.dumps([asdict(line) for line in found]))
        return
    table = Table("paper", "quantity", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("printed", justify="right")
    table.add_column("computed", justify="right")
    for line in found:
        table.add_row(
            line.paper,
            line.quantity,
            "" if line.printed is None else f"{line.printed:g}",
            f"{line.computed:.{line.digits}f}",
        )
    terminal(width=120).print(table)
