"""Every experiment runs from end to end, quick and full, on runs that are made up: only the training is left out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from papers.catalogue import EXPERIMENTS
from papers.experiment import ExperimentResult
from papers.experiment_runner import ExperimentRunner, SeedRuns

from papers import baek, experiment_runner, fed_cad, record, yuan_others
from sordino.charts import Chart
from sordino.recipe import Recipe
from sordino.report import static
from sordino.report.reading import RunView

FIGURES = {
    "baek": ["table2", *(f"fig{n}" for n in range(1, 6)), "fig4-relative", "algorithm3", "propositions"],
    "xue": ["fig2", "fig3", *(f"fig{n}{part}" for n in (4, 5) for part in "abcd"), "learning", "lemmas", "theorems"],
    "adpfl": ["fig4", "fig4-median", "fig4-speed", "table2", "fig5", "fig6", "definition4"],
    "cad": [*(f"fig{n}" for n in range(1, 7)), "fig3-growth", "theorems"],
    "yuan": [
        *("table2", "fig2-laplace", "table3", "table3-overfitting", "curves", "theorems", "theorem3"),
        *(f"fig{n}" for n in range(2, 11)),
    ],
}
READ = [
    "baek-fig1",
    "baek-fig4",
    "xue-fig3",
    "adpfl-table2",
    "cad-fig3",
    "cad-fig6",
    "yuan-table2",
    "yuan-fig7",
    "yuan-fig8",
]
"""Tables and figures whose verdict hangs on an open choice."""
IDS = [f"{paper}-{name}" for paper, names in FIGURES.items() for name in names] + [f"{id_}-readings" for id_ in READ]


class Imagined(ExperimentRunner):
    """Checks every recipe, and makes up what its run would have left behind."""

    def play(self, plans: Mapping[str, Sequence[str]]) -> dict[str, SeedRuns]:
        return {name: SeedRuns((imagine(experiment_runner.recipe_of(settings)),)) for name, settings in plans.items()}


def imagine(recipe: Recipe) -> RunView:
    draw = np.random.default_rng(int.from_bytes(hashlib.blake2b(recipe.to_toml().encode(), digest_size=4).digest()))
    accuracy = draw.random(recipe.run.rounds)
    rounds = tuple(
        {
            "round": place + 1,
            "accuracy": float(value),
            "loss": float(1 - value),
            "survivors": 40,
            "noise_stddev": 0.025,
            "knobs": {"noise_multiplier": 0.7 ** (place // 3), "last_round": 30.0},
        }
        for place, value in enumerate(accuracy)
    )
    view = RunView(Path("imagined"), recipe, {}, rounds, ())
    fives = np.sort(draw.normal(size=(len(rounds), 8, 5)))
    view.__dict__["notes"] = {"original": fives, "truncated": fives * 0.99, "round": np.arange(1, len(rounds) + 1)}
    return view


def imagine_model(runs: SeedRuns, seed: int) -> list[np.ndarray]:
    draw = np.random.default_rng(int(1e9 * runs.views[seed].rounds[0]["accuracy"]))
    return [draw.normal(size=10), draw.normal(size=(10, 64))]


def test_every_table_and_figure_that_states_numbers_has_an_id() -> None:
    assert sorted(EXPERIMENTS) == sorted(IDS)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("id_", IDS)
def test_an_experiment_is_made_of_valid_recipes_and_gives_verdicts(
    id_: str, quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = EXPERIMENTS[id_]
    if experiment.kind == "exact" and quick:
        pytest.skip("exact experiments have one size")
    attacked = {"success_rate": 0.5, "success_stddev": 0.01, "lira": {"area": 0.5, "tpr_at_fpr_0.001": 0.001}}
    monkeypatch.setattr(yuan_others, "_attacked", lambda runner, settings: attacked)
    monkeypatch.setattr(SeedRuns, "last_model", imagine_model)
    monkeypatch.setattr(fed_cad, "distances", lambda settings, rounds: [(0.2, 0.1, 0.3)] * 2 + [(0.1, 0.0, 0.2)])
    found = experiment.find(Imagined(tmp_path, quick, seeds=1))
    assert found.lines
    lines = [experiment.explained(line, quick) for line in found.lines]
    assert all(line.why for line in lines if line.status in ("differs", "not reproducible as printed"))
    assert len({chart.key for chart in found.charts}) == len(found.charts)
    assert all(chart.key.startswith((id_, "cad-variance")) for chart in found.charts)
    if quick and found.charts:
        assert static.save(found.charts[0], tmp_path, ("svg",))[0].stat().st_size > 1000


@pytest.mark.parametrize(
    ("id_", "cifar", "other"),
    [
        ("yuan-fig8", "cifar10", "fashion-mnist"),
        ("yuan-fig10", "cifar10", "fashion-mnist"),
        ("adpfl-table2", "cifar-10", "-mnist"),
        ("adpfl-fig4", "cifar-10", "-mnist"),
    ],
)
def test_cifar_can_stay_quick_where_the_other_data_are_full(id_: str, cifar: str, other: str, tmp_path: Path) -> None:
    find = EXPERIMENTS[id_].find
    quick, full = find(Imagined(tmp_path, True)), find(Imagined(tmp_path, False))
    mixed = find(Imagined(tmp_path, False, quick_cifar=True))
    assert (quick.short, full.short, mixed.short) == ((), (), ("CIFAR-10",))
    assert charts(mixed, cifar) == charts(quick, cifar) != charts(full, cifar)
    assert charts(mixed, other) == charts(full, other) != charts(quick, other)


def charts(found: ExperimentResult, data: str) -> list[Chart]:
    return [chart for chart in found.charts if data in chart.key]


def test_a_figure_on_cifar_alone_is_quick_then(tmp_path: Path) -> None:
    kept = record.run(EXPERIMENTS["xue-fig4c"], Imagined(tmp_path, False, quick_cifar=True), tmp_path)
    assert (kept.scale, kept.short) == ("quick", ())


def test_what_a_paper_leaves_out_is_said() -> None:
    assert all(experiment.choices for experiment in EXPERIMENTS.values() if experiment.kind == "training")


@pytest.mark.parametrize(
    ("id_", "said", "unsaid"),
    [
        ("yuan-fig4", ("ε ≥ 20", "M* as ε rises"), ()),
        ("yuan-fig9", ("ε ≥ 50", "without noise", "with noise"), ("M* as ε rises",)),
        ("yuan-fig10", ("CIFAR-10: M* as ε rises",), ("CIFAR-10: ε ≥ 20", "CIFAR-10: ε ≥ 50")),
    ],
)
def test_each_figure_is_judged_by_what_is_said_of_it(
    id_: str, said: tuple[str, ...], unsaid: tuple[str, ...], tmp_path: Path
) -> None:
    told = {line.quantity for line in EXPERIMENTS[id_].find(Imagined(tmp_path, quick=False)).lines}
    assert told.issuperset(said) and told.isdisjoint(unsaid)


@pytest.mark.parametrize(("name", "clipped"), [("fedavg", False), ("dp_fedavg", True)])
def test_training_that_diverges_is_told_so(name: str, clipped: bool) -> None:
    view = imagine(experiment_runner.recipe_of([f"mechanism.name={name}", "run.rounds=3"]))
    assert baek.diverged(SeedRuns((view,))) == ""
    lost = replace(view, rounds=(*view.rounds[:-1], {**view.rounds[-1], "loss": float("nan")}))
    told = baek.diverged(SeedRuns((lost,)))
    assert told.startswith("diverges") and ("nothing is clipped" in told) != clipped
