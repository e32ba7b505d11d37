"""`sordino audit`: attack a mechanism, a run, or a client's upload, and say what that proves about ε."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from sordino import strict_json
from sordino.cli.idle import refuse_others
from sordino.cli.inversion import show_inversion
from sordino.cli.own import DATA_HELP, MODEL_HELP, data_again, own_model
from sordino.cli.shown import terminal

if TYPE_CHECKING:
    from sordino.audit.endtoend import Effort
    from sordino.audit.finding import Finding
    from sordino.cli.progress import Bar


def audit(
    target: Annotated[str | None, typer.Argument(help="a mechanism, a game, or a run folder")] = None,
    mode: Annotated[Literal["certified", "faithful"] | None, typer.Option(help="provable, or as printed")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="override a setting: section.field=value")] = None,
    everything: Annotated[bool, typer.Option("--all", help="every mechanism in both modes, and every game")] = False,
    attack: Annotated[
        Literal["inversion"] | None, typer.Option(help="gradient inversion: pictures from a client's upload")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1000, help="plays of each world (default: what ε needs)")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="audits at once, with --all (default: one a core)")] = None,
    shadows: Annotated[int, typer.Option(min=2, help="shadow models (run)")] = 25,
    attacked: Annotated[int, typer.Option(min=0, help="models whose members are guessed (run; 0: none)")] = 50,
    pool: Annotated[int, typer.Option(min=10, help="records whose membership is guessed, at most (run)")] = 10_000,
    canaries: Annotated[int, typer.Option(min=10, help="canary records (run)")] = 1000,
    pictures: Annotated[int, typer.Option(min=1, help="pictures to reconstruct (inversion)")] = 6,
    out: Annotated[Path | None, typer.Option(help="picture grid (inversion; default: inversion.png)")] = None,
    model: Annotated[str | None, typer.Option(help=f"(run) {MODEL_HELP}")] = None,
    data: Annotated[list[str] | None, typer.Option(help=f"(run) {DATA_HELP}")] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of everything that is random")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON on stdout")] = False,
) -> None:
    """Attack a mechanism, a run or an upload: a lower bound on ε beside the certified one.

    TARGET is a mechanism by name, a run folder, or a game about what surrounds a release (`sordino audit games` lists
    them).
    """
    import torch

    from sordino.audit.endtoend import Effort
    from sordino.errors import RecipeError

    torch.set_num_threads(1)  # trials run side by side in threads of their own
    run = target is not None and (Path(target) / "private" / "run.json").exists()
    if run and (set_ or mode):
        raise RecipeError(f"{target} is a run with a recipe of its own: leave out --set and --mode")
    if not run and (model or data):
        raise RecipeError("--model and --data are what a run had: name a run folder, or leave them out")
    if everything and (target is not None or set_):
        raise RecipeError("--all audits every mechanism as listed: leave out the target and --set")
    if target is None and not everything and attack is None:
        raise RecipeError("nothing to audit: name a mechanism or a run folder, or give --all")
    named, kind = target or "", _kind(target, run, everything, attack)
    refuse_others(_USED[kind], f"on {_CALLED[kind]}: leave it out")
    if attack == "inversion":
        show_inversion(
            target, set_ or [], mode or "certified", pictures, out or Path("inversion.png"), seed, as_json, model, data
        )
    elif everything:
        _all(mode, trials, jobs, seed, as_json)
    elif run:
        _run(Path(named), Effort(shadows, attacked, pool, canaries), seed, as_json, model, data)
    elif named == "games":
        _list_games(as_json)
    elif named in _game_names():
        _game(named, seed, as_json)
    else:
        _mechanism(named, mode or "certified", set_ or [], trials, seed, as_json)


_USED: dict[str, tuple[str, ...]] = {
    "inversion": ("target", "attack", "set_", "mode", "pictures", "out", "seed", "model", "data"),
    "all": ("everything", "mode", "trials", "jobs", "seed"),
    "run": ("target", "shadows", "attacked", "pool", "canaries", "seed", "model", "data"),
    "games": ("target",),
    "game": ("target", "seed"),
    "mechanism": ("target", "mode", "set_", "trials", "seed"),
}
"""Options of each kind of audit."""
_CALLED = {
    "inversion": "gradient inversion, which attacks one upload",
    "all": "--all, which attacks releases and plays games",
    "run": "the audit of a run",
    "games": "the list of games",
    "game": "a game, which has settings of its own",
    "mechanism": "the audit of a mechanism, which attacks its releases (only runs and uploads have more)",
}


def _kind(target: str | None, run: bool, everything: bool, attack: str | None) -> str:
    if attack is not None or everything:
        return attack or "all"
    if run or target == "games":
        return "run" if run else "games"
    return "game" if target in _game_names() else "mechanism"


def _mechanism(
    name: str, mode: Literal["certified", "faithful"], settings: Sequence[str], trials: int | None, seed: int, js: bool
) -> None:
    from sordino.audit.cases import case_for
    from sordino.cli.progress import Bar
    from sordino.errors import RecipeError
    from sordino.mechanisms import MECHANISMS

    if name not in MECHANISMS:
        raise RecipeError(
            f"{name!r} is neither a run folder nor a mechanism nor a game: choose one of "
            f"{', '.join((*MECHANISMS, *_game_names()))}"
        )
    with Bar(js, "audit") as progress:
        progress.show(0, _STEPS, f"{name}, {mode}")
        case = case_for(name, mode, settings)
        found = case.audits(trials, seed, told=_share(progress, 0, 1, f"{name}, {mode}"))
    _tell(found, js)


def _game(name: str, seed: int, js: bool) -> None:
    from sordino.audit.games import GAMES
    from sordino.cli.progress import Bar

    with Bar(js, "audit") as progress:
        progress.show(0, _STEPS, name)
        found = GAMES[name].play(seed, _share(progress, 0, 1, name))
    _tell(found, js)


def _all(mode: str | None, trials: int | None, jobs: int | None, seed: int, js: bool) -> None:
    from sordino.audit.every import planned, play_every
    from sordino.cli.progress import Bar

    with Bar(js, "audits") as progress:
        listed = play_every(planned(mode), jobs or os.cpu_count() or 1, trials, seed, progress.show)
    found = [finding for findings in listed for finding in findings]
    if js:
        print(strict_json.dumps([finding.to_json() for finding in found], indent=2))
    else:
        _show(found)


_STEPS = 100
"""Parts of a progress bar for each audit."""


def _share(progress: Bar, place: int, total: int, words: str) -> Callable[[int, int], None]:
    """Returns a watcher that draws one audit's part of a bar."""
    return lambda done, of: progress.show(place * _STEPS + done * _STEPS // max(1, of), total * _STEPS, words)


def _game_names() -> list[str]:
    from sordino.audit.games import GAMES

    return list(GAMES)


def _list_games(js: bool) -> None:
    from sordino.audit.games import GAMES

    if js:
        print(strict_json.dumps({name: game.question for name, game in GAMES.items()}, indent=2, ensure_ascii=False))
        return
    table = Table("game", "question", box=SIMPLE_HEAD, pad_edge=False)
    for name, game in GAMES.items():
        table.add_row(name, game.question)
    terminal(highlight=False).print(table)


def _tell(found: Sequence[Finding], js: bool) -> None:
    """Prints the findings of one target: as JSON the worst, with all of them inside."""
    if not js:
        _show(found)
        return
    worst = max(found, key=lambda finding: (finding.verdict == "violated", finding.lower_bound))
    print(strict_json.dumps(worst.to_json() | {"findings": [finding.to_json() for finding in found]}, indent=2))


def _show(found: Sequence[Finding]) -> None:
    names = ("mechanism", "from whom", "claimed", "certified", "at least", "fit", "verdict")
    table = Table(*names, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    for column in table.columns:
        column.no_wrap = True  # all of it fits 80 columns
    for one in found:
        good = one.verdict == "consistent"
        table.add_row(
            f"{one.game or one.mechanism}\n[dim]{one.mechanism if one.game else one.mode}[/]",
            f"{one.observer}\n[dim]{one.rounds} round{'s' * (one.rounds > 1)}\n{one.adjacency}[/]",
            _number(one.claimed, "–"),
            _number(one.certified, "∞"),
            f"{one.lower_bound:.3g}",
            _number(one.gaussian_fit, "–"),
            f"[{'green' if good else 'red'}]{one.verdict}[/]",
        )
    console = terminal(highlight=False)
    console.print(table)
    console.print(
        "[dim]ε at the recipe's δ. `at least` holds with 95 % confidence, whatever the mechanism does "
        "(Clopper–Pearson); `fit` is tighter, and holds if releases are Gaussian, as they are certified to be.[/]"
    )
    for one in found:
        about = one.game or f"{one.mechanism}, {one.mode}"
        console.print(f"[dim]{about}, {one.observer}: {escape(one.attack)}; {one.test};[/]", end="")
        console.print(f"[dim] {one.trials:,} trials of each world in {one.seconds:.1f} s.[/]")
        if one.explanation:
            console.print(escape(one.explanation))


def _number(value: float | None, missing: str) -> str:
    return missing if value is None else f"{value:.4g}"


def _run(path: Path, effort: Effort, seed: int, js: bool, model: str | None, data: list[str] | None) -> None:
    from sordino.audit.endtoend import audit_run
    from sordino.cli.progress import Bar
    from sordino.runs.folder import RunFolder

    given = own_model(model), None if not data else data_again(data, RunFolder(path).recipe())
    with Bar(js) as progress:
        found = audit_run(path, effort, seed, progress.show, *given).to_json()
    if js:
        print(strict_json.dumps(found, indent=2))
        return
    console, table = terminal(highlight=False), Table("attack", "what it found", box=SIMPLE_HEAD, pad_edge=False)
    for name, one in (found["canary_clients"] or {}).items():
        words = f"ε ≥ {one['lower_bound']:.3g}: {one['right']} of {one['guessed']} guesses right"
        table.add_row(f"canary clients, {name.replace('_', ' ')}", f"{words} (estimate {one['estimate']:.3g})")
    for name, one in found["canary_records"].items():
        words = f"ε ≥ {one['lower_bound']:.3g}: {one['right']} of {one['guessed']} guesses right"
        table.add_row(f"canary records, {name.replace('_', ' ')}", words)
    if found["membership"]:
        _membership(table, found["membership"])
    console.print(table)
    promised = f"certified ε {_number(found['certified'], '∞')}, claimed {_number(found['claimed'], '–')}"
    console.print(
        f"{promised}: [bold]{found['verdict']}[/]. {found['words'].capitalize()}. See {path / 'private' / 'audit'}."
    )
    if found["published"]:
        shown = found["published"]
        words = f"ε ≥ {shown['lower_bound']:.3g} against the {shown['observer']}, without the clients' records"
        console.print(f"[dim]Published beside the certificate: {words} ({path / 'public' / 'audit.json'}).[/]")


def _membership(table: Table, found: dict[str, Any]) -> None:
    models = f"{found['shadow_models']} shadow models, {found['trials']} trials"
    table.add_row("membership inference", f"{found['success_rate']:.1%} right ({models})")
    lira = found["lira"]
    words = f"{lira['tpr_at_fpr_0.001']:.2%} of members at 0.1 % false alarms, area {lira['area']:.3f}"
    table.add_row("LiRA", words)
