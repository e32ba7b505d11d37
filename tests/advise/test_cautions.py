"""Warnings that come by themselves: each where it should, none where it should not."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

import sordino
from played import SMALL, cast
from sordino.advise.cautions import cautions
from sordino.advise.outlook import Outlook
from sordino.data.federation import Federation
from sordino.errors import RecipeError, SordinoWarning
from sordino.recipe import Recipe
from sordino.runs.context import RunContext
from sordino.runs.judgement import disappointment, divergence, monotonous


def small(settings: Sequence[str]) -> list[str]:
    """Returns a small run's settings but those without effect: dp_sgd trains nowhere, and fedavg clips nothing."""
    idle = {"mechanism.name=dp_sgd": "train.", "mechanism.name=fedavg": "mechanism.clip_norm"}
    return [one for one in SMALL if not any(name in settings and one.startswith(idle[name]) for name in idle)]


def told(folder, *settings: str):
    """Returns the outcome of a small run, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = sordino.run(Recipe.load(None, [*small(settings), "run.rounds=1", *settings]), out=folder)
    return outcome, [str(one.message) for one in caught if one.category is SordinoWarning]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, None),
        ({"delta": 1 / 100}, "budget.delta = 0.01 is not below 1/100"),
        ({"delta": 0.99 / 100}, None),
        ({"clients": 10**7}, "is not below 1/10,000,000, one over the number of clients: publishing one client as it "),
        ({"clients": 20, "delta": 0.1}, "set budget.delta to 0.005 or less"),
        (
            {"unit": "record", "delta": 1 / 100},
            "budget.delta = 0.01 is not below 1/5,000, one over the number of records",
        ),
        ({"unit": "record", "delta": 1 / 5001}, None),
        ({"epsilon": 10.0}, None),
        ({"epsilon": 10.1}, "budget.epsilon = 10.1 promises little"),
        ({"epsilon": 11.0}, "may be wrong only once in 59,875 times"),
        ({"epsilon": 1e300}, "= 1e+300 promises little: somebody who guesses whether one unit took part may always be"),
        ({"epsilon": None}, None),
        ({"clients": 10}, None),
        ({"clients": 9}, "there are only 9"),
        ({"clients": 9, "unit": "record"}, None),
        ({"expected": Outlook(1.0, 0.1, 100)}, None),
        ({"expected": Outlook(1.0, 0.2, 100)}, "the noise of a round is 2 times as long"),
    ],
)
def test_each_caution_comes_where_it_should_and_alone(changed, says) -> None:
    usual = {"unit": "client", "clients": 100, "records": 5000, "epsilon": 2.0, "delta": 1e-5}
    found = cautions(**(usual | changed))
    assert len(found) == (says is not None)
    assert says is None or says in found[0]
    assert all("\n" not in sentence and not sentence.endswith(".") for sentence in found)


def test_a_run_says_all_of_them_before_it_begins(tmp_path) -> None:
    few = ("partition.clients=4", "public.population=4", "budget.delta=0.3", "budget.epsilon=11")
    _, sentences = told(tmp_path / "run", "mechanism.name=dp_fedavg", "mechanism.noise_multiplier=50", *few)
    for words in ("budget.delta = 0.3", "budget.epsilon = 11", "there are only 4", "the noise of a round is "):
        assert sum(words in sentence for sentence in sentences) == 1


def test_a_quiet_run_says_nothing(tmp_path) -> None:
    outcome, sentences = told(tmp_path / "run", "mechanism.name=dp_sgd", "run.rounds=3")
    assert sentences == []
    assert outcome.stopped == "rounds"


def test_settings_of_local_training_that_have_no_effect_are_named_with_those_that_have(tmp_path) -> None:
    settings = ("mechanism.name=dp_sgd", "train.learning_rate=100")
    with pytest.raises(RecipeError, match=r"^train.learning_rate has no effect under dp_sgd.*server.learning_rate"):
        told(tmp_path / "run", *settings)
    assert not (tmp_path / "run").exists()
    other = ("mechanism.name=dp_fedavg", "train.learning_rate=0.1")
    assert not any("no effect" in sentence for sentence in told(tmp_path / "other", *other)[1])


def test_a_run_begins_with_the_sentence_of_advice_and_auto_with_its_reasons(tmp_path, capsys) -> None:
    recipe = Recipe.load(None, [*SMALL, "run.rounds=1", "mechanism.name=auto", "mechanism.unit=client"])
    sordino.run(recipe, out=tmp_path / "run", progress=True)
    engine, why, expected = capsys.readouterr().err.splitlines()
    assert engine.startswith("gradients: ")
    assert why.startswith("auto: dropout_robust, because each client is to be hidden under distributed trust")
    assert why.count(". ") == 2 and why.endswith(".")  # three sentences
    noise = json.loads((tmp_path / "run" / "private" / "metrics.jsonl").read_text().splitlines()[0])["noise_stddev"]
    assert expected.startswith(f"expected: noise {noise:.3g} on each coordinate of the released mean, signal to noise ")
    assert "in each of 1 round (" in expected


def test_nothing_is_said_where_nothing_is_promised(tmp_path) -> None:
    settings = ("mechanism.name=fedavg", "budget.epsilon=none", "budget.delta=0.5")
    assert told(tmp_path / "run", *settings)[1] == []


DIVERGING = ("mechanism.name=fedavg", "budget.epsilon=none", "train.learning_rate=1e30", "run.rounds=4")


def test_divergence_stops_the_run_and_keeps_the_last_good_model(tmp_path) -> None:
    outcome, sentences = told(tmp_path / "run", *DIVERGING)
    assert outcome.stopped == "diverged"
    assert outcome.rounds < 4
    assert torch.isfinite(outcome.weights).all()
    assert len(sentences) == 1
    assert sentences[0].startswith("training diverged: round ") and "server.learning_rate" in sentences[0]
    assert "training diverged" in str(outcome.document)
    with pytest.warns(SordinoWarning, match="training diverged"):
        again = sordino.run(outcome.context.recipe, out=tmp_path / "run", resume=True)
    assert again.stopped == "diverged"
    assert torch.equal(again.weights, outcome.weights)


def test_a_stop_by_divergence_is_charged_the_whole_plan(tmp_path) -> None:
    """It depends on released values, as a target does."""
    settings = ("mechanism.name=dp_sgd", "server.learning_rate=1e39", "run.rounds=4")
    outcome, _ = told(tmp_path / "run", *settings)
    assert (outcome.stopped, outcome.rounds) == ("diverged", 1)
    assert outcome.certificate.entry("record", "server").epsilon == pytest.approx(8.0, abs=1e-2)
    assert torch.equal(outcome.weights, outcome.context.weights)


def test_a_model_worse_than_the_most_frequent_class_is_called_so(tmp_path) -> None:
    bad = ("mechanism.name=dp_sgd", "mechanism.noise_multiplier=100000")
    runs = [told(tmp_path / f"{seed}", *bad, f"run.seed={seed}") for seed in range(6)]
    assert all(sentences[0].startswith("the noise of a round is ") for _, sentences in runs)
    # which of them are by chance better than that follows from the last digits of the data
    outcome, (_, worse) = next(run for run in runs if len(run[1]) == 2)
    assert worse.startswith(f"the final model is right on {outcome.accuracy:.1%} of the test records, and always ")
    assert "private" not in worse  # these test records are public


def judged(classes: int, public: bool) -> RunContext:
    """Returns a context with ten test records, six of which are of one class (or numbers of variance 0.24)."""
    x, y = torch.zeros(10, 2), torch.tensor([0] * 6 + [1] * 4)
    y = y if classes else y[:, None].float()
    own = Federation.of(x, y, test=(x, y), classes=classes, name="own")
    return replace(cast(), federation=own.declare(replace(own.proposed(), test=public)))


def test_the_comparison_is_with_the_most_frequent_class_and_private_where_test_records_are() -> None:
    assert disappointment(judged(2, True), 1.0, 0.61) is None
    assert "60.0%: it learned" in disappointment(judged(2, True), 1.0, 0.6)  # always the most frequent class, say
    assert "60.0%: it learned" in disappointment(judged(2, True), 1.0, 0.59)
    assert "do not publish" in disappointment(judged(2, False), 1.0, 0.59)
    assert "infinite" in disappointment(judged(2, True), math.nan, 0.9)


def test_nobody_is_more_often_right_than_always() -> None:
    x, y = torch.zeros(10, 2), torch.zeros(10, dtype=torch.long)
    own = Federation.of(x, y, test=(x, y), classes=2, name="own")
    context = replace(cast(), federation=own.declare(replace(own.proposed(), test=True)))
    assert disappointment(context, 0.1, 1.0) is None
    assert "100.0%: it learned" in disappointment(context, 0.1, 0.9)


def test_one_class_is_nothing_to_learn() -> None:
    x, one, two = torch.zeros(6, 2), torch.ones(6, dtype=torch.long), torch.tensor([1, 1, 1, 1, 1, 0])
    for y, said in ((one, "are of one class, 1 (measured"), (two, None), (one[:, None].float(), "have one target")):
        own = Federation.of(x, y, test=None, classes=0 if y.dim() == 2 else 2, name="own")
        found = monotonous(replace(cast(), federation=own))
        assert said is None if found is None else said in found
    named = replace(Federation.of(x, one, test=None, classes=2, name="own"), class_names=("well", "ill"))
    assert "one class, ill (" in str(monotonous(replace(cast(), federation=named)))
    alone = Federation.of(x[:1], one[:1], test=None, classes=2, name="own")
    assert monotonous(replace(cast(), federation=alone)) is None


def test_a_run_warns_before_it_trains_on_one_class_and_trains(tmp_path) -> None:
    own = Federation.of(torch.randn(40, 2), torch.ones(40, dtype=torch.long), classes=2, name="own")
    with pytest.warns(SordinoWarning, match="all training records are of one class, 1"):
        outcome = sordino.run(Recipe.load(None, [*SMALL, "run.rounds=1"]).but(public=own.proposed()), federation=own)
    assert outcome.rounds == 1


def test_numbers_are_compared_with_their_mean() -> None:
    assert disappointment(judged(0, True), 0.24, None) is None
    assert "squared error on the test records is 0.25" in disappointment(judged(0, True), 0.25, None)


def test_a_loss_on_private_records_never_stops_a_run() -> None:
    fine = torch.zeros(3)
    assert divergence(judged(2, False), fine, math.nan, 2) is None
    assert "the test loss overflow" in divergence(judged(2, True), fine, math.nan, 2)
    assert "the model of round 1;" in divergence(judged(2, False), torch.full((3,), 1e20), 1.0, 2)


def test_the_command_says_each_in_one_sentence_and_exits_with_3(tmp_path) -> None:
    settings = [word for setting in (*small(DIVERGING), *DIVERGING) for word in ("--set", setting)]
    command = [sys.executable, "-m", "sordino", "run", "--json", "--out", "run", *settings]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["stopped"] == "diverged"
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("warning: training diverged")
