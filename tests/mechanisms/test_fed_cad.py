"""fed_cad end to end: certified whatever rounds a client skips, Fed-LDP at D = 1, private Diff certifies nothing."""

from collections import Counter

import numpy as np
import pytest
import torch

from played import SMALL, cast, charged, play, trained
from sordino.account.accountants.accountant import price
from sordino.client_state import NoiseMemory
from sordino.events import CorrelatedGaussian, Guarantee
from sordino.recipe import Recipe
from sordino.runs.client_store import ClientStore
from sordino.runs.folder import RunFolder
from sordino.runs.run import run

NAME = "mechanism.name=fed_cad"
FAITHFUL = "mechanism.mode=faithful"
SERVER = Guarantee("client", "server", "zero_out")
WORLD = ("dropout.rate=0.3", "dropout.late=0.3", "dropout.late_round=3", "select.kind=fixed", "select.size=12")


def checkpoint(folder):
    store = ClientStore(folder / "private" / "clients.f32")
    return RunFolder(folder).load(store), store


def test_a_participation_is_one_gaussian_whatever_rounds_are_skipped(tmp_path):
    mechanism = cast(NAME, *WORLD).mechanism
    quoted = {c.guarantee: c.event for c in mechanism.quote(mechanism.adapter.start())}
    play(tmp_path / "run", NAME, *WORLD)
    with charged(tmp_path / "run") as ledger:
        times = ledger.participations
        assert len(set(times.tolist())) > 2
        histories = ledger.book(SERVER).histories(np.arange(24))
        assert histories == [Counter({quoted[SERVER]: int(n)}) if n else Counter() for n in times]


@pytest.mark.parametrize(
    ("sigma", "times", "replace", "zero_out"),
    [(0.3, 30, 821.45, 243.63), (0.5, 30, 332.53, 105.88), (0.3, 60, 1552.61, 442.53)],
)
def test_certified_epsilon_of_the_papers_settings(sigma, times, replace, zero_out):
    for adjacency, expected in (("replace", replace), ("zero_out", zero_out)):
        mechanism = cast(NAME, f"mechanism.noise_multiplier={sigma}", f"mechanism.adjacency={adjacency}").mechanism
        (_, event), _ = mechanism.perturber.price(mechanism.adapter.start())
        assert isinstance(event, CorrelatedGaussian)
        assert price({event: times}).epsilon(1e-5) == pytest.approx(expected, abs=0.006)


def test_the_budget_is_met_to_a_millionth():
    mechanism = cast(NAME).mechanism
    (_, event), _ = mechanism.perturber.price(mechanism.adapter.start())
    assert 8 - 1e-6 < price({event: 5}).epsilon(1e-5) <= 8


def test_fed_ldp_is_the_special_case_of_a_difference_of_one():
    one = trained(NAME, "mechanism.difference=1", "mechanism.noise_multiplier=2", *WORLD)
    two = trained("mechanism.name=fed_ldp", "mechanism.noise_multiplier=2", *WORLD)
    assert torch.equal(one, two)
    correlated = trained(NAME, "mechanism.noise_multiplier=2", *WORLD)
    assert not torch.equal(one, correlated)


def test_only_clients_that_took_part_have_state_and_it_survives_a_resume(tmp_path):
    settings = (NAME, *WORLD)
    whole = play(tmp_path / "whole", *settings)
    with charged(tmp_path / "whole") as ledger:
        _, store = checkpoint(tmp_path / "whole")
        assert sorted(store.slots) == np.flatnonzero(ledger.participations).tolist()
    memory = NoiseMemory.recall(store.state(np.array(sorted(store.slots))), 650, 0.5)
    assert (memory.update.norm(dim=1) <= 1).all()
    assert ((memory.variance >= 0.75 - 1e-6) & (memory.variance <= 1)).all()

    def crash(metrics):
        if metrics["round"] == 3:
            raise KeyboardInterrupt

    recipe = Recipe.load(None, [*SMALL, *settings])
    with pytest.raises(KeyboardInterrupt):
        run(recipe, out=tmp_path / "broken", watcher=crash)
    again = run(recipe, out=tmp_path / "broken", resume=True)
    assert torch.equal(whole.weights, again.weights)


def test_an_adaptive_difference_moves_within_its_bounds_and_costs_nothing(tmp_path):
    settings = (NAME, "mechanism.obsolete=0.4", "budget.epsilon=2000", "train.learning_rate=0.1")
    play(tmp_path / "run", *settings)
    last, _ = checkpoint(tmp_path / "run")
    difference = last.here.knobs.number("difference")
    assert difference != 0.5
    assert 0.05 <= difference <= 1
    with charged(tmp_path / "run") as ledger:
        assert [sum(h.values()) for h in ledger.book(SERVER).histories(np.arange(24))] == [5] * 24
        assert len({c.event for entry in ledger.entries for c in entry.charges}) == 1


def test_printed_with_a_constant_difference_is_certified_and_claims_otherwise(tmp_path):
    outcome = play(tmp_path / "run", NAME, FAITHFUL, "mechanism.noise_multiplier=0.5", "budget.epsilon=100")
    for entry in outcome.certificate.entries:
        assert entry.epsilon == pytest.approx(price({CorrelatedGaussian(0.5): 5}).epsilon(1e-5))
        assert entry.claimed_epsilon < entry.epsilon


def test_printed_with_a_private_difference_certifies_nothing(tmp_path):
    outcome = play(tmp_path / "run", NAME, FAITHFUL, "mechanism.obsolete=0.4", *WORLD)
    for entry in outcome.certificate.entries:
        assert entry.epsilon is None
        assert "private norms" in entry.reason
        assert entry.claimed_epsilon <= 8 + 1e-6
