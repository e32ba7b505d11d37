"""`sordino audit --attack inversion`: pictures from a client's upload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from sordino import strict_json
from sordino.cli.own import data_again, own_model
from sordino.cli.shown import terminal


def show_inversion(
    target: str | None,
    settings: Sequence[str],
    mode: str,
    pictures: int,
    out: Path,
    seed: int,
    js: bool,
    model: str | None,
    data: list[str] | None,
) -> None:
    """Attacks uploads of a run or of a mechanism, and shows how like the pictures are that come out."""
    from sordino.audit.inversion import invert, picture, summary
    from sordino.recipe import Recipe
    from sordino.runs.folder import RunFolder
    from sordino.runs.setup import load
    from sordino.runs.subject import recall, refuse_own_mechanism

    run = RunFolder(Path(target)) if target is not None and RunFolder(Path(target)).begun else None
    if run is not None:
        refuse_own_mechanism(run, "the audit")
        subject = recall(run, own_model(model), data_again(data, run.recipe()))
        recipe, found = subject.recipe, invert(subject.recipe, subject.federation, pictures, seed, subject.model)
    else:
        named = [] if target is None else [f"mechanism.name={target}", f"mechanism.mode={mode}"]
        recipe = Recipe.load(None, [*named, *settings])
        found = invert(recipe, load(recipe), pictures, seed)
    path, quality = picture(found, recipe.mechanism.name, out), summary(found)
    if js:
        print(
            strict_json.dumps({"mechanism": recipe.mechanism.name, "picture": str(path), "quality": quality}, indent=2)
        )
        return
    table = Table("attack", "upload", "PSNR (dB)", "SSIM", box=SIMPLE_HEAD, pad_edge=False)
    for name, one in quality.items():
        attack, what = name.split("/")
        shown = {"dlg": "DLG", "idlg": "iDLG"}[attack]
        table.add_row(shown, f"{what} {recipe.mechanism.name}", f"{one['psnr']:.1f}", f"{one['ssim']:.3f}")
    terminal(highlight=False).print(table)
    print(f"pictures: {path}")
