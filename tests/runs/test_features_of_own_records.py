"""Features of records that are given in Python, and who a ledger knows them to be."""

import pytest
import torch

import sordino
from sordino.data.features import FeatureSettings
from sordino.errors import LedgerError, RecipeError
from sordino.runs.folder import RunFolder
from sordino.runs.subject import recall


def crowd(moved: float = 0.0) -> sordino.Federation:
    x = torch.rand(60, 4, generator=torch.Generator().manual_seed(1)) + moved
    return sordino.Federation.of(x, (x[:, 0] > 0.5 + moved).long(), test=0.2)


TOLD = {"population": 48, "records": 48, "classes": 2}
WANTED = {"features": "random", "feature_count": 32}


def play(out, federation=None, **sections):
    given = {"public": TOLD, "run": {"rounds": 2}, "data": WANTED} | sections
    return sordino.run(federation=federation or crowd(), out=out, **given)


def test_the_features_that_a_recipe_names_are_made_of_records_given_in_python(tmp_path):
    outcome = play(tmp_path / "run")
    assert outcome.context.federation.input_shape == (64,)
    assert torch.equal(outcome.context.federation.train_x, FeatureSettings("random", count=32)(crowd().train_x))
    assert RunFolder(tmp_path / "run").recipe().data.features == "random"
    assert recall(RunFolder(tmp_path / "run"), federation=crowd()).federation.input_shape == (64,)
    with pytest.raises(RecipeError, match="other records"):
        recall(RunFolder(tmp_path / "run"), federation=crowd(0.1))


def test_what_follows_from_features_follows_for_them_too(tmp_path):
    followed = play(tmp_path / "run", mechanism={"name": "dp_sgd"}, run={}).context.recipe
    assert followed.server.path is not None
    assert not followed.model.bias


def test_such_a_run_goes_on(tmp_path):
    def stop(metrics):
        if metrics["round"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sordino.run(federation=crowd(), out=tmp_path / "a", public=TOLD, run={"rounds": 2}, data=WANTED, watcher=stop)
    resumed = sordino.run(federation=crowd(), out=tmp_path / "a", resume=True)
    assert torch.equal(resumed.weights, play(tmp_path / "b").weights)


def test_features_that_nothing_makes_are_refused(tmp_path):
    with pytest.raises(RecipeError, match="feature_count has no effect"):
        play(tmp_path / "run", data={"feature_count": 32})


def test_the_same_people_are_the_same_under_other_features(tmp_path):
    ledger = {"path": tmp_path / "shared.ledger"}
    play(tmp_path / "a", data={}, ledger=ledger, budget={"epsilon": 1})
    both = play(tmp_path / "b", ledger=ledger, budget={"epsilon": 3})
    assert 1 < both.certificate.entry("client", "server").epsilon <= 3
    with pytest.raises(LedgerError, match="other records"):
        play(tmp_path / "c", crowd(0.1), ledger=ledger, budget={"epsilon": 9})


def test_and_so_are_those_of_a_data_set(tmp_path):
    told = {"run": {"rounds": 1}, "ledger": {"path": tmp_path / "shared.ledger"}}
    sordino.run(out=tmp_path / "a", budget={"epsilon": 1}, **told)
    sordino.run(out=tmp_path / "b", budget={"epsilon": 3}, data={"features": "random", "feature_count": 16}, **told)
