"""The ledger: what it remembers, refuses and shares; every number against a plain bookkeeping of lists."""

import json
import math
import multiprocessing
import sqlite3
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.account.accountants.accountant import price
from sordino.account.accountants.filter import GaussianFilter
from sordino.account.accountants.history import flatten
from sordino.account.ledger.budget import Budget, Headroom
from sordino.account.ledger.ledger import Ledger
from sordino.errors import AccountingError, LedgerError, LedgerTampered
from sordino.events import (
    Charge,
    ComposedDpEvent,
    GaussianDpEvent,
    Guarantee,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    Unbounded,
)

SERVER = Guarantee("client", "server", "zero_out")
OUTSIDER = Guarantee("client", "outsider", "add_remove")
GAUSS, HALF = GaussianDpEvent(2.0), GaussianDpEvent(1.0)
SAMPLED = PoissonSampledDpEvent(0.2, GaussianDpEvent(2.0))
BOTH = (Charge(SERVER, GAUSS), Charge(OUTSIDER, SAMPLED, "eligible"))


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path / "ledger.db", "hospitals", 20, create=True) as opened:
        yield opened


def ids(*clients):
    return np.array(clients, np.int64)


def spent(ledger, guarantee, client):
    return ledger.book(guarantee).histories(ids(client))[0]


def test_a_client_pays_when_its_message_leaves_and_everyone_eligible_pays_for_the_coin(ledger):
    ledger.settle(ledger.reserve("a", 1, ids(1, 2), BOTH, excluded=ids(7)), BOTH)
    assert spent(ledger, SERVER, 1) == {GAUSS: 1}
    assert spent(ledger, SERVER, 3) == {}
    assert spent(ledger, OUTSIDER, 3) == {SAMPLED: 1}
    assert spent(ledger, OUTSIDER, 7) == {}
    assert ledger.participations.tolist() == [0, 1, 1] + [0] * 17


def test_a_reservation_without_settlement_counts_as_spent(ledger, tmp_path):
    ledger.reserve("a", 1, ids(1), BOTH)
    with Ledger.open(tmp_path / "ledger.db") as again:
        assert spent(again, SERVER, 1) == {GAUSS: 1}
        assert [entry.settled for entry in again.entries] == [False]


def test_settling_replaces_what_was_reserved(ledger, tmp_path):
    dear = (Charge(SERVER, HALF),)
    number = ledger.reserve("a", 1, ids(1, 2, 3), dear)
    ledger.settle(number, (Charge(SERVER, GAUSS),), senders=ids(1, 3))
    for books in (ledger, Ledger.open(tmp_path / "ledger.db")):
        assert spent(books, SERVER, 1) == {GAUSS: 1}
        assert spent(books, SERVER, 2) == {}
        assert books.participations[:4].tolist() == [0, 1, 0, 1]
    nothing = ledger.reserve("a", 2, ids(1), dear)
    ledger.settle(nothing, ())
    assert spent(ledger, SERVER, 1) == {GAUSS: 1}
    assert ledger.participations[1] == 1


@pytest.mark.parametrize(
    ("realised", "says"),
    [
        ((Charge(SERVER, GaussianDpEvent(1.99)),), "cost"),
        ((Charge(SERVER, GAUSS), Charge(SERVER, GaussianDpEvent(50.0))), "cost"),
        ((Charge(OUTSIDER, GAUSS),), "never named"),
        ((Charge(SERVER, GAUSS, "eligible"),), "never named"),
        ((Charge(SERVER, Unbounded("lost")),), "cost"),
    ],
)
def test_a_dearer_release_than_reserved_is_refused(ledger, realised, says):
    number = ledger.reserve("a", 1, ids(1), (Charge(SERVER, GAUSS),))
    with pytest.raises(LedgerError, match=says):
        ledger.settle(number, realised)
    assert spent(ledger, SERVER, 1) == {GAUSS: 1}
    ledger.settle(number, (Charge(SERVER, GaussianDpEvent(2.5)),))
    assert spent(ledger, SERVER, 1) == {GaussianDpEvent(2.5): 1}


