"""What docs/audit.md shows: its tables as Markdown on stdout, and its pictures in docs/img/audit.

python benchmarks/audit_page.py table ALL.json        # of `sordino audit --all --json`
python benchmarks/audit_page.py nightly NIGHTLY.json  # of benchmarks/audit_nightly.py --json
python benchmarks/audit_page.py epsilons              # plain Gaussian releases, ε = 0.5 … 8
python benchmarks/audit_page.py roc                   # LiRA without noise, with printed and with certified noise
python benchmarks/audit_page.py games ALL.json        # of the same: the games about what surrounds a release
python benchmarks/audit_page.py farm                  # the bug farm: which audit finds what, and false alarms
python benchmarks/audit_page.py plants                # the review's findings, planted: which game finds what
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from sordino import recipe as recipes
from sordino.audit.endtoend import roc_chart
from sordino.audit.membership import infer
from sordino.audit.scene import stage
from sordino.audit.whitebox import audit, guarantees
from sordino.charts import Axis, Chart, Series
from sordino.recipe import Recipe
from sordino.report import static
from sordino.runs.setup import assemble, load

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "img" / "audit"
OVERFIT = (
    "partition.clients=10",
    "model.name=mlp",
    "model.hidden=[64]",
    "train.learning_rate=0.3",
    "train.steps=20",
    "server.learning_rate=1",
    "run.rounds=30",
)
ROC = {
    "no noise (fedavg)": ("mechanism.name=fedavg",),
    "geometric, printed ε = 10": (
        "mechanism.name=geometric",
        "mechanism.mode=faithful",
        "mechanism.clip_norm=5",
        "budget.epsilon=10",
        "budget.delta=0.001",
    ),
    "geometric, certified ε = 10": (
        "mechanism.name=geometric",
        "mechanism.unit=record",
        "mechanism.trust=distributed",
        "server.learning_rate=4",
        "budget.epsilon=10",
        "budget.delta=0.001",
    ),
}
SHADOWS, TRIALS = 25, 10


def row(*cells: object) -> str:
    """Returns a row of a Markdown table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def head(*names: str) -> Iterator[str]:
    """Yields the head of a table; names that begin with a blank are of columns of numbers."""
    yield row(*(name.strip() for name in names))
    yield row(*("---:" if name.startswith(" ") else "---" for name in names))


def number(value: float | None, missing: str) -> str:
    """Returns a number to three decimals at most."""
    return missing if value is None else f"{value:,.0f}" if value >= 1e4 else f"{value:.4g}"


