"""`sordino federation`: the operator's machine: members, the SuperLink, runs."""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from sordino import strict_json
from sordino.cli.shown import shown, terminal

federation = typer.Typer(help="Operate a federation: several machines, each with its own data.", no_args_is_help=True)

_Folder = Annotated[Path, typer.Argument(help="the federation's folder")]
Named = Annotated[Path, typer.Option("--folder", help="the federation's folder")]
_AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")]
Days = Annotated[int, typer.Option(min=1, max=3650, help="days for which the new registry is good")]


@federation.command()
def init(
    folder: _Folder,
    name: Annotated[str, typer.Option(help="name of the federation")],
    host: Annotated[list[str], typer.Option(help="DNS name or address under which nodes find the server; repeatable")],
    port: Annotated[int, typer.Option(min=1, max=65535, help="port of the SuperLink")] = 9092,
    days: Days = 90,
) -> None:
    """Make a federation: certificate authority, server certificate, signed registry, the Flower app."""
    from sordino.federation.folder import FederationFolder

    made = FederationFolder(folder)
    made.make(name, tuple(host), port, days)
    print(f"made {folder}: {name} at {made.address}")
    print(f"  send to each member  {folder / 'join.json'}  (and perhaps {folder / 'templates' / 'policy.toml'})")
    print(f"  tell them by telephone the operator's key: {made.operator.public.hex()}")
    print(f"  enrol who answers:   sordino federation enrol {folder} application.json")
    print(f"  then send all        {made.registry_file}")
    print(f"  and train:           sordino federation run RECIPE --folder {folder}")


@federation.command()
def enrol(
    folder: _Folder,
    application: Annotated[list[Path], typer.Argument(help="application.json of each new member")],
    days: Days = 90,
) -> None:
    """Take members in, all of them or none: their keys go into the next version of the registry."""
    from sordino.errors import FederationError
    from sordino.federation.folder import FederationFolder

    own, told = FederationFolder(folder), []
    for path in application:
        try:
            told.append(json.loads(path.read_text()))
        except (OSError, ValueError):
            raise FederationError(f"{path} is not an application: ask for what `sordino node init` made") from None
    _new(own.enrol(*told, days=days), own.registry_file)


@federation.command()
def dismiss(
    folder: _Folder, name: Annotated[str, typer.Argument(help="the member that leaves")], days: Days = 90
) -> None:
    """Let a member leave: it is asked no more; what it paid stays in the ledger, its number stays taken."""
    from sordino.federation.folder import FederationFolder

    own = FederationFolder(folder)
    _new(own.dismiss(name, days), own.registry_file)


@federation.command()
def renew(folder: _Folder, days: Days = 90) -> None:
    """Sign the registry again for some time, and make a new TLS certificate for the server."""
    from sordino.federation.folder import FederationFolder

    own = FederationFolder(folder)
    own.renew_server_certificate()
    _new(own.renew(days), own.registry_file)
    print("the server has a new TLS certificate; restart `sordino federation serve`")


def _new(registry: Any, path: Path) -> None:
    until = f"{registry.valid_until:%Y-%m-%d}"
    print(f"registry version {registry.version}: {len(registry.active)} members, good until {until}")
    print(f"  digest of their keys: {registry.digest}")
    print(f"  send to all           {path}")


@federation.command()
def serve(
    folder: _Folder,
    host: Annotated[str, typer.Option(help="address to listen at")] = "0.0.0.0",
) -> None:
    """Run the SuperLink until it is told to end; systemd can start it, and start it again."""
    from sordino.federation.folder import FederationFolder
    from sordino.federation.superlink import arguments

    arguments(FederationFolder(folder), host)
    command = [sys.executable, "-m", "sordino.federation.superlink", str(folder), host]
    os.execv(command[0], command)