def test_settling_what_was_not_reserved_or_twice_is_refused(ledger):
    with pytest.raises(LedgerError, match="does not exist"):
        ledger.settle(17, BOTH)
    number = ledger.reserve("a", 1, ids(1), BOTH)
    with pytest.raises(LedgerError, match="did not name"):
        ledger.settle(number, BOTH, senders=ids(2))
    ledger.settle(number, BOTH)
    with pytest.raises(LedgerError, match="settled before"):
        ledger.settle(number, BOTH)


def test_what_its_writer_remembers_is_what_a_reader_finds(ledger, tmp_path):
    """A writer keeps what it wrote and does not read it again, so both must be the same, field by field."""
    listed = (Charge(SERVER, ComposedDpEvent([GAUSS, SelfComposedDpEvent(HALF, 3)])),)
    again = {"repeatable": True, "fingerprint": "seed"}
    ledger.reserve("a", 1, ids(4, 1), BOTH, excluded=ids(7))
    ledger.settle(ledger.reserve("a", 2, ids(1, 2, 3), listed, **again), listed, senders=ids(3, 1), digest="bits")
    ledger.settle(ledger.reserve("a", 3, ids(1, 2), BOTH), BOTH, senders=ids(2, 1), digest="bits")
    ledger.settle(ledger.reserve("a", 4, ids(2), listed, **again), ())
    ledger.settle(ledger.reserve("a", 4, ids(2), listed, **again), listed, digest="bits")
    unpriced = (Charge(SERVER, Unbounded("no noise")),)
    ledger.settle(ledger.reserve("a", 5, ids(2), unpriced), unpriced)

    def told(entry):
        return vars(entry) | {
            "participants": entry.participants.ids().tolist(),
            "excluded": entry.excluded.ids().tolist(),
        }

    with Ledger.open(tmp_path / "ledger.db") as reader:
        assert list(map(told, reader.entries)) == list(map(told, ledger.entries))
        assert list(map(told, reader._state.reserved.values())) == list(map(told, ledger._state.reserved.values()))
        assert reader.participations.tolist() == ledger.participations.tolist()
        assert reader.guarantees == ledger.guarantees
        assert len(ledger.entries) == 6
    ledger.verify()


def test_what_other_runs_released_is_told_apart_also_while_something_is_set_aside(ledger):
    for run, round_ in (("a", 0), ("a", 1), ("b", 1), ("a", 2), ("c", 1)):
        number = ledger.reserve(run, round_, ids(1), BOTH, repeatable=True, fingerprint=f"{run}'s seed")
        ledger.settle(number, () if run == "b" else BOTH, digest="bits" if run != "b" else "", durable=False)

    def told(run):
        return [(entry.run, entry.round_, bool(entry.charges)) for entry in ledger.beside(run)]

    def plain(run):
        return sorted((e.run, e.round_, bool(e.charges)) for e in ledger.entries if e.run != run)

    for run in ("a", "b", "c", "nobody"):
        assert sorted(told(run)) == plain(run)
    assert ledger.rounds == 4 and told("a") == [("b", 1, False), ("c", 1, True)]
    with ledger.set_aside("a", 2, "a's seed") as replayed:
        assert replayed and ledger.rounds == 2 and told("a") == [("b", 1, False)] and sorted(told("c")) == plain("c")
    assert ledger.rounds == 4 and told("a") == [("b", 1, False), ("c", 1, True)]
    assert [entry.seq for entry in ledger.entries] == sorted(entry.seq for entry in ledger.entries)
    with ledger.set_aside("a", 3, "a's seed") as replayed:
        assert not replayed and ledger.rounds == 4


