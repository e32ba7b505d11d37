"""F9: whose coins can end a run, with clients who join late, other runs on the ledger, and dear rounds."""

import numpy as np
import pytest

from review.test_what_cohorts_give_away import federation
from sordino import run
from sordino.account.accountants.accountant import epsilon
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.ledger import Ledger
from sordino.events import Charge, GaussianDpEvent, Guarantee, PoissonSampledDpEvent
from sordino.runs.folder import RunFolder
from sordino.server.early_end import chance_of_early_end

SERVER = Guarantee("client", "server", "zero_out")
OUTSIDER = Guarantee("client", "outsider", "add_remove")
MINIMUM, RATE, ROUNDS = 8, 0.3, 10


def charges(noise):
    event = GaussianDpEvent(noise)
    return Charge(SERVER, event), Charge(OUTSIDER, PoissonSampledDpEvent(RATE, event), "eligible")


PLAN = [charges(4.0)] * ROUNDS
BUDGET = Budget(2.2, 1e-5)  # for five or six participations


def chance(ledger, run="run", plan=PLAN, budget=BUDGET, minimum=MINIMUM):
    return chance_of_early_end(ledger, run, plan, budget, minimum)


def released(ledger, run, round_, excluded=()):
    """One release of a run in which these clients could not have been selected."""
    cohort = np.setdiff1d(np.arange(3), excluded)
    number = ledger.reserve(run, round_, cohort, PLAN[0], np.array(excluded, np.int64))
    ledger.settle(number, PLAN[0])


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path / "ledger.db", "clinics", [f"c{i}" for i in range(60)], create=True) as opened:
        yield opened


def test_clients_who_join_late_are_not_counted_on(ledger):
    released(ledger, "run", 1)
    everybody = chance(ledger)
    assert everybody < 1e-6
    with Ledger.open(ledger.path.parent / "late.db", "clinics", [f"c{i}" for i in range(60)], create=True) as late:
        released(late, "run", 1, excluded=range(12, 60))
        assert chance(late) > 1e-3 > everybody


def test_clients_of_another_run_are_not_counted_on(ledger, tmp_path):
    """A second study of twelve on the ledger of sixty: the other forty-eight keep no round of it going."""
    released(ledger, "first", 1)
    with Ledger.open(ledger.path, "clinics", [f"c{i}" for i in range(48, 60)]) as second:
        assert len(second.members) == 12 and second.population == 60
        released(second, "second", 1)
        # what others paid earlier is not known client by client: nothing is credited unless all can pay for everything
        assert chance(second, "second") == 1.0
        assert chance(second, "second", budget=Budget(9.0, 1e-5)) == 0.0


def test_earlier_dear_runs_and_dear_last_rounds_count(ledger):
    released(ledger, "run", 1)
    dear = [*PLAN[:-1], charges(0.9)]
    assert chance(ledger, plan=dear) > chance(ledger)
    assert chance(ledger, plan=PLAN, budget=Budget(9.0, 1e-5)) == 0.0  # nobody can run out
    released(ledger, "earlier", 1)
    assert chance(ledger, plan=PLAN) == 1.0


def test_names_that_join_later_change_nothing_of_an_earlier_run(ledger):
    released(ledger, "run", 1)
    before = chance(ledger)
    path = ledger.path
    ledger.close()
    with Ledger.open(path, "clinics", [f"c{i}" for i in range(90)]) as grown:
        assert grown.population == 90
        assert chance(grown) == before


def test_a_run_that_needs_all_its_clients_shows_that_each_is_there(ledger):
    """Without one of them it does not begin, whatever everybody can pay: no credit, also where no coin is tossed."""
    rich, server_sees_all = Budget(1e3, 1e-5), [(Charge(OUTSIDER, GaussianDpEvent(4.0)),)] * ROUNDS
    assert chance(ledger, budget=rich, minimum=59) == 0
    for plan in (PLAN, server_sees_all):
        assert chance(ledger, plan=plan, budget=rich, minimum=60) == 1
    assert chance(ledger, plan=[(Charge(SERVER, GaussianDpEvent(4.0)),)] * ROUNDS, budget=rich, minimum=60) == 0