@federation.command()
def run(
    recipe: Annotated[
        Path | None, typer.Argument(help="recipe (TOML); left out: resume with the one in the folder")
    ] = None,
    folder: Named = Path("federation"),
    host: Annotated[str, typer.Option(help="address to listen at, if no SuperLink runs yet")] = "0.0.0.0",
    stage_seconds: Annotated[float, typer.Option(min=1, help="how long to wait for an answer without training")] = 60,
    train_seconds: Annotated[float, typer.Option(min=1, help="how long to wait for an answer with training")] = 600,
    gather_seconds: Annotated[float, typer.Option(min=1, help="how long to wait for enough nodes")] = 300,
    least: Annotated[int, typer.Option(min=0, help="members that must be there before a round; 0: over half")] = 0,
    as_json: _AsJson = False,
) -> None:
    """Start a run, or go on with the one in the folder; ends with a model, a certificate and a report."""
    from sordino.cli.federation_view import StatusView
    from sordino.cli.progress import going_on
    from sordino.federation.folder import FederationFolder
    from sordino.federation.operate import Operation

    own = FederationFolder(folder)
    own.put_recipe(recipe)
    config = {"stage-seconds": stage_seconds, "train-seconds": train_seconds, "gather-seconds": gather_seconds}
    config["least-nodes"] = least
    console = terminal(stderr=True)
    console.soft_wrap = not console.is_terminal  # whole lines in a log, and no line cut off on a screen
    with going_on(f"`sordino federation run --folder {folder}`"), StatusView(console, quiet=as_json) as view:
        status = Operation(own, config, view.show, view.say, host).play()
    _ended(own, status, as_json)


def _ended(own: Any, status: Any, as_json: bool) -> None:
    from sordino.account.certificate.document import CertificateDocument
    from sordino.cli.books import certificate
    from sordino.report import page as pages
    from sordino.report.reading import read_all

    run_folder = own.run_dir
    page = run_folder / "public" / "report.html"
    pages.write(read_all([run_folder], public=True)[0], page, None)
    document = CertificateDocument.from_json((run_folder / "public" / "certificate.json").read_text())
    if as_json:
        print(strict_json.dumps({"folder": str(run_folder), "report": str(page)} | status.model_dump()))
        return
    console = terminal()
    console.print(certificate(document))
    console.print(
        f"\nrun folder: {shown(run_folder)} (public/ may be shown to anybody, private/ to nobody)\n"
        f"report: {shown(page)}"
    )


@federation.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="folder for all of it (default: a new one under runs/)")] = None,
    rounds: Annotated[int, typer.Option(min=6, help="rounds")] = 8,
) -> None:
    """Try it on one machine: a SuperLink, eight SuperNodes, one that is killed and one that joins late."""
    from sordino.federation.demo import Demo

    folder = out or Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-federation"
    own, status = Demo(folder, rounds, lambda text: terminal(soft_wrap=True).print(text, highlight=False)).play()
    _ended(own, status, as_json=False)


@federation.command()
def status(
    folder: _Folder,
    as_json: _AsJson = False,
    watch: Annotated[bool, typer.Option("--watch/--once", help="draw it again until the run ends")] = True,
) -> None:
    """Show nodes, rounds, ε so far and who is late."""
    from sordino.cli.federation_view import StatusView, picture
    from sordino.errors import FederationError
    from sordino.federation.folder import FederationFolder
    from sordino.federation.status import FederationStatus

    own = FederationFolder(folder)
    told = FederationStatus.read(own.status_file)
    if told is None:
        raise FederationError(
            f"{own.name} has no run yet: start one by `sordino federation run RECIPE --folder {folder}`"
        )
    if as_json:
        print(told.model_dump_json())
        return
    console = terminal()
    if not watch or not console.is_terminal or told.state in ("stopped", "failed"):
        console.print(picture(told))
        return
    with StatusView(console) as view:
        while told is not None and told.state not in ("stopped", "failed"):
            view.show(told)
            time.sleep(0.5)
            told = FederationStatus.read(own.status_file) or told
        view.show(told)