class TestRepetition:
    def test_the_same_seeded_release_is_charged_once(self, ledger, tmp_path):
        first = ledger.reserve("a", 1, ids(1, 2), BOTH, repeatable=True, fingerprint="seed 0")
        with Ledger.open(tmp_path / "ledger.db") as other:
            assert other.reserve("a", 1, ids(2, 1), BOTH, repeatable=True, fingerprint="seed 0") == first
        ledger.settle(first, BOTH, digest="bits")
        assert ledger.reserve("a", 1, ids(1, 2), BOTH, repeatable=True, fingerprint="seed 0") == first
        ledger.settle(first, BOTH, digest="bits")
        assert spent(ledger, SERVER, 1) == {GAUSS: 1}

    @pytest.mark.parametrize(
        "change",
        [
            {"run": "b"},
            {"round_": 2},
            {"participants": ids(1, 3)},
            {"charges": (Charge(SERVER, HALF),)},
            {"excluded": ids(9)},
            {"fingerprint": "seed 1"},
            {"repeatable": False},
        ],
    )
    def test_anything_else_is_another_release(self, ledger, change):
        same = {"run": "a", "round_": 1, "participants": ids(1, 2), "charges": BOTH, "repeatable": True}
        first = ledger.reserve(**same)
        assert ledger.reserve(**same | change) != first
        assert sum(spent(ledger, SERVER, 1).values()) == 2

    def test_a_repetition_that_releases_other_bits_is_refused(self, ledger, tmp_path):
        number = ledger.reserve("a", 1, ids(1), BOTH, repeatable=True)
        ledger.settle(number, BOTH, digest="bits")
        assert ledger.reserve("a", 1, ids(1), BOTH, repeatable=True) == number
        with pytest.raises(LedgerError, match="under the same noise"):
            ledger.settle(number, BOTH, digest="other bits")
        ledger.settle(number, [])  # played again, and aborted: nothing more was seen
        for books in (ledger, Ledger.open(tmp_path / "ledger.db")):
            assert spent(books, SERVER, 1) == {GAUSS: 1}
            assert books.participations[1] == 1

    @pytest.mark.parametrize("change", [{"participants": ids(1, 3)}, {"charges": (Charge(SERVER, HALF),)}])
    def test_what_was_released_is_not_released_otherwise_under_the_same_noise(self, ledger, change):
        same = {"run": "a", "round_": 1, "participants": ids(1, 2), "charges": BOTH, "repeatable": True}
        ledger.settle(ledger.reserve(**same), BOTH, digest="bits")
        with pytest.raises(LedgerError, match="under the same noise"):
            ledger.reserve(**same | change)
        ledger.reserve(**same | change | {"fingerprint": "other noise"})
        assert len(ledger.entries) == 2

    def test_what_was_aborted_before_is_released_for_its_price(self, ledger):
        number = ledger.reserve("a", 1, ids(1), BOTH, repeatable=True)
        ledger.settle(number, [])
        assert spent(ledger, SERVER, 1) == {}
        ledger.settle(ledger.reserve("a", 1, ids(1), BOTH, repeatable=True), BOTH, digest="bits")
        assert spent(ledger, SERVER, 1) == {GAUSS: 1}


@dataclass
class Model:
    """What the books should say, kept as lists."""

    population: int
    rounds: list = field(default_factory=list)

    def history(self, guarantee, client):
        total = Counter()
        for participants, excluded, charges in self.rounds:
            for charge in charges:
                pays = client not in excluded if charge.payers == "eligible" else client in participants
                if charge.guarantee == guarantee and pays:
                    total += flatten(charge.event)
        return total


events = st.sampled_from(
    [
        GAUSS,
        HALF,
        SAMPLED,
        ComposedDpEvent((GAUSS, GAUSS)),
        SelfComposedDpEvent(SAMPLED, 3),
        Unbounded("why"),
    ]
)
charge_lists = st.lists(
    st.builds(Charge, st.sampled_from([SERVER, OUTSIDER]), events, st.sampled_from(["participants", "eligible"])),
    max_size=3,
)
subsets = st.sets(st.integers(0, 39), max_size=40)


@given(st.lists(st.tuples(subsets, subsets, charge_lists, st.sampled_from(["open", "same", "none"])), max_size=8))
@settings(max_examples=25, deadline=None)
def test_books_agree_with_lists(tmp_path_factory, rounds):
    path = tmp_path_factory.mktemp("books") / "ledger.db"
    model = Model(40)
    with Ledger.open(path, "f", 40, create=True) as ledger:
        for number, (participants, excluded, charges, end) in enumerate(rounds):
            seq = ledger.reserve(
                "r", number, np.array(sorted(participants), int), charges, np.array(sorted(excluded), int)
            )
            if end == "same":
                ledger.settle(seq, charges)
            if end == "none":
                ledger.settle(seq, ())
                continue
            model.rounds.append((participants, excluded, charges))
    with Ledger.open(path, write=False) as ledger:
        ledger.verify()
        for guarantee in (SERVER, OUTSIDER):
            book, every = ledger.book(guarantee), np.arange(40)
            wanted = [model.history(guarantee, client) for client in range(40)]
            assert book.histories(every) == wanted
            costs = [price(history, "rdp", guarantee.adjacency).epsilon(1e-5) for history in wanted]
            np.testing.assert_allclose(book.prices(1e-5, "rdp").epsilon, costs, rtol=1e-9)
            groups = book.groups()
            assert sum(group.clients for group in groups) == 40
            assert {frozenset(g.history.items()) for g in groups} == {frozenset(h.items()) for h in wanted}
            if len(groups) < 4:
                tight = [price(history, "pld", guarantee.adjacency).epsilon(1e-5) for history in wanted]
                np.testing.assert_allclose(book.prices(1e-5).epsilon, tight, rtol=1e-9)


