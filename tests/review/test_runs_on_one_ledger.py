"""What one run on a ledger does to the promises of the next: coins that an end showed, noise that followed releases."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from review.test_what_cohorts_give_away import federation
from sordino import run
from sordino.account.accountants.accountant import epsilon
from sordino.account.certificate.certificate import certify
from sordino.account.certificate.check import check
from sordino.account.certificate.verify import verify
from sordino.account.ledger.ledger import Ledger
from sordino.account.ledger.listing import listing
from sordino.cli.ledger import ledger as ledger_command
from sordino.errors import BudgetExceeded, LedgerError, LedgerTampered
from sordino.events import Charge, GaussianDpEvent, Guarantee
from sordino.runs import run as runs
from sordino.runs.folder import RunFolder
from sordino.server.epsilon_so_far import EpsilonSoFar

QUIET = {"idle_settings": "warn", "progress": False}
COINS = {"select": {"kind": "poisson", "rate": 0.5}, **QUIET}


def outsider(outcome):
    """The outsider's promise, privately and as it is published."""
    (mine,) = [one for one in outcome.certificate.entries if one.observer == "outsider"]
    (told,) = [one for one in outcome.document.promises if one.observer == "outsider"]
    return mine, told


def ended_by_coins(folder: Path, data):
    """A run that ends because too few clients are left by their own coins, on a ledger that others may use."""
    return run(
        federation=data,
        out=folder / "first",
        mechanism={"name": "dropout_robust", "noise_multiplier": 2.0},
        budget={"epsilon": 3.8, "minimum_clients": 8},
        run={"rounds": 14},
        ledger={"path": str(folder / "ledger.db")},
        **COINS,
    )


def light(folder: Path, data, name="second", **budget):
    """A run after it that costs next to nothing and cannot end early."""
    return run(
        federation=data,
        out=folder / name,
        mechanism={"name": "dropout_robust", "noise_multiplier": 60.0},
        budget={"epsilon": 30.0} | budget,
        run={"rounds": 1},
        ledger={"path": str(folder / "ledger.db")},
        **COINS,
    )


def test_an_end_that_showed_who_took_part_is_not_forgotten_by_the_next_run(tmp_path):
    """The second certificate credited the first run's coins, which its end had shown: 2.85 where 3.75 holds."""
    data = federation(20)
    first = ended_by_coins(tmp_path, data)
    assert first.stopped == "budget" and first.rounds < 14
    (mine, _), (then, _) = outsider(first), outsider(light(tmp_path, data))
    assert mine.adjacency == then.adjacency == "zero_out" and then.epsilon >= mine.epsilon
    third, told = outsider(light(tmp_path, data, "third"))
    assert third.adjacency == told.adjacency == "zero_out" and "no coin counts" in third.note


def test_coins_count_where_no_run_on_the_ledger_could_end_by_them(tmp_path):
    data = federation(20)
    for name in ("first", "second"):
        mine, told = outsider(light(tmp_path, data, name))
        assert mine.adjacency == told.adjacency == "add_remove"


def test_part_of_delta_that_a_run_took_out_stays_taken_out(tmp_path):
    """A run that might have ended by coins, and did not, needs its part of δ in every later certificate, too."""
    data = federation(20)
    first = run(
        federation=data,
        out=tmp_path / "first",
        mechanism={"name": "dropout_robust", "noise_multiplier": 4.0},
        budget={"epsilon": 3.2},
        run={"rounds": 14},
        ledger={"path": str(tmp_path / "ledger.db")},
        **COINS,
    )
    taken = first.certificate.early_end
    assert 0 < taken < 1e-5 and first.rounds == 14
    second = light(tmp_path, data)
    assert second.certificate.early_end == pytest.approx(taken) and "of δ covers" in outsider(second)[1].numbers.note


def test_noise_that_followed_releases_is_held_by_a_filter_in_later_runs_too(tmp_path):
    """Its prices were added up in hindsight: 7.36 beside the 8 that the filter had promised for less."""
    shared = {"ledger": {"path": str(tmp_path / "ledger.db")}, "partition": {"clients": 12}, "progress": False}
    adaptive = {"name": "a_dpfl", "threshold": 1.0, "adjust_every": 1}
    first = run(out=tmp_path / "1", mechanism=adaptive, budget={"epsilon": 8}, run={"rounds": 6}, **shared)
    assert {one.accountant.split()[0] for one in first.certificate.entries} <= {"rdp-filter", "gaussian-filter"}
    plain = {"name": "local_dp_sgd", "noise_multiplier": 60.0}
    second = run(out=tmp_path / "2", mechanism=plain, budget={"epsilon": 9}, run={"rounds": 1}, **shared)
    for entry in second.certificate.entries:
        assert "filter" in entry.accountant and entry.epsilon == pytest.approx(9) and second.rounds == 1
    free = run(out=tmp_path / "3", mechanism=plain, budget={"epsilon": "none"}, run={"rounds": 1}, **shared)
    for entry in free.certificate.entries:
        assert entry.epsilon is None and "no budget holds" in entry.reason
    assert all("no budget holds" in one.numbers.reason for one in free.document.promises)
    for outcome in (first, second, free):  # a certificate may say less than its ledger proves
        assert list(verify(tmp_path / "ledger.db", outcome.certificate))


