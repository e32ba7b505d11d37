"""Every experiment runs from end to end, quick and full, on runs that are made up: only the training is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from papers.catalogue import EXPERIMENTS
from papers.experiment import ExperimentResult
from papers.experiment_runner import ExperimentRun, SeedRuns, recipe_of
from papers.planning import PlanningRunner, imagined
from papers.tasks import by_round

from papers import baek, record
from sordino.charts import Chart
from sordino.report import static

FIGURES = {
    "baek": [
        "table2",
        *(f"fig{n}" for n in range(1, 6)),
        "fig1-dropout",
        "fig4-relative",
        "algorithm3",
        "propositions",
    ],
    "xue": ["fig2", "fig3", *(f"fig{n}{part}" for n in (4, 5) for part in "abcd"), "learning", "lemmas", "theorems"],
    "adpfl": ["fig4", "fig4-median", "fig4-speed", "table2", "fig5", "fig6", "definition4", "refusal"],
    "cad": [*(f"fig{n}" for n in range(1, 7)), "fig3-growth", "learning", "theorems"],
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


def test_every_table_and_figure_that_states_numbers_has_an_id() -> None:
    assert sorted(EXPERIMENTS) == sorted(IDS)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("id_", IDS)
def test_an_experiment_is_made_of_valid_recipes_and_gives_verdicts(id_: str, quick: bool, tmp_path: Path) -> None:
    experiment = EXPERIMENTS[id_]
    if experiment.kind == "exact" and quick:
        pytest.skip("exact experiments have one size")
    found = experiment.find(PlanningRunner(tmp_path, quick, seeds=1))
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
    quick, full = find(PlanningRunner(tmp_path, True)), find(PlanningRunner(tmp_path, False))
    mixed = find(PlanningRunner(tmp_path, False, quick_cifar=True))
    assert (quick.short, full.short, mixed.short) == ((), (), ("CIFAR-10",))
    assert charts(mixed, cifar) == charts(quick, cifar) != charts(full, cifar)
    assert charts(mixed, other) == charts(full, other) != charts(quick, other)


def charts(found: ExperimentResult, data: str) -> list[Chart]:
    return [chart for chart in found.charts if data in chart.key]


def test_a_figure_on_cifar_alone_is_quick_then(tmp_path: Path) -> None:
    kept = record.run(EXPERIMENTS["xue-fig4c"], PlanningRunner(tmp_path, False, quick_cifar=True), tmp_path)
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
    told = {line.quantity for line in EXPERIMENTS[id_].find(PlanningRunner(tmp_path, quick=False)).lines}
    assert told.issuperset(said) and told.isdisjoint(unsaid)


@pytest.mark.parametrize(("name", "clipped"), [("fedavg", False), ("dp_fedavg", True)])
def test_training_that_diverges_is_told_so(name: str, clipped: bool) -> None:
    recipe = recipe_of([f"mechanism.name={name}", "run.rounds=3"])
    view = ExperimentRun(recipe, by_round(imagined(recipe)))
    assert baek.diverged(SeedRuns((view,))) == ""
    lost = replace(view, rounds=(*view.rounds[:-1], {**view.rounds[-1], "loss": float("nan")}))
    told = baek.diverged(SeedRuns((lost,)))
    assert told.startswith("diverges") and ("nothing is clipped" in told) != clipped