def table(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yields the table of `--all`."""
    names = (" claimed ε", " certified ε", " at least (95 %)", " Gaussian fit", "verdict", " trials")
    yield from head("mechanism", "mode", "settings", "unit, observer, adjacency", *names)
    found = [one for one in found if not one["game"]]
    for one in found:
        settings = " ".join(f"`{setting.split('.', 1)[1]}`" for setting in one["settings"]) or "–"
        promise = f"{one['unit']}, {one['observer']}, {one['adjacency']}"
        verdict = f"**violated** ({one['against']})" if one["verdict"] == "violated" else "consistent"
        numbers = (number(one["claimed"], "–"), number(one["certified"], "∞"), f"{one['lower_bound']:.3f}")
        fit = number(one["gaussian_fit"], "–")
        yield row(one["mechanism"], one["mode"], settings, promise, *numbers, fit, verdict, f"{one['trials']:,}")
    static.save(_beside("all", "Every audit of sordino audit --all", found), PICTURES, ("svg",))


def games(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yields the table of the games."""
    yield from head(
        "game", "observer, adjacency", "attack", " certified ε", " at least (95 %)", "verdict", " trials", " s"
    )
    for one in found:
        if one["game"]:
            numbers = number(one["certified"], "∞"), f"{one['lower_bound']:.3f}", one["verdict"], f"{one['trials']:,}"
            promise = f"{one['observer']}, {one['adjacency']}"
            yield row(one["game"], promise, one["attack"], *numbers, f"{one['seconds']:.1f}")


def nightly(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yields what many audits with different seeds and parameters came to, by mechanism."""
    yield from head("mechanism", " audits", " greatest lower bound ÷ certified", " bounds above", " alarms")
    names = list(dict.fromkeys(one["mechanism"] for one in found))
    for name in [*names, "all"]:
        mine = [one for one in found if name in (one["mechanism"], "all")]
        shares = [one["lower_bound"] / one["certified"] for one in mine]
        alarms = sum(one["verdict"] == "violated" for one in mine)
        yield row(name, len(mine), f"{max(shares):.3f}", sum(share > 1 for share in shares), alarms)
    static.save(_beside("nightly", f"{len(found)} audits of certified mechanisms", found), PICTURES, ("svg",))


def _beside(key: str, title: str, found: list[dict[str, Any]]) -> Chart:
    """Returns lower bounds over what was promised: certified, or a paper's claim."""
    series = []
    for color, (label, field, mode) in enumerate(
        [("certified", "certified", "certified"), ("printed", "claimed", "faithful")]
    ):
        points = [(one[field], one["lower_bound"]) for one in found if one["mode"] == mode and one[field]]
        if points:
            x, y = zip(*points, strict=True)
            series.append(Series(label, x, [max(0.01, value) for value in y], "dots", color))
    low, high = 0.3, 20.0
    line = Series("equal", [low, high], [low, high], color=len(series), dashed=True)
    note = "Below the dashed line an audit found no more than was promised; what found nothing is drawn at 0.01."
    x_axis = Axis("promised ε", log=True, range=(low, high))
    return Chart(key, title, note, x_axis, Axis("lower bound on ε", log=True, range=(0.1, high)), (*series, line))


def epsilons() -> Iterator[str]:
    """Yields how much of ε an audit finds for plain Gaussian releases."""
    yield from head("mechanism", " certified ε", " at least (95 %)", " share", " Gaussian fit", " trials", " s")
    for name in ("fed_ldp", "dp_fedavg"):
        for epsilon in (0.5, 1, 2, 4, 8):
            scene = stage(name, settings=(f"budget.epsilon={epsilon}",))
            found = audit(scene, guarantees(scene)[0])
            assert found.certified is not None
            share = f"{found.lower_bound / found.certified:.3f}"
            numbers = f"{found.certified:.3f}", f"{found.lower_bound:.3f}", share, number(found.gaussian_fit, "–")
            yield row(name, *numbers, f"{found.trials:,}", f"{found.seconds:.1f}")


def roc() -> Iterator[str]:
    """Yields how well LiRA does on models that learn by heart, and draws the curves."""
    names = ("training", " accuracy on test", " right answers", " area", " TPR at 0.1 % FPR", " TPR at 1 % FPR")
    yield from head(*names)
    curves = {}
    for name, settings in ROC.items():
        recipe = Recipe.load(None, [*OVERFIT, *settings])
        federation = load(recipe)
        found = infer(recipe, federation, SHADOWS, TRIALS, 10_000, recipe.run.rounds, 0)
        accuracy = _accuracy(recipe)
        curves[name], told = found.curve, found.to_json()
        lira = told["lira"]
        yield row(
            name, f"{accuracy:.1%}", f"{told['success_rate']:.1%}", f"{lira['area']:.3f}",
            f"{lira['tpr_at_fpr_0.001']:.2%}", f"{lira['tpr_at_fpr_0.01']:.2%}",
        )  # fmt: skip
    static.save(roc_chart(curves), PICTURES, ("svg",))


def _accuracy(recipe: recipes.Recipe) -> float:
    from sordino.audit.replay import replay

    federation = load(recipe)
    return assemble(recipe, None, federation).evaluate(replay(recipe, federation, 0).last)[1] or 0.0


def remembers() -> Iterator[str]:
    """Yields loss and accuracy of Table III's network, trained without noise, on its own images and on others."""
    from papers.experiment_runner import UNBOUND, recipe_of
    from papers.yuan import MLP

    from sordino.audit.replay import replay

    recipe = recipe_of([*MLP, "mechanism.name=fedavg", UNBOUND, "run.rounds=30"])
    federation = load(recipe)
    cast, weights = assemble(recipe, None, federation), replay(recipe, federation, 0).last
    yield from head("images", " loss", " accuracy")
    own = cast.trainer.evaluate(weights, federation.train_x, federation.train_y)
    for name, (loss, accuracy) in {"training": own, "test": cast.evaluate(weights)}.items():
        yield row(name, f"{loss:.3f}", f"{accuracy:.1%}")


def farm() -> Iterator[str]:
    """Yields what was planted, by what it was found, and how often clean code was suspected."""
    sys.path.insert(0, str(ROOT / "tests"))
    from bugfarm.bugs import BUGS
    from bugfarm.laws import LAWS

    began, alarms, seeds = time.perf_counter(), 0, 3
    yield from head("planted bug", "in", "found by", " certified ε", " at least", "whole curve broken")
    for bug in BUGS:
        scene = bug.planted()
        found = audit(scene, bug.promise(scene), bug.trials, seed=1)
        by = f"audit ({found.test})" if found.verdict == "violated" else "**not found**"
        numbers = number(found.certified, "∞"), f"{found.lower_bound:.3f}"
        yield row(bug.story, f"{bug.mechanism}, {bug.part}", by, *numbers, "yes" if found.curve_broken else "no")
        clean = bug.clean()
        for seed in range(1, seeds + 1):
            alarms += audit(clean, bug.promise(clean), bug.trials, seed=seed).verdict == "violated"
    for law in LAWS:
        alarms += not law.holds()
        by = f"law: {law.holds.__name__.replace('_', ' ')}" if law.found() else "**not found**"
        yield row(law.story, "–", by, "–", "–", "–")
    count = seeds * len(BUGS)
    seconds = time.perf_counter() - began
    yield f"\n{alarms} false alarms in {count} audits and {len(LAWS)} laws on clean code ({seconds:.0f} s)."


def plants() -> Iterator[str]:
    """Yields the findings of the review, planted one at a time, and what the game for each found."""
    sys.path.insert(0, str(ROOT / "tests"))
    import pytest

    from bugfarm.plants import PLANTS
    from sordino.audit import forgetting
    from sordino.audit.games import GAMES

    scene = stage("fed_ldp", settings=forgetting.SETTINGS[1:])
    attained = audit(scene, guarantees(scene)[0], forgetting.TRIALS, 1)
    yield from head("finding", "planted bug", "game", " certified ε", " at least (95 %)", "verdict")
    for plant in PLANTS:
        with pytest.MonkeyPatch.context() as patch:
            plant.plant(patch)
            if plant.forgery:
                found = forgetting.judged(attained, plant.forgery, forgetting.FORGERIES[plant.forgery])
            else:
                (found,) = GAMES[plant.game].play(1)
        numbers = number(found.certified, "∞"), f"{found.lower_bound:.3f}", found.verdict
        yield row(plant.finding, plant.story, plant.game, *numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["table", "games", "nightly", "epsilons", "roc", "remembers", "farm", "plants"])
    parser.add_argument("file", type=Path, nargs="?")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    told = {"table": table, "games": games, "nightly": nightly}
    plain = {"epsilons": epsilons, "roc": roc, "remembers": remembers, "farm": farm, "plants": plants}
    part = arguments.part
    for line in told[part](json.loads(arguments.file.read_text())) if part in told else plain[part]():
        print(line, flush=True)


if __name__ == "__main__":
    main()
