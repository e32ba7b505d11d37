"""Estimators for scikit-learn: its own checks, what must be declared, and what is certified."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from sordino.account.certificate.check import check
from sordino.account.ledger.ledger import Ledger
from sordino.advise.by_features import settled
from sordino.data.public import PublicCounts
from sordino.errors import BudgetExceeded, DataError, RecipeError, SordinoError, SordinoWarning
from sordino.estimators import fitting
from sordino.recipe import Recipe
from sordino.runs.run import run
from sordino.sklearn import PrivateClassifier, PrivateRegressor, Undeclared

pytestmark = pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
"""ε is large and data are few here, which a run says."""

CHECKED = {"records": "observed", "feature_ranges": (-10.0, 10.0), "outside": "clip", "rounds": 2, "epsilon": 50.0}


@parametrize_with_checks(
    [
        PrivateClassifier(classes="observed", random_state=0, **CHECKED),
        PrivateRegressor(target_range=(-100.0, 100.0), random_state=0, **CHECKED),
    ]
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def tumours() -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Ten means of each of 569 tumours, and whether it is benign, in words."""
    data = load_breast_cancer()
    return data.data[:, :10], np.array(["malignant", "benign"])[data.target]


RANGES = [(0, 40), (0, 50), (0, 250), (0, 3000), (0, 0.3), (0, 0.5), (0, 0.6), (0, 0.3), (0, 0.4), (0, 0.2)]
"""What a radiologist would call possible."""


def classifier(**changed: Any) -> PrivateClassifier:
    told = {"classes": ["benign", "malignant"], "records": 569, "feature_ranges": RANGES, "random_state": 0}
    return PrivateClassifier(**{**told, "epsilon": 4.0, "rounds": 20, **changed})


def test_it_learns_under_its_budget_and_says_so(tumours: Any) -> None:
    model = classifier().fit(*tumours)
    assert model.score(*tumours) > 0.8
    entry = model.certificate_.entry("record", "outsider")
    assert entry.status == "certified" and entry.epsilon == pytest.approx(4.0, abs=1e-3) and entry.epsilon <= 4.0
    assert entry.adjacency == "add_remove" and model.n_iter_ == 20
    odds = model.predict_proba(tumours[0])
    assert odds.shape == (569, 2) and np.allclose(odds.sum(1), 1)
    assert np.array_equal(model.classes_[odds.argmax(1)], model.predict(tumours[0]))


