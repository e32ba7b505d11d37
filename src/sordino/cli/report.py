"""`sordino report`: one page for one run, or one page that compares several; for everybody, or for whoever ran it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.own import DATA_HELP, data_again
from sordino.cli.shown import shown, terminal


def report(
    runs: Annotated[list[Path], typer.Argument(help="run folders: one for its report, several to compare them")],
    out: Annotated[
        Path | None, typer.Option(help="file to write (default: report.html in the run; several: comparison.html)")
    ] = None,
    images: Annotated[bool, typer.Option(help="save every plot as SVG and PNG too")] = True,
    private: Annotated[
        bool, typer.Option("--private", help="show private numbers too; the page is then not for others")
    ] = False,
    data: Annotated[list[str] | None, typer.Option(help=f"(--private, one run) {DATA_HELP}")] = None,
) -> None:
    """Show runs on one self-contained page: certificate, curves, and every plot as a picture.

    RUNS are run folders: one for its report, several to compare them. The page is public: it is made from what was
    released. With --private it also shows cohorts, clipping, costs by client and scores on private records.
    """
    from contextlib import nullcontext

    from sordino.errors import RecipeError
    from sordino.files import for_owner_only
    from sordino.report import compared, page
    from sordino.report.reading import read_all
    from sordino.runs.folder import RunFolder

    if out is not None and not out.name:
        raise RecipeError("--out names no file: write the name of the page, such as report.html")
    if data is not None and (not private or len(runs) > 1):
        raise RecipeError(
            "--data is for the private page of one run, which shows who holds which labels: add --private"
        )
    runs = [_whole(run) for run in runs]
    given = data_again(data, RunFolder(runs[0]).recipe()) if data else None
    views = read_all(runs, public=not private, given=given)
    with for_owner_only() if private else nullcontext():
        if len(views) == 1:
            folder = RunFolder(runs[0])
            target = out or (folder.private if private else folder.public) / "report.html"
            files = page.write(views[0], target, _beside(target) if images else None)
        else:
            target = out or Path("comparison.html")
            files = compared.write(views, target, _beside(target) if images else None)
    pictures = f" and {len(files) - 1} pictures in {_beside(target)}" if images else ""
    told = "a private page: keep it" if private else "a public page: --private makes one with everything"
    terminal(soft_wrap=True).print(f"[bold]{shown(target)}[/]{shown(pictures)} ({told})", highlight=False)


def _whole(run: Path) -> Path:
    """Returns the run folder where its public part is named, which is all that others have."""
    part = run.resolve()
    return part.parent if part.name == "public" and (part / "recipe.toml").exists() else run


def _beside(target: Path) -> Path:
    return target.with_name(f"{target.stem}-plots")
