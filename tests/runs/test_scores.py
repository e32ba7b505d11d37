"""Scores fit the task: oracles are scikit-learn's, units are told, and JSON stays JSON where training diverges."""

import json
import sys
import warnings

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, r2_score, roc_auc_score, root_mean_squared_error

import sordino
from sordino.cli.app import main
from sordino.errors import SordinoWarning
from sordino.runs.scores import auc
from sordino.strict_json import dumps

PUBLIC = {"population": 48, "records": 240, "classes": 0}


def people(kind):
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(1))
    signal = x @ torch.tensor([1.0, -1.0, 0.5, 0.0])
    y = {"numbers": 70 + 10 * signal[:, None], "two": (signal > 0).long(), "three": (signal > 0).long() + (x[:, 3] > 1)}
    return sordino.Federation.of(x, y[kind], clients=[f"p{k // 5}" for k in range(300)])


def played(kind, folder, **more):
    public = PUBLIC | {"classes": {"numbers": 0, "two": 2, "three": 3}[kind]}
    mechanism = {"name": "dp_sgd", "clip_norm": 5.0, "noise_multiplier": 0.1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SordinoWarning)
        return sordino.run(
            sordino.Recipe.from_dict({"mechanism": mechanism, "budget": {"epsilon": "none"}, "run": {"rounds": 4}}),
            federation=people(kind),
            public=public,
            out=folder,
            **more,
        )


@pytest.mark.parametrize("kind", ["two", "three"])
def test_classes_have_accuracy_area_and_a_table(kind, tmp_path):
    outcome = played(kind, tmp_path / "run")
    here, scores = outcome.context.federation, outcome.scores
    truth, guess = here.test_y.numpy(), outcome.predict(here.test_x).numpy()
    assert np.array_equal(scores.confusion, confusion_matrix(truth, guess, labels=range(here.classes)))
    assert scores.accuracy == pytest.approx(np.mean(truth == guess)) == outcome.accuracy
    with torch.no_grad():
        sure = outcome.model(here.test_x).double().softmax(1).numpy()
    oracle = roc_auc_score(truth, sure[:, 1]) if kind == "two" else roc_auc_score(truth, sure, multi_class="ovr")
    assert scores.auc == pytest.approx(oracle)
    assert "AUC" in scores.words()
    assert json.loads((tmp_path / "run" / "private" / "scores.json").read_text())["auc"] == pytest.approx(oracle)
    assert not (tmp_path / "run" / "public" / "scores.json").exists()  # these test records are private


def test_numbers_have_rmse_and_r2_in_their_unit(tmp_path):
    outcome = played("numbers", tmp_path / "run", data={"target_unit": "kg"})
    here, scores = outcome.context.federation, outcome.scores
    guess = outcome.predict(here.test_x).numpy()
    assert scores.rmse == pytest.approx(root_mean_squared_error(here.test_y.numpy(), guess), rel=1e-5)
    assert scores.r2 == pytest.approx(r2_score(here.test_y.numpy(), guess), rel=1e-4)
    assert f"RMSE {scores.rmse:.4g} kg, R² " in scores.words()
    assert scores.accuracy is scores.auc is scores.confusion is None


def test_each_client_is_scored_under_its_own_name_for_whoever_runs_it(tmp_path):
    outcome = played("two", tmp_path / "run")
    each = outcome.scores_by_client()
    assert set(each) == set(outcome.context.federation.names) and len(each) == 48
    mean = np.average([one.accuracy for one in each.values()], weights=[one.records for one in each.values()])
    here = outcome.context.federation
    assert mean == pytest.approx(float((outcome.predict(here.train_x) == here.train_y).float().mean()))


def test_areas_of_ties_and_of_one_class():
    scores = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [0.0, 0.0]])
    truth = np.array([0, 1, 1, 0])
    assert auc(scores, truth, 2) == pytest.approx(roc_auc_score(truth, scores[:, 1]))
    assert auc(scores, np.ones(4, int), 2) is None
    assert auc(np.full((4, 2), np.nan), truth, 2) is None


def test_json_is_strict():
    told = dumps({"a": float("nan"), "b": [float("inf"), (1.0, -float("inf"))], "c": "NaN"})
    assert json.loads(told, parse_constant=pytest.fail) == {"a": None, "b": [None, [1.0, None]], "c": "NaN"}


def test_a_regression_that_diverges_says_so_in_strict_json_and_exit_code_3(tmp_path, monkeypatch, capsys):
    rows = ["a,b,label", *(f"{k % 7},{k % 5},{k % 7 + 0.5}" for k in range(60))]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    settings = ["mechanism.name=dp_sgd", "server.learning_rate=1e39", "run.rounds=2"]
    settings += ["public.population=48", "public.records=48", "public.classes=0"]
    arguments = ["run", "--data", "t.csv", "--json", "--out", "run"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sordino", *arguments, *(word for one in settings for word in ("--set", one))])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 3
    told = capsys.readouterr()
    assert json.loads(told.out, parse_constant=pytest.fail)["stopped"] == "diverged"
    assert "training diverged" in told.err