@pytest.mark.parametrize("event", [GaussianDpEvent, lambda z: PoissonSampledDpEvent(0.3, GaussianDpEvent(z))])
def test_many_different_histories_are_summed_together(tmp_path, event):
    rng, population = np.random.default_rng(1), 90
    with Ledger.open(tmp_path / "l.db", "f", population, create=True) as ledger:
        for number in range(40):
            charge = Charge(SERVER, event(3.0 + 0.1 * number), "participants" if number % 3 else "eligible")
            cohort = rng.choice(population, 20, replace=False)
            ledger.reserve("r", number, cohort, [charge], excluded=rng.choice(population, 5, replace=False))
        ledger.reserve("r", 40, ids(0), [Charge(SERVER, Unbounded("once"))])
        book = ledger.book(SERVER)
        found = book.prices(1e-5)
        histories = book.histories(np.arange(population))
    accountant = "exact" if event is GaussianDpEvent else "rdp"
    wanted = [
        price(history, "rdp" if accountant == "rdp" else "pld", "zero_out").epsilon(1e-5) for history in histories
    ]
    assert len({frozenset(history.items()) for history in histories}) > 48
    assert math.isinf(found.epsilon[0])
    assert np.isfinite(found.epsilon[1:]).all()
    if accountant == "rdp":
        assert (found.accountant, "too many" in found.note) == ("rdp", True)
        np.testing.assert_allclose(found.epsilon, wanted, rtol=1e-9)


def test_many_plain_gaussians_are_summed_exactly(tmp_path):
    rng, population = np.random.default_rng(1), 80
    with Ledger.open(tmp_path / "l.db", "f", population, create=True) as ledger:
        for number in range(40):
            charge = Charge(SERVER, GaussianDpEvent(3.0 + 0.1 * number), "participants" if number % 3 else "eligible")
            ledger.reserve("r", number, rng.choice(population, 30, replace=False), [charge], excluded=ids(number))
        book = ledger.book(SERVER)
        found = book.prices(1e-5)
        wanted = [price(history).epsilon(1e-5) for history in book.histories(np.arange(population))]
        client, curve = book.ceiling(1e-5)
    assert found.accountant == "exact"
    np.testing.assert_allclose(found.epsilon, wanted, rtol=1e-9)
    assert client == int(np.argmax(wanted))
    assert curve.epsilon(1e-5) == pytest.approx(max(wanted))


class TestCeiling:
    """The certificate's curve bounds every client, at every δ."""

    def build(self, tmp_path, rows):
        ledger = Ledger.open(tmp_path / "l.db", "f", 80, create=True)
        for number, (clients, event) in enumerate(rows):
            ledger.reserve("r", number, np.array(clients), [Charge(SERVER, event)])
        return ledger.book(SERVER)

    def check(self, book, accountant="pld"):
        _, curve = book.ceiling(1e-5, accountant)
        for group in book.groups():
            mine = price(group.history, accountant, "zero_out")
            for delta in (1e-9, 1e-5, 1e-3):
                assert curve.epsilon(delta) >= mine.epsilon(delta) * (1 - 1e-9)
        return curve

    def test_curves_that_cross(self, tmp_path):
        rows = [([1], PoissonSampledDpEvent(0.01, GaussianDpEvent(0.5)))] * 3 + [([2], GaussianDpEvent(1.2))]
        self.check(self.build(tmp_path, rows))

    def test_a_chain_of_many_is_priced_by_its_longest(self, tmp_path):
        rows = [(list(range(k, 80)), SAMPLED) for k in range(60)]
        curve = self.check(self.build(tmp_path, rows), "rdp")
        book = Ledger.open(tmp_path / "l.db").book(SERVER)
        client, tight = book.ceiling(1e-5)
        assert tight.accountant == "pld"
        assert client >= 59
        assert tight.epsilon(1e-5) < curve.epsilon(1e-5)

    def test_many_that_do_not_contain_each_other(self, tmp_path):
        rows = [([k, (k + 1) % 80], PoissonSampledDpEvent(0.3, GaussianDpEvent(1 + k / 10))) for k in range(80)]
        curve = self.check(self.build(tmp_path, rows), "rdp")
        assert curve.accountant == "rdp"