def test_one_client_more_may_not_decide_how_long_a_run_plays(ledger):
    """Without coins: all but a few may spend less than the plan costs, so that one of the few keeps the run going."""
    event = GaussianDpEvent(4.0)
    hidden, held = (
        [(Charge(Guarantee("client", "outsider", how), event),)] * ROUNDS for how in ("add_remove", "zero_out")
    )
    few = Budget(2.2, 1e-5, dict.fromkeys(range(55), 1.0))
    assert chance(ledger, plan=hidden, budget=few) == 1.0
    assert chance(ledger, plan=held, budget=few) == 0.0  # who is there is no secret then
    assert chance(ledger, plan=hidden, budget=Budget(9.0, 1e-5, {3: 8.0})) == 0.0  # everybody can pay for everything
    assert chance(ledger, plan=hidden, budget=BUDGET) == 0.0  # all alike: it ends when it ends
    released(ledger, "first", 1)
    assert chance(ledger, plan=hidden, budget=BUDGET) == 1.0  # three have spent more than the others


@pytest.mark.parametrize("there", [True, False])
def test_one_client_of_larger_means_does_not_keep_a_run_of_coins_going_unseen(there, tmp_path):
    """Nineteen may spend 3 and one may spend 6: with it 12 rounds, without it fewer, and its presence was "hidden"."""
    data = federation(20) if there else federation(19, 20)
    outcome = run(
        federation=data,
        out=tmp_path / "run",
        mechanism={"name": "dp_fedavg", "noise_multiplier": 2.0},
        select={"kind": "poisson", "rate": 0.5},
        budget={"epsilon": 6.0, "clients": {str(client): 3.0 for client in range(19)}},
        run={"rounds": 12},
        idle_settings="warn",
        progress=False,
    )
    assert (outcome.rounds == 12) == there
    for told in (*outcome.certificate.entries, *outcome.document.promises):
        assert told.epsilon is None or told.adjacency != "add_remove"


def test_limits_that_leave_enough_clients_cost_no_promise(tmp_path):
    outcome = run(
        federation=federation(20),
        out=tmp_path / "run",
        mechanism={"name": "dp_fedavg", "noise_multiplier": 2.0},
        select={"kind": "poisson", "rate": 0.5},
        budget={"epsilon": 6.0, "clients": {"0": 3.0, "1": 3.0}},
        run={"rounds": 12},
        idle_settings="warn",
        progress=False,
    )
    (told,) = [one for one in outcome.document.promises if one.observer == "outsider"]
    assert outcome.rounds == 12 and told.adjacency == "add_remove" and told.epsilon < 6


def test_a_round_that_was_paid_for_again_is_one_more_to_pay_for(ledger):
    """Killed, and played again with fresh noise: the budget was for the plan alone, and coins decide who can pay."""
    exact = Budget(epsilon([GaussianDpEvent(4.0)] * ROUNDS, 1e-5) * (1 + 1e-6), 1e-5)
    released(ledger, "run", 1)
    assert chance(ledger, budget=exact) == 0.0
    released(ledger, "run", 1)
    assert 0 < chance(ledger, budget=exact) < 1e-9  # sixty clients, of whom eight suffice
    assert chance(ledger, budget=exact, minimum=59) > 1e-6
    assert chance(ledger, budget=Budget(9.0, 1e-5), minimum=59) == 0.0


def test_what_a_killed_run_promises_an_outsider(tmp_path, monkeypatch):
    """Exactly calibrated for four rounds, killed after the first: whether a fifth can be paid for depends on coins, and
    the certificate credited them (ε = 2.10, add_remove) where the server's 2.40 holds."""
    save, killed = RunFolder.save, []

    def kill(folder, checkpoint, store):
        if checkpoint.here.round_ == 1 and not killed:
            killed.append(True)
            raise KeyboardInterrupt
        if killed != [True]:  # nor when the interrupted run tidies up
            save(folder, checkpoint, store)

    data = federation(8)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", kill)
        with pytest.raises(KeyboardInterrupt):
            run(
                federation=data,
                out=tmp_path / "run",
                mechanism={"name": "dropout_robust"},
                select={"kind": "poisson", "rate": 0.75},
                budget={"epsilon": 2.4, "minimum_clients": 2},
                run={"rounds": 4, "entropy": True},
                idle_settings="warn",
                progress=False,
            )
    outcome = run(federation=data, out=tmp_path / "run", resume=True, progress=False)
    with Ledger.open(tmp_path / "run" / "private" / "ledger.db", write=False) as books:
        assert [entry.round_ for entry in books.entries if entry.charges] in ([1, 1, 2, 3, 4], [1, 1, 2, 3])
    (mine,) = [one for one in outcome.certificate.entries if one.observer == "outsider"]
    (told,) = [one for one in outcome.document.promises if one.observer == "outsider"]
    assert mine.adjacency == told.adjacency == "zero_out" and outcome.certificate.early_end > 1e-3
