"""component_adaptive end to end: both modes, all trusts, the paper's stop rule, and a ledger that equals the quote."""

import json
from collections import Counter

import numpy as np
import pytest
import torch

from played import cast, charged, play
from sordino.account.accountants.accountant import price
from sordino.account.accountants.published import xue_sigma0
from sordino.errors import RecipeError
from sordino.events import GaussianDpEvent, Guarantee, Unbounded
from sordino.runs.client_store import ClientStore
from sordino.runs.folder import RunFolder

NAME = "mechanism.name=component_adaptive"
FAITHFUL = "mechanism.mode=faithful"
WORLD = ("dropout.rate=0.3", "dropout.late=0.3", "dropout.late_round=3", "select.kind=fixed", "select.size=12")


@pytest.mark.parametrize("trust", ["local", "distributed", "central"])
def test_the_ledger_equals_the_quote_and_the_budget_is_met_to_a_millionth(trust, tmp_path):
    setting = f"mechanism.trust={trust}"
    mechanism = cast(NAME, setting).mechanism
    quoted = {charge.guarantee: charge.event for charge in mechanism.quote(mechanism.adapter.start())}
    play(tmp_path / "run", NAME, setting)
    with charged(tmp_path / "run") as ledger:
        for guarantee, event in quoted.items():
            assert ledger.book(guarantee).histories(np.arange(24)) == [Counter({event: 5})] * 24
    costs = [price({event: 5}).epsilon(1e-5) for event in quoted.values() if not isinstance(event, Unbounded)]
    assert 8 - 1e-6 < max(costs) <= 8


def test_replacing_a_client_is_hidden_by_half_the_multiplier():
    mechanism = cast(NAME, "mechanism.adjacency=replace", "mechanism.noise_multiplier=3").mechanism
    assert dict(mechanism.perturber.price(mechanism.adapter.start())) == {
        Guarantee("client", "server", "replace"): GaussianDpEvent(1.5),
        # an outsider sees sums of 24 messages, whose noise all hides each of them
        Guarantee("client", "outsider", "replace"): GaussianDpEvent(1.5 * 24**0.5),
    }


@pytest.mark.parametrize("trust", ["distributed", "central"])
def test_sums_promise_presence_and_not_replacement(trust):
    with pytest.raises(RecipeError, match="replace"):
        cast(NAME, "mechanism.adjacency=replace", f"mechanism.trust={trust}")


def test_scales_adapt_while_the_price_stays(tmp_path):
    outcome = play(tmp_path / "run", NAME, "mechanism.trust=central", "budget.epsilon=200")
    events = set()
    with charged(tmp_path / "run") as ledger:
        for entry in ledger.entries:
            events |= {charge.event for charge in entry.charges if not isinstance(charge.event, Unbounded)}
    assert len(events) == 1
    scales = RunFolder(outcome.folder).load(ClientStore()).here.knobs["scales"]
    assert float(scales.std()) > 0.01


@pytest.mark.parametrize("trust", ["local", "distributed", "central"])
def test_a_predicted_step_costs_nothing_and_is_given_back(trust, tmp_path):
    settings = (NAME, f"mechanism.trust={trust}", "budget.epsilon=200")
    plain = play(tmp_path / "plain", *settings)
    outcome = play(tmp_path / "run", *settings, "mechanism.predict=true")
    assert [e.epsilon for e in outcome.certificate.entries] == [e.epsilon for e in plain.certificate.entries]
    predicted = RunFolder(outcome.folder).load(ClientStore()).here.knobs["predicted"]
    # were the step not added again, the model would stand still where clients do as predicted
    assert float(predicted.norm()) > 0
    assert 0.5 < float(outcome.weights.norm() / plain.weights.norm()) < 2


@pytest.mark.parametrize("mode", ["certified", "faithful"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "rmsprop"])
def test_it_runs_with_partial_participation_dropouts_and_late_joiners(mode, optimizer, tmp_path):
    settings = (NAME, f"mechanism.mode={mode}", f"train.optimizer={optimizer}", "train.learning_rate=0.01", *WORLD)
    outcome = play(tmp_path / "run", *settings)
    assert torch.isfinite(outcome.weights).all()
    with charged(tmp_path / "run") as ledger:
        times = ledger.participations
        assert 0 < times.sum() < 5 * 12  # some vanished
        server = next(g for g in ledger.guarantees if g.observer == "server")
        assert [sum(h.values()) for h in ledger.book(server).histories(np.arange(24))] == times.tolist()


@pytest.mark.parametrize(("sigma0", "epsilon", "uploads"), [(26, 0.5, 7), (26, 2, 108), (10, 8, 208), (26, 0.3, 2)])
def test_the_papers_stop_rule(sigma0, epsilon, uploads):
    claim = cast(NAME, FAITHFUL, f"mechanism.noise_multiplier={sigma0}").mechanism.claim
    assert claim.epsilon(uploads, 1e-5) <= epsilon < claim.epsilon(uploads + 1, 1e-5)


def test_nobody_uploads_more_often_than_the_claim_allows(tmp_path):
    settings = (NAME, FAITHFUL, "mechanism.noise_multiplier=26", "budget.epsilon=0.3", "run.rounds=6")
    outcome = play(tmp_path / "run", *settings)
    assert (outcome.stopped, outcome.rounds) == ("budget", 2)
    late = play(tmp_path / "late", *settings, "dropout.late=0.5", "dropout.late_round=3")
    # late joiners have their own count L_i: they go on when the others have to stop
    assert (late.stopped, late.rounds) == ("budget", 4)


def test_the_certificate_shows_the_claim_and_why_nothing_is_certified(tmp_path):
    outcome = play(tmp_path / "run", NAME, FAITHFUL)
    for entry in outcome.certificate.entries:
        assert entry.epsilon is None
        assert "private model" in entry.reason
        assert entry.claimed_epsilon == pytest.approx(8, abs=0.01)


def test_sigma_zero_is_equation_thirteen_unless_it_is_set():
    knobs = cast(NAME, FAITHFUL).mechanism.adapter.start()
    assert knobs.noise_multiplier == pytest.approx(xue_sigma0(8, 5, 1e-5))


def test_the_divisor_divides_the_noise_and_nothing_else(tmp_path):
    def released(divisor):
        folder = tmp_path / divisor
        play(folder, NAME, FAITHFUL, f"mechanism.sensitivity_divisor={divisor}", "run.rounds=1", "model.name=mlp")
        return json.loads((folder / "private" / "metrics.jsonl").read_text().splitlines()[0])["noise_stddev"]

    # other streams train other batches, so weights, and the noise that follows them, are only nearly the same
    assert released("1") == pytest.approx(16 * released("16"), rel=0.02)


def test_a_run_records_box_plots_on_request(tmp_path):
    play(tmp_path / "run", NAME, FAITHFUL, "run.notes=true", "model.name=mlp", *WORLD)
    notes = np.load(tmp_path / "run" / "private" / "notes.npz")
    original, truncated = notes["original"], notes["truncated"]
    assert original.shape == truncated.shape == (5, 8, 5)
    there = ~np.isnan(original)
    assert there[:, 0].all()
    assert (np.diff(original, axis=2)[there[:, :, 1:]] >= 0).all()
    # truncation pulls parameters toward the broadcast model, so it cannot make them spread further than they were
    assert (np.ptp(truncated, axis=2) <= np.ptp(original, axis=2) + 1e-6)[there[:, :, 0]].mean() > 0.5
    assert not np.array_equal(original[there], truncated[there])