class TestBudget:
    def test_who_can_pay(self, ledger):
        for number in range(3):
            ledger.reserve("a", number, ids(1, 2), [Charge(SERVER, GAUSS)])
        three, four = (price({GAUSS: n}).epsilon(1e-5) for n in (3, 4))
        found = ledger.affordable([Charge(SERVER, GAUSS)], Budget((three + four) / 2, 1e-5))
        assert np.flatnonzero(~found.allowed).tolist() == [1, 2]
        assert np.flatnonzero(found.capped).tolist() == [1, 2]
        assert not found.barred.any()
        assert ledger.affordable([Charge(SERVER, GAUSS)], Budget(four + 1e-9, 1e-5)).allowed.all()

    def test_public_reasons_are_told_from_coins(self, ledger):
        charge = Charge(OUTSIDER, SAMPLED, "eligible")
        ledger.reserve("a", 1, ids(4), [charge], excluded=ids(5))
        one, two = (price({SAMPLED: n}).epsilon(1e-5) for n in (1, 2))
        found = ledger.affordable([charge], Budget((one + two) / 2, 1e-5))
        assert np.flatnonzero(found.allowed).tolist() == [5]
        assert found.barred.sum() == 19
        assert not found.capped.any()

    def test_a_client_may_ask_for_less(self, ledger):
        budget = Budget(10.0, 1e-5, {3: 0.1, 4: 99.0})
        found = ledger.affordable([Charge(SERVER, GAUSS)], budget)
        assert np.flatnonzero(~found.allowed).tolist() == [3]
        assert budget.limits(20)[4] == 10.0
        with pytest.raises(AccountingError, match="client 20"):
            Budget(1.0, 1e-5, {20: 0.5}).limits(20)

    def test_only_the_guarantees_that_are_bound(self, ledger):
        tight = Budget(0.01, 1e-5)
        assert not ledger.affordable(BOTH, tight).allowed.any()
        assert ledger.affordable(BOTH, tight, within=[]).allowed.all()
        assert not ledger.affordable(BOTH, tight, within=[SERVER]).allowed.any()

    def test_a_steady_schedule_is_decided_tightly_however_many_counts_there_are(self, tmp_path):
        """Rényi sums would leave clients out too early."""
        charge = [Charge(SERVER, SAMPLED)]
        with Ledger.open(tmp_path / "l.db", "f", 60, create=True) as ledger:
            for number in range(60):
                ledger.reserve("r", number, np.arange(number, 60), charge)
            budget = Budget(price({SAMPLED: 40}, "pld", "zero_out").epsilon(1e-5), 1e-5)
            assert price({SAMPLED: 40}, "rdp", "zero_out").epsilon(1e-5) > budget.epsilon
            allowed = ledger.affordable(charge, budget).allowed
        # Client k has taken part k + 1 times.
        assert allowed.tolist() == [count + 1 <= 40 for count in range(1, 61)]

    def test_two_charges_of_one_guarantee_are_added(self, ledger):
        two = price({GAUSS: 2}).epsilon(1e-5)
        twice = [Charge(SERVER, GAUSS), Charge(SERVER, GAUSS)]
        assert not ledger.affordable(twice, Budget(two * 0.99, 1e-5)).allowed.any()
        assert ledger.affordable(twice, Budget(two * 1.01, 1e-5)).allowed.all()

    def test_a_filter_decides_instead(self, ledger):
        filters = {SERVER: GaussianFilter(5.0, 1e-5)}
        ledger.reserve("a", 1, ids(1), [Charge(SERVER, HALF)])
        found = ledger.affordable([Charge(SERVER, HALF)], Budget(5.0, 1e-5), filters=filters)
        assert np.flatnonzero(~found.allowed).tolist() == [1]

    def test_exhausted_budgets_never_pass_even_when_asked_every_round(self, tmp_path):
        """Whatever happens, no client's price ever exceeds its budget."""
        rng, budget = np.random.default_rng(0), Budget(4.0, 1e-5)
        with Ledger.open(tmp_path / "l.db", "f", 30, create=True) as ledger:
            for number in range(60):
                charges = (Charge(SERVER, GaussianDpEvent(float(rng.choice([3.0, 5.0])))), BOTH[1])
                allowed = np.flatnonzero(ledger.affordable(charges, budget).allowed)
                if not len(allowed):
                    break
                cohort = rng.permutation(allowed)[:6]
                ledger.reserve("r", number, cohort, charges, excluded=np.setdiff1d(np.arange(30), allowed))
            assert ledger.book(SERVER).prices(1e-5).epsilon.max() <= 4.0
            assert ledger.book(OUTSIDER).prices(1e-5).epsilon.max() <= 4.0


