"""`sordino report`: one page for one run, or one page that compares several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def report(
    runs: Annotated[list[Path], typer.Argument(help="run folders: one for its report, several to compare them")],
    out: Annotated[
        Path | None, typer.Option(help="file to write (default: RUN/report.html; several: comparison.html)")
    ] = None,
    images: Annotated[bool, typer.Option(help="save every plot as SVG and PNG too")] = True,
) -> None:
    """Show runs on one self-contained page: certificate, curves, costs, and every plot as a picture.

    RUNS are run folders: one for its report, several to compare them.
    """
    from sordino.errors import RecipeError
    from sordino.report import compared, page
    from sordino.report.reading import read_all

    if out is not None and not out.name:
        raise RecipeError("--out names no file: write the name of the page, such as report.html")
    views = read_all(runs)
    if len(views) == 1:
        target = out or runs[0] / "report.html"
        files = page.write(views[0], target, _beside(target) if images else None)
    else:
        target = out or Path("comparison.html")
        files = compared.write(views, target, _beside(target) if images else None)
    pictures = f" and {len(files) - 1} pictures in {_beside(target)}" if images else ""
    Console(soft_wrap=True).print(f"[bold]{target}[/]{pictures}", highlight=False)


def _beside(target: Path) -> Path:
    return target.with_name(f"{target.stem}-plots")