def test_a_promise_that_adaptive_charges_only_imply_is_a_filters_too(tmp_path):
    """Another run's `zero_out` got the price of a path that had followed releases under `replace`: 5.90 beside 8."""
    ledger = tmp_path / "ledger.db"
    shared = {"ledger": {"path": str(ledger)}, "partition": {"clients": 12}, "data": {"public_fraction": 0.1}, **QUIET}
    weak = {"name": "fed_ldp", "noise_multiplier": 60.0, "adjacency": "zero_out"}
    run(out=tmp_path / "1", mechanism=weak, budget={"epsilon": 9}, run={"rounds": 1}, **shared)
    chosen = {"name": "geometric", "refine": True, "adjacency": "replace"}
    second = run(out=tmp_path / "2", mechanism=chosen, budget={"epsilon": 8}, run={"rounds": 5}, **shared)
    implied = [one for one in second.certificate.entries if one.adjacency == "zero_out"]
    assert [one.observer for one in implied] == ["server", "outsider"] and second.rounds > 0
    for entry in implied:
        assert entry.accountant == "gaussian-filter" and entry.epsilon == pytest.approx(8)
    told = [one.epsilon for one in second.document.promises if one.adjacency == "zero_out"]
    assert told == pytest.approx([8, 8])
    assert list(verify(ledger, second.certificate)) and list(check(tmp_path / "2" / "public" / "certificate.json"))


def test_a_promise_that_follows_from_a_later_runs_is_held_to_its_budget(tmp_path):
    """A fixed run under `replace` after an adaptive one under `zero_out`: the latter was held to nothing at all."""
    ledger = tmp_path / "ledger.db"
    shared = {"ledger": {"path": str(ledger)}, "partition": {"clients": 12}, "data": {"public_fraction": 0.1}, **QUIET}
    chosen = {"name": "geometric", "refine": True, "adjacency": "zero_out"}
    run(out=tmp_path / "1", mechanism=chosen, budget={"epsilon": 8}, run={"rounds": 3}, **shared)
    strong = {"name": "fed_ldp", "noise_multiplier": 60.0, "adjacency": "replace"}
    second = run(out=tmp_path / "2", mechanism=strong, budget={"epsilon": 9}, run={"rounds": 1}, **shared)
    for entry in second.certificate.entries:
        if entry.adjacency == "zero_out":
            assert entry.accountant == "gaussian-filter" and entry.epsilon == pytest.approx(9)
    assert list(verify(ledger, second.certificate))


def test_who_paid_what_nothing_bounds_is_left_out_by_a_filter_and_the_others_play(tmp_path):
    """A Gaussian filter could not price what central trust shows the server: no run could begin after it."""
    data = federation(20)
    aside = replace(data, public_x=data.train_x[:8], public_y=data.train_y[:8])
    shared = {"federation": aside, "ledger": {"path": str(tmp_path / "ledger.db")}, **QUIET}
    central = {"select": {"kind": "poisson", "rate": 0.2}, "mechanism": {"name": "dp_fedavg", "noise_multiplier": 9.0}}
    run(out=tmp_path / "1", budget={"epsilon": 8.0}, run={"rounds": 2}, **central, **shared)
    chosen = {"name": "geometric", "refine": True, "adjacency": "zero_out"}
    second = run(out=tmp_path / "2", mechanism=chosen, budget={"epsilon": 8.0}, run={"rounds": 2}, **shared)
    (server,) = [one for one in second.certificate.entries if one.observer == "server"]
    assert second.rounds == 2 and server.epsilon is None and "central trust" in server.reason
    assert list(verify(tmp_path / "ledger.db", second.certificate))


def forged(outcome, ledger, **said):
    """The run's private certificate as somebody would have it, with numbers that follow from the ledger's prices."""
    with Ledger.open(ledger, write=False, until=outcome.certificate.ledger_head) as books:
        return replace(certify(books, outcome.certificate.delta, simulation=True), **said)


def test_a_certificate_that_forgets_an_end_by_coins_does_not_follow_from_its_ledger(tmp_path):
    """`ledger --verify` took the certificate's own word for it: 2.9 with coins passed where 3.8 without them holds."""
    first, ledger = ended_by_coins(tmp_path, federation(20)), tmp_path / "ledger.db"
    list(verify(ledger, first.certificate))
    better = forged(first, ledger, budget_epsilon=3.8)
    assert outsider(replace(first, certificate=better))[0].epsilon < outsider(first)[0].epsilon
    with pytest.raises(LedgerTampered, match="out of δ"):
        list(verify(ledger, better))