@given(st.integers(0, 40), st.floats(0.5, 12), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_headroom_answers_like_a_price(done, epsilon, others):
    headroom, history = Headroom(), {GAUSS: done, HALF: others}
    for _ in range(3):
        wanted = price(Counter(history) + Counter({GAUSS: 1})).epsilon(1e-5) <= epsilon
        assert headroom.fits(history, GAUSS, epsilon, 1e-5, "pld", "zero_out") == wanted
        history = {**history, GAUSS: history[GAUSS] + 1}


def test_asking_every_round_needs_few_prices(monkeypatch):
    from sordino.account.ledger import budget

    asked = []
    monkeypatch.setattr(budget, "price", lambda *args: asked.append(1) or price(*args))
    headroom = Headroom()
    answers = [headroom.fits({GAUSS: n}, GAUSS, 8.0, 1e-5, "pld", "zero_out") for n in range(60)]
    most = answers.index(False)
    assert price({GAUSS: most}).epsilon(1e-5) <= 8.0 < price({GAUSS: most + 1}).epsilon(1e-5)
    assert not any(answers[most:])
    assert len(asked) < 14


class TestIdentity:
    def test_the_ledger_spans_runs(self, tmp_path):
        for run in ("first", "second"):
            with Ledger.open(tmp_path / "l.db", "banks", 5, create=True) as ledger:
                ledger.reserve(run, 1, ids(2), [Charge(SERVER, GAUSS)])
        with Ledger.open(tmp_path / "l.db", "banks") as ledger:
            assert spent(ledger, SERVER, 2) == {GAUSS: 2}

    @pytest.mark.parametrize(("name", "population", "says"), [("phones", 5, "banks"), ("banks", 6, "5 clients")])
    def test_another_federation_is_refused(self, tmp_path, name, population, says):
        Ledger.open(tmp_path / "l.db", "banks", 5, create=True).close()
        before = (tmp_path / "l.db").read_bytes()
        with pytest.raises(LedgerError, match=says):
            Ledger.open(tmp_path / "l.db", name, population, create=True)
        assert (tmp_path / "l.db").read_bytes() == before

    def test_a_newer_format_is_refused_and_untouched(self, tmp_path):
        Ledger.open(tmp_path / "l.db", "banks", 5, create=True).close()
        with sqlite3.connect(tmp_path / "l.db") as raw:
            raw.execute("PRAGMA user_version = 99")
        raw.close()
        before = (tmp_path / "l.db").read_bytes()
        for options in ({"write": False}, {"create": True}, {}):
            with pytest.raises(LedgerError, match="upgrade"):
                Ledger.open(tmp_path / "l.db", "banks", 5, **options)
        assert (tmp_path / "l.db").read_bytes() == before

    def test_what_is_no_ledger_is_refused_and_untouched(self, tmp_path):
        (tmp_path / "text").write_text("hello, this is not a database" * 100)
        with sqlite3.connect(tmp_path / "other.db") as raw:
            raw.execute("CREATE TABLE mine (x)")
        raw.close()
        for name in ("text", "other.db"):
            before = (tmp_path / name).read_bytes()
            with pytest.raises(LedgerError):
                Ledger.open(tmp_path / name, "banks", 5, create=True)
            assert (tmp_path / name).read_bytes() == before
        with pytest.raises(LedgerError, match="does not exist"):
            Ledger.open(tmp_path / "missing.db")
        assert not (tmp_path / "missing.db").exists()
        with pytest.raises(LedgerError, match="needs a federation"):
            Ledger.open(tmp_path / "missing.db", create=True)
        with pytest.raises(LedgerError):
            Ledger.open(tmp_path / "no" / "such" / "folder.db", "f", 3, create=True)

    def test_unknown_payers_and_clients_are_refused_before_anything_is_written(self, ledger):
        head = ledger.head
        with pytest.raises(LedgerError, match="payers"):
            ledger.reserve("a", 1, ids(1), [Charge(SERVER, GAUSS, "everyone")])
        with pytest.raises(LedgerError, match="outside"):
            ledger.reserve("a", 1, ids(20), BOTH)
        with pytest.raises(LedgerError, match="repeat"):
            ledger.reserve("a", 1, ids(1, 1), BOTH)
        assert ledger.head == head


def _write(path, name, rounds):
    with Ledger.open(path, "f", 10, create=True) as ledger:
        for number in range(rounds):
            ledger.settle(ledger.reserve(name, number, ids(number % 10), BOTH), BOTH)


def test_processes_share_one_ledger(tmp_path):
    path, context = tmp_path / "l.db", multiprocessing.get_context("fork")
    workers = [context.Process(target=_write, args=(path, f"run {k}", 20)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    with Ledger.open(path) as ledger:
        ledger.verify()
        assert Counter(entry.run for entry in ledger.entries) == {f"run {k}": 20 for k in range(4)}
        assert ledger.participations.tolist() == [8] * 10


def test_each_process_sees_the_others_reservations(tmp_path):
    with Ledger.open(tmp_path / "l.db", "f", 5, create=True) as one, Ledger.open(tmp_path / "l.db") as two:
        budget = Budget(price({GAUSS: 1}).epsilon(1e-5) * 1.001, 1e-5)
        charge = [Charge(SERVER, GAUSS)]
        assert one.affordable(charge, budget).allowed.all()
        two.reserve("other", 1, ids(0, 1, 2), charge)
        assert one.affordable(charge, budget).allowed.tolist() == [False] * 3 + [True] * 2


def test_a_killed_copy_of_the_file_holds_what_was_reserved(tmp_path):
    """What a crash of the machine leaves, at the moment when `reserve` has returned, is the database and its log."""
    import shutil

    with Ledger.open(tmp_path / "l.db", "f", 5, create=True) as ledger:
        for number in range(5):
            ledger.reserve("r", number, ids(1), BOTH)
            image = tmp_path / f"image{number}"
            image.mkdir()
            for part in tmp_path.glob("l.db*"):
                shutil.copy(part, image / part.name)
            with Ledger.open(image / "l.db") as copy:
                assert len(copy.entries) == number + 1
                copy.verify()


def test_commits_are_synced(ledger):
    raw = ledger._chain._connection
    assert raw.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert raw.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_rows_are_plain_to_read(ledger, tmp_path):
    ledger.settle(ledger.reserve("a", 1, ids(1, 2), BOTH), BOTH, digest="bits")
    raw = sqlite3.connect(tmp_path / "ledger.db")
    kinds = raw.execute("SELECT kind, body FROM rows ORDER BY seq").fetchall()
    raw.close()
    assert [kind for kind, _ in kinds] == ["open", "join", "reserve", "settle"]
    assert json.loads(kinds[2][1])["charges"][1]["event"]["event"]["noise_multiplier"] == 2.0


def test_an_earlier_state_can_be_read(ledger, tmp_path):
    ledger.reserve("a", 1, ids(1), BOTH)
    head = ledger.head
    ledger.reserve("a", 2, ids(1), BOTH)
    with Ledger.open(tmp_path / "ledger.db", write=False, until=head) as before:
        assert len(before.entries) == 1
    with pytest.raises(LedgerTampered, match="never had"):
        Ledger.open(tmp_path / "ledger.db", write=False, until="00" * 32)