def test_with_features_the_defaults_are_a_recipes(tumours: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One set of defaults: what is left open is what a recipe gets that declares the same."""
    seen: list[Recipe] = []

    def noted(recipe: Recipe, **given: Any) -> Any:
        seen.append(recipe)
        if len(seen) > 1:
            raise KeyboardInterrupt  # the first alone is played
        return run(recipe, **given)

    monkeypatch.setattr(fitting, "run", noted)
    model = classifier(features="random", rounds=None).fit(*tumours)
    declared = PublicCounts(1, 569, 2)
    tree = {"data": {"features": "random"}, "mechanism": {"name": "dp_sgd", "trust": "central"}}
    recipe = settled(Recipe.from_dict({**tree, "budget": {"epsilon": 4.0}}), declared, (10,)).recipe
    assert seen[0].server == recipe.server and recipe.server.path is not None
    assert seen[0].mechanism == recipe.mechanism and seen[0].opening == recipe.opening
    assert model.n_iter_ == recipe.run.rounds == 40
    assert not any(name.endswith("bias") for name, _ in model.model_.named_parameters())
    assert model.score(*tumours) > 0.8
    assert np.allclose(model.predict_proba(tumours[0][:3]), model.predict_proba(tumours[0])[:3])
    with pytest.raises(KeyboardInterrupt):
        classifier(features="random", rounds=7, learning_rate=3.0).fit(*tumours)
    assert seen[1].server.learning_rate == 3.0 and seen[1].server.path is None and seen[1].run.rounds == 7
    with pytest.raises(KeyboardInterrupt):
        classifier(rounds=None).fit(*tumours)
    assert seen[2].run.rounds == 40 and seen[2].server.path is None and seen[2].model.bias
    with pytest.raises(Undeclared, match="features is 'scattering'"):
        classifier(features="scattering").fit(*tumours)


def test_the_document_can_be_checked_by_itself(tumours: Any, tmp_path: Path) -> None:
    model = classifier(rounds=2).fit(*tumours)
    (tmp_path / "certificate.json").write_text(model.document_.to_json())
    assert any("record against the outsider" in sentence for sentence in check(tmp_path / "certificate.json"))


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("feature_ranges", "feature_ranges is missing"),
        ("classes", "classes is missing"),
        ("records", "records is missing: declare how many are expected .*569"),
    ],
)
def test_nothing_is_taken_from_the_data_in_silence(missing: str, sentence: str, tumours: Any) -> None:
    with pytest.raises(Undeclared, match=sentence):
        classifier(**{missing: None}).fit(*tumours)


def test_the_data_shape_nothing_but_what_was_released(tumours: Any) -> None:
    """Two data sets under one declaration have the same classes, noise and scaling, whatever values they hold."""
    X, y = tumours
    one, two = classifier(rounds=2).fit(X, y), classifier(rounds=2).fit(X[:400] * 0.5, np.full(400, "benign"))
    assert np.array_equal(one.classes_, two.classes_) and one._ranges == two._ranges
    assert [entry.epsilon for entry in one.certificate_.entries] == [
        entry.epsilon for entry in two.certificate_.entries
    ]


def test_contradictions_are_refused(tumours: Any) -> None:
    X, y = tumours
    with pytest.raises(DataError, match="outside the declared range"):
        classifier().fit(X * 100, y)
    with pytest.raises(Undeclared, match=r"malignant.*not in classes"):
        classifier(classes=["benign"]).fit(X, y)
    with pytest.raises(DataError, match=r"X: records is 200, but the data hold 569 records: declare at least 569"):
        classifier(records=200).fit(X, y)
    with pytest.raises(Undeclared, match="give one pair for each"):
        classifier(feature_ranges=[(0, 1)] * 3).fit(X, y)
    assert issubclass(Undeclared, ValueError)


def test_a_fold_has_fewer_rows_than_are_declared_and_is_fitted_all_the_same(tumours: Any) -> None:
    """Two folds of 569 rows hold less than half of them each: a warning, the same noise and the same promise."""
    with pytest.warns(SordinoWarning, match=r"records is 569, and X has 28\d rows: fine for a fold"):
        search = GridSearchCV(classifier(rounds=3), {"learning_rate": [1.0, 4.0]}, cv=2, error_score="raise")
        search.fit(*tumours)
    assert search.best_estimator_.certificate_.entry("record", "outsider").epsilon <= 4.0
    with pytest.warns(SordinoWarning, match="14.2 times as short"):
        few = classifier(rounds=3).fit(tumours[0][:40], tumours[1][:40])
    told = [model.certificate_.entry("record", "outsider").epsilon for model in (few, search.best_estimator_)]
    assert told[0] == told[1]


def test_seeded_fits_repeat_and_are_stamped_others_are_neither(tumours: Any) -> None:
    one, two, real = (classifier(rounds=2, random_state=seed).fit(*tumours) for seed in (3, 3, None))
    odds = [model.predict_proba(tumours[0]) for model in (one, two, real)]
    assert np.array_equal(odds[0], odds[1]) and not np.array_equal(odds[0], odds[2])
    assert one.certificate_.simulation and not real.certificate_.simulation


def test_clients_are_the_unit_where_groups_are_told(tumours: Any) -> None:
    X, y = tumours
    groups = np.arange(len(X)) % 50
    told = {"unit": "client", "population": 50, "rounds": 5, "epsilon": 8.0, "options": {"clip_norm": 0.5}}
    model = classifier(**told).fit(X, y, groups=groups)
    assert model.certificate_.entry("client", "outsider").status == "certified"
    local = classifier(**told, trust="local").fit(X, y, groups=groups)
    assert local.certificate_.entry("client", "server").status == "certified"
    with pytest.raises(Undeclared, match="groups is missing"):
        classifier(**told).fit(X, y)
    with pytest.raises(Undeclared, match="population is missing"):
        classifier(**{**told, "population": None}).fit(X, y, groups=groups)
    with pytest.raises(RecipeError, match="no mechanism has unit 'record' under 'local' trust"):
        classifier(trust="local").fit(X, y)


def test_records_of_hospitals_under_a_server_that_nobody_trusts(tumours: Any) -> None:
    X, y = tumours
    model = classifier(trust="distributed", population="observed", rounds=3).fit(X, y, groups=np.arange(len(X)) % 8)
    assert model.certificate_.entry("record", "server").status == "certified"


def test_a_ledger_remembers_over_fits_and_stops_the_next_one(tumours: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    settings = {"ledger": path, "federation": "tumours", "rounds": 3}
    classifier(**settings, options={"noise_multiplier": 2.0}).fit(*tumours)
    with Ledger.open(path, write=False) as ledger:
        assert len(ledger.entries) == 3
    with pytest.raises(BudgetExceeded):
        classifier(**settings, epsilon=3.4, options={"noise_multiplier": 1.0}).fit(*tumours)


def test_a_pickle_does_not_tell_how_many_were_there() -> None:
    """19 of 20 declared clients: the private certificate counts them, and was in everything that was passed on."""
    X, owners = np.linspace(0, 1, 38)[:, None], np.repeat(np.arange(19), 2)
    told = {"classes": [0, 1], "records": 40, "population": 20, "feature_ranges": (0.0, 1.0), "rounds": 1}
    model = PrivateClassifier(unit="client", random_state=0, **told).fit(X, np.arange(38) % 2, owners)
    assert model.certificate_.population == 19
    again = pickle.loads(pickle.dumps(model))
    assert not hasattr(again, "certificate_") and again.document_ == model.document_
    assert (again.predict(X) == model.predict(X)).all()


def test_a_network_of_ones_own_and_pickles(tumours: Any) -> None:
    module = nn.Sequential(nn.Linear(10, 6), nn.Tanh(), nn.Linear(6, 2))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = classifier(model=module, rounds=3).fit(*tumours)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(tumours[0]), model.predict(tumours[0]))
    assert all((value == before[name]).all() for name, value in module.state_dict().items())


def test_pipelines_and_cross_validation_work(tumours: Any) -> None:
    model = make_pipeline(FunctionTransformer(), classifier(records=455, rounds=3))
    assert len(cross_val_score(model, *tumours, cv=5)) == 5


def test_regression_is_in_the_units_of_the_target() -> None:
    X, y = load_diabetes(return_X_y=True)
    told = {"records": 442, "feature_ranges": (-0.2, 0.2), "random_state": 0, "epsilon": 8.0, "rounds": 30}
    model = PrivateRegressor(target_range=(0.0, 400.0), learning_rate=1.0, **told).fit(X, y)
    assert model.score(X, y) > 0.2 and 50 < model.predict(X).mean() < 250
    with pytest.raises(Undeclared, match="target_range is missing"):
        PrivateRegressor(**told).fit(X, y)
    with pytest.raises(Undeclared, match="outside target_range"):
        PrivateRegressor(target_range=(0.0, 100.0), **told).fit(X, y)
    raw = PrivateRegressor(target_range="unscaled", **told).fit(X, y / 400)
    assert np.isfinite(raw.predict(X)).all()


@pytest.mark.parametrize(
    ("settings", "groups", "sentence"),
    [
        ({"outside": "ignore"}, None, "outside is 'ignore': choose one of refuse, clip"),
        ({"feature_ranges": "all"}, None, "feature_ranges is 'all'"),
        ({"feature_ranges": {"0": 5}}, None, "a range is 5"),
        ({"records": "many"}, None, "records is 'many'"),
        ({"random_state": np.random.default_rng(0)}, None, "random_state is"),
        ({"options": ["clip_norm"]}, None, "options is"),
        ({"population": 2}, [None] * 50 + ["a"] * 50, "one owner for each row"),
        ({"population": 2}, [["a", "b"]] * 100, "one owner for each row"),
        ({"population": 2}, [np.nan] * 50 + [1.0] * 50, "one owner for each row"),
    ],
)
def test_slips_are_told_in_a_sentence(settings: dict[str, Any], groups: Any, sentence: str) -> None:
    X = np.linspace(0, 1, 100)[:, None]
    usual = {"classes": [0, 1], "records": 100, "feature_ranges": (0.0, 1.0), "rounds": 1}
    with pytest.raises(SordinoError, match=sentence):
        PrivateClassifier(**{**usual, **settings}).fit(X, np.arange(100) % 2, groups)


@pytest.mark.parametrize(
    ("unit", "trust", "name"),
    [
        ("record", "central", "dp_sgd"),
        ("client", "central", "dp_fedavg"),
        ("client", "distributed", "dropout_robust"),
        ("client", "local", "fed_ldp"),
    ],
)
def test_the_defaults_are_those_of_the_command_line(unit: str, trust: str, name: str) -> None:
    mine = Recipe.begin(classifier(unit=unit, trust=trust, epsilon=1.0, rounds=40)._sections())
    theirs = Recipe.load(None, [f"mechanism.name={name}"])
    assert (mine.mechanism, mine.server, mine.budget) == (
        theirs.mechanism.model_copy(update=mine.mechanism.model_dump(include={"trust"})),
        theirs.server,
        theirs.budget,
    )


@pytest.mark.parametrize(
    ("unit", "trust", "mechanism", "field"),
    [
        ("client", "central", "dp_sgd", "unit"),
        ("record", "central", "dp_fedavg", "unit"),
        ("client", "distributed", "dp_fedavg", "trust"),
        ("client", "local", "dp_fedavg", "trust"),
    ],
)
def test_a_mechanism_for_another_unit_or_trust_is_refused(unit, trust, mechanism, field):
    """A promise to each record was once given to whoever asked for one to each client, without a word."""
    chosen = PrivateClassifier(unit=unit, trust=trust, mechanism=mechanism, feature_ranges=(-3, 3))
    with pytest.raises(RecipeError, match=f"^{field} is "):
        chosen._sections()


def test_a_mechanism_that_can_do_both_follows_the_estimator():
    chosen = PrivateClassifier(unit="record", trust="central", mechanism="geometric")
    assert chosen._sections()["mechanism"] == {"name": "geometric", "unit": "record", "trust": "central"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"feature_ranges": (0, 0.5)}, r"widen feature_ranges, or set outside='clip'"),
        ({"records": 20}, r"records is 20, but the data hold 60"),
        ({"epsilon": -1.0}, r"^epsilon must be greater than 0"),
    ],
)
def test_refusals_name_the_estimators_own_parameters(settings: dict[str, Any], said: str) -> None:
    x = np.random.default_rng(0).random((60, 2))
    told = {"epsilon": 4.0, "classes": [0, 1], "records": 60, "feature_ranges": (0, 1), "rounds": 1} | settings
    with pytest.raises(SordinoError, match=said):
        PrivateClassifier(**told).fit(x, (x[:, 0] > 0.5).astype(int))


def test_regression_learns_with_its_defaults() -> None:
    """The step was that of classification, and R² was -6.4 at ε = 4."""
    sick = load_diabetes(scaled=False)
    ranges = [(0, 100), (1, 2), (10, 60), (40, 160), (50, 400), (0, 300), (0, 120), (0, 12), (0, 8), (50, 150)]
    model = PrivateRegressor(
        epsilon=4.0, delta=1e-4, records=442, feature_ranges=ranges, target_range=(0, 400), random_state=0
    ).fit(sick.data, sick.target)
    assert model.score(sick.data, sick.target) > 0.35