def test_a_certificate_with_the_price_of_the_path_does_not_follow_where_noise_followed_releases(tmp_path):
    asked = {"mechanism": {"name": "a_dpfl", "threshold": 1.0, "adjust_every": 1}, "partition": {"clients": 12}}
    ledger = tmp_path / "ledger.db"
    settings = asked | {"budget": {"epsilon": 8}, "run": {"rounds": 6}, "ledger": {"path": str(ledger)}}
    told = run(out=tmp_path / "1", progress=False, **settings)
    list(verify(ledger, told.certificate))
    path = forged(told, ledger, budget_epsilon=8.0)
    assert all(one.epsilon < 7.9 for one in path.entries)
    with pytest.raises(LedgerTampered, match="noise followed releases"):
        list(verify(ledger, path))
    entries = tuple(replace(one, epsilon=7.9) for one in told.certificate.entries)  # a filter that admits the path
    with pytest.raises(LedgerTampered, match="below the budget"):
        list(verify(ledger, replace(told.certificate, entries=entries)))


def begun_and_cut_off(monkeypatch, **asked):
    """Begins a run that is killed before its first round."""

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runs, "play_rounds", killed)
        with pytest.raises(KeyboardInterrupt):
            run(**asked)


def test_two_runs_that_began_on_an_empty_ledger_do_not_share_their_noise(tmp_path, monkeypatch):
    """Streams are named by the ledger's past, which both found empty: a client's two messages had one noise."""
    asked = {
        "federation": federation(20),
        "mechanism": {"name": "fed_ldp", "noise_multiplier": 3.0},
        "budget": {"epsilon": 6.0},
        "run": {"rounds": 4},
        "ledger": {"path": str(tmp_path / "ledger.db")},
        **COINS,
    }
    begun_and_cut_off(monkeypatch, out=tmp_path / "a", **asked)
    other = run(out=tmp_path / "b", **asked)
    stream = [json.loads((tmp_path / name / "private" / "run.json").read_text())["stream"] for name in "ab"]
    assert stream[0] == stream[1] and other.rounds == 4
    with pytest.raises(LedgerError, match=r"same noise.*begin this one anew"):
        run(out=tmp_path / "a", federation=asked["federation"], resume=True)
    with Ledger.open(tmp_path / "ledger.db", write=False) as ledger:
        assert len({entry.run for entry in ledger.entries}) == 1
    assert run(out=tmp_path / "c", **asked).rounds > 0


def test_a_reservation_that_was_never_settled_lends_its_noise_to_nobody(tmp_path):
    """Two processes at once: the first has reserved, and may have released, when the second asks."""
    with Ledger.open(tmp_path / "ledger.db", "f", 3, create=True) as ledger:
        ledger.reserve("a", 1, np.arange(3), [], repeatable=True, fingerprint="noise")
        with pytest.raises(LedgerError, match="same noise"):
            ledger.reserve("b", 1, np.arange(3), [], repeatable=True, fingerprint="noise")
        ledger.reserve("b", 1, np.arange(3), [], repeatable=True, fingerprint="other noise")
        ledger.reserve("c", 1, np.arange(3), [], repeatable=False, fingerprint="noise")


def test_a_filter_adds_up_what_other_runs_released_by_other_noise(tmp_path):
    """After a run with coins no run could begin that chooses its noise: a Gaussian filter cannot price them."""
    data = federation(20)
    shared = {"federation": data, "ledger": {"path": str(tmp_path / "ledger.db")}, "idle_settings": "warn"}
    coins = {"select": {"kind": "poisson", "rate": 0.5}, "mechanism": {"name": "dp_fedavg", "noise_multiplier": 9.0}}
    run(out=tmp_path / "1", budget={"epsilon": 8.0}, run={"rounds": 2}, progress=False, **coins, **shared)
    aside = replace(data, public_x=data.train_x[:8], public_y=data.train_y[:8])
    chosen = {"name": "geometric", "trust": "central", "refine": True, "noise_multiplier": 9.0}
    second = run(
        out=tmp_path / "2", budget={"epsilon": 8.0}, run={"rounds": 2}, mechanism=chosen, progress=False,
        **shared | {"federation": aside},
    )  # fmt: skip
    mine, told = outsider(second)
    assert second.rounds == 2 and mine.accountant.startswith("rdp-filter") and mine.epsilon == pytest.approx(8.0)
    assert told.epsilon == pytest.approx(8.0)
    assert list(check(tmp_path / "2" / "public" / "certificate.json"))


def test_scores_do_not_decide_how_much_a_client_pays_where_no_filter_holds_it(tmp_path):
    """All but one may spend 4, and scores chose others first: certified 4.46 to one whom all rounds would cost 8."""
    asked = {
        "mechanism": {"name": "a_dpfl", "schedule": "geometric"},
        "partition": {"clients": 20},
        "select": {"kind": "fixed", "size": 1},
        "run": {"rounds": 6},
        "progress": False,
    }
    whole = run(out=tmp_path / "whole", budget={"epsilon": 8.0}, **asked)
    best = whole.certificate.entries[0].worst
    assert best.participations == 7 and best.epsilon == pytest.approx(8.0), "the opening, and all six rounds"
    with pytest.raises(BudgetExceeded, match="scores would decide"):
        limits = {str(client): 4.0 for client in range(1, 20)}
        run(out=tmp_path / "limited", budget={"epsilon": 8.0, "clients": limits}, **asked)
    shared = {"ledger": {"path": str(tmp_path / "ledger.db")}}
    run(out=tmp_path / "first", budget={"epsilon": 2.0}, **asked, **shared)
    with pytest.raises(BudgetExceeded, match="scores would decide"):
        run(out=tmp_path / "second", budget={"epsilon": 8.0}, **asked, **shared)
    assert not (tmp_path / "limited").exists() and not (tmp_path / "second").exists()


def test_what_is_told_after_a_round_knows_of_releases_that_promised_nothing_of_the_kind(tmp_path):
    """Another run took part from everybody under another adjacency: ε so far was that of this run's releases alone."""
    add, replaced = (Guarantee("client", "outsider", how) for how in ("add_remove", "replace"))
    with Ledger.open(tmp_path / "ledger.db", "clinics", 12, create=True) as books:
        so_far = EpsilonSoFar(books, 1e-5, "pld")
        for round_, (run_, guarantee) in enumerate([("mine", add), ("mine", add), ("other", replaced)], 1):
            charges = (Charge(guarantee, GaussianDpEvent(4.0), "eligible"),)
            books.settle(books.reserve(run_, round_, np.arange(12), charges), charges)
            told = so_far.told()
            assert set(told.values()) != {None} or round_ == 3
        assert set(told.values()) == {None} and len(told) == 2
        assert [entry.epsilon for entry in certify(books, 1e-5).entries] == [None, None]


def test_seeded_noise_of_another_run_on_the_ledger_is_not_certified_without_a_word(tmp_path):
    """A run that drew from the operating system promised ε over all that its ledger holds, a simulation's releases
    included, whose noise whoever has the seed can take away; nothing on its certificate said so."""
    settings = {
        "federation": federation(20),
        "mechanism": {"name": "dp_fedavg", "noise_multiplier": 8.0},
        "ledger": {"path": str(tmp_path / "ledger.db")},
        **QUIET,
    }
    fresh = run(out=tmp_path / "fresh", run={"rounds": 1, "entropy": True}, **settings)
    assert not fresh.certificate.simulation and not fresh.document.simulation
    run(out=tmp_path / "seeded", run={"rounds": 1}, **settings)
    mixed = run(out=tmp_path / "mixed", run={"rounds": 1, "entropy": True}, **settings)
    assert mixed.certificate.releases == 3
    assert mixed.certificate.simulation and mixed.document.simulation
    assert any("seeds of other runs" in told for told in mixed.document.statement.assumptions)
    for outcome in (fresh, mixed):
        ledger_command(outcome.folder, verify=True)
    folder = RunFolder(mixed.folder)
    (folder.private / "certificate.json").write_text(replace(mixed.certificate, simulation=False).to_json())
    with pytest.raises(LedgerTampered, match="not stamped as a simulation"):
        ledger_command(folder.path, verify=True)


def test_the_list_of_releases_forgets_nothing_that_other_promises_cost(tmp_path: Path) -> None:
    """Running sums count what a promise follows from, and end where somebody was promised nothing of the kind."""
    noise = GaussianDpEvent(2.0)
    silent, other = Guarantee("client", "server", "zero_out"), Guarantee("client", "server", "replace")
    present = Guarantee("client", "outsider", "add_remove")
    with Ledger.open(tmp_path / "ledger.db", "clinics", 3, create=True) as ledger:
        for run_, guarantee in enumerate((silent, other, silent, present, silent)):
            number = ledger.reserve(f"run {run_}", 1, np.arange(2), [Charge(guarantee, noise)])
            ledger.settle(number, [Charge(guarantee, noise)])
        told = [line.cumulative for line in listing(ledger)]
        once, thrice = (epsilon({noise: count}, ledger.delta, adjacency="zero_out") for count in (1, 3))
        assert told == [pytest.approx(once), None, pytest.approx(thrice), None, None]
        so_far = EpsilonSoFar(ledger, ledger.delta, "pld").told()
        assert set(so_far.values()) == {None}  # as every certificate of this ledger says
