"""Clients have names: what each has spent follows it from study to study, and nobody reads a name off the books."""

import hashlib
import sqlite3
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.account.accountants.accountant import price
from sordino.account.accountants.filter import GaussianFilter
from sordino.account.certificate.certificate import certify
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.chain_reader import LedgerRow
from sordino.account.ledger.ledger import Ledger
from sordino.account.ledger.listing import listing
from sordino.errors import LedgerError
from sordino.events import Charge, GaussianDpEvent, Guarantee, PoissonSampledDpEvent

SERVER = Guarantee("client", "server", "zero_out")
OUTSIDER = Guarantee("client", "outsider", "add_remove")
RECORD = Guarantee("record", "server", "add_remove")
GAUSS = GaussianDpEvent(2.0)
SAMPLED = PoissonSampledDpEvent(0.2, GaussianDpEvent(2.0))
BOTH = (Charge(SERVER, GAUSS), Charge(OUTSIDER, SAMPLED, "eligible"))


def ids(*clients):
    return np.array(clients, np.int64)


@pytest.fixture
def study(tmp_path):
    def opened(*names, **options):
        return Ledger.open(tmp_path / "ledger.db", "hospitals", list(names), create=True, **options)

    return opened


def spent(ledger, guarantee, name):
    return ledger.book(guarantee).histories(ids(ledger.number(name)))[0]


class TestNames:
    def test_who_takes_part_in_two_studies_pays_for_both(self, study):
        with study("anna", "bert") as one:
            for number in range(10):
                one.settle(one.reserve("one", number, ids(0, 1), BOTH), BOTH)
        with study("bert", "carl") as two:
            for number in range(10):
                two.settle(two.reserve("two", number, ids(0, 1), BOTH), BOTH)
            assert two.population == 3
            for guarantee, event in ((SERVER, GAUSS), (OUTSIDER, SAMPLED)):
                assert spent(two, guarantee, "anna") == {event: 10}
                assert spent(two, guarantee, "bert") == {event: 20}
                assert spent(two, guarantee, "carl") == {event: 10}
            assert two.participations[two.members].tolist() == [20, 10]
            twenty = price({GAUSS: 20}, "pld", "zero_out").epsilon(1e-5)
            assert certify(two, 1e-5).entry("client", "server").epsilon == pytest.approx(twenty)

    def test_the_order_of_names_does_not_matter(self, study):
        with study("anna", "bert", "carl") as one:
            one.reserve("one", 1, ids(2), [Charge(SERVER, GAUSS)])
        with study("carl", "anna") as two:
            assert two.members.tolist() == [2, 0]
            two.reserve("two", 1, ids(0), [Charge(SERVER, GAUSS)])
            assert spent(two, SERVER, "carl") == {GAUSS: 2}
            assert two.population == 3

    def test_budgets_speak_of_the_runs_clients(self, study):
        charge = [Charge(SERVER, GAUSS)]
        one, two = (price({GAUSS: n}).epsilon(1e-5) for n in (1, 2))
        with study("anna", "bert", "carl") as first:
            first.reserve("one", 1, ids(1, 2), charge)
        with study("dora", "carl", "anna") as second:
            budget = Budget((one + two) / 2, 1e-5)
            assert second.affordable(charge, budget).allowed.tolist() == [True, False, True]
            filters = {SERVER: GaussianFilter(budget.epsilon, 1e-5)}
            found = second.affordable(charge, budget, filters=filters)
            assert (found.allowed.tolist(), found.capped.tolist()) == ([True, False, True], [False, True, False])
            strict = Budget(budget.epsilon, 1e-5, {0: one / 2})
            assert second.affordable(charge, strict).allowed.tolist() == [False, False, True]
            assert second.limits(strict).tolist() == [budget.epsilon] * 3 + [one / 2]

    def test_an_opening_release_asks_the_budget(self, study):
        """L2: a release before the first round, which everybody pays for."""
        opening = [Charge(SERVER, GAUSS)]
        budget = Budget(price({GAUSS: 2}).epsilon(1e-5) * 1.001, 1e-5)
        with study("anna", "bert") as one:
            for number in range(2):
                one.reserve("one", number, ids(0), opening)
        with study("anna", "bert", "carl") as two:
            assert two.affordable(opening, budget).allowed.tolist() == [False, True, True]
            two.reserve("two", 0, ids(1, 2), opening)
            two.reserve("two", 1, ids(1), opening)
            assert two.affordable(opening, budget).allowed.tolist() == [False, False, True]

    def test_who_is_not_of_the_study_is_not_eligible(self, study):
        with study("anna", "bert") as one, study("bert", "carl", "dora") as two:
            two.reserve("two", 1, ids(0), BOTH, excluded=ids(2))
            one.reserve("one", 1, ids(0), BOTH)
            wanted = {"anna": 1, "bert": 2, "carl": 1, "dora": 0}
            for books in (one, two):
                books.refresh()
                assert {name: sum(spent(books, OUTSIDER, name).values()) for name in wanted} == wanted

    def test_a_study_that_is_played_again_is_not_charged_because_others_came(self, study):
        with study("anna", "bert") as one:
            first = one.reserve("one", 1, ids(0), BOTH, repeatable=True, fingerprint="seed")
            with study("carl", *(f"more {k}" for k in range(100))) as two:
                two.reserve("two", 1, ids(0), BOTH)
            assert one.reserve("one", 1, ids(0), BOTH, repeatable=True, fingerprint="seed") == first
            one.settle(first, BOTH, senders=ids(0), digest="bits")
        with study("anna", "bert") as again:
            assert again.reserve("one", 1, ids(0), BOTH, repeatable=True, fingerprint="seed") == first
            assert spent(again, OUTSIDER, "carl") == {SAMPLED: 1}

    @pytest.mark.parametrize(
        ("names", "says"),
        [
            (["anna", "anna"], "repeat a name"),
            (["anna", " bert"], "white space"),
            (["anna", ""], "white space"),
            (["e\u0301va", "\u00e9va"], "repeat a name"),
            ([], "one or more"),
            ("anna", "list of names"),
        ],
    )
    def test_names_that_could_hide_somebody_are_refused(self, tmp_path, names, says):
        with pytest.raises(LedgerError, match=says):
            Ledger.open(tmp_path / "l.db", "f", names, create=True)

    def test_names_and_positions_do_not_mix(self, study, tmp_path):
        study("anna", "bert").close()
        with pytest.raises(LedgerError, match="by name"):
            Ledger.open(tmp_path / "ledger.db", "hospitals", 2)
        Ledger.open(tmp_path / "places.db", "f", 5, create=True).close()
        with pytest.raises(LedgerError, match="outside the population"):
            Ledger.open(tmp_path / "places.db", "f", ["anna"])
        for wrong in (["5"], ["-1"], ["01"]):
            with pytest.raises(LedgerError, match="outside the population"):
                Ledger.open(tmp_path / "places.db", "f", wrong)
        for count in (4, 6):
            with pytest.raises(LedgerError, match="counts 5 clients"):
                Ledger.open(tmp_path / "places.db", "f", count)

    def test_some_positions_are_names_too(self, tmp_path):
        with Ledger.open(tmp_path / "l.db", "f", 5, create=True) as one:
            one.reserve("one", 1, ids(3), [Charge(SERVER, GAUSS)])
        with Ledger.open(tmp_path / "l.db", "f", ["4", "3"]) as two:
            two.reserve("two", 1, ids(1), BOTH)
            assert spent(two, SERVER, "3") == {GAUSS: 2}
            assert spent(two, OUTSIDER, "0") == {}

    def test_a_client_outside_the_run_is_refused(self, study):
        study("anna", "bert", "carl").close()
        with study("bert") as two, pytest.raises(LedgerError, match="outside the population 0 … 0"):
            two.reserve("two", 1, ids(1), BOTH)

    def test_a_reader_finds_clients_and_adds_none(self, study, tmp_path):
        study("anna", "bert").close()
        with Ledger.open(tmp_path / "ledger.db", write=False, clients=["bert"]) as ledger:
            assert ledger.members.tolist() == [1]
            with pytest.raises(LedgerError, match="knows no client 'carl'"):
                ledger.number("carl")
        with pytest.raises(LedgerError, match="does not know all"):
            Ledger.open(tmp_path / "ledger.db", write=False, clients=["carl"])

    def test_the_listing_of_a_newcomer_starts_with_it(self, study):
        with study("anna") as one:
            one.reserve("one", 1, ids(0), BOTH)
        with study("anna", "bert") as two:
            two.reserve("two", 1, ids(0), BOTH)
            lines = list(listing(two, client=two.number("bert")))
        assert [(line.run, line.guarantee) for line in lines] == [("two", OUTSIDER)]


names = st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=1, max_size=26, unique=True)
studies = st.lists(st.tuples(names, st.randoms(use_true_random=False), st.booleans()), min_size=1, max_size=6)


@given(studies, st.booleans())
@settings(max_examples=30, deadline=None)
def test_books_over_studies_agree_with_lists(tmp_path_factory, plan, many):
    """Any studies over any clients, books open from the start or not, against a plain bookkeeping by name."""
    path, wanted = tmp_path_factory.mktemp("books") / "l.db", {SERVER: Counter(), OUTSIDER: Counter()}
    with Ledger.open(path, "f", [f"z{k}" for k in range(80 if many else 1)], create=True) as live:
        live.book(OUTSIDER), live.book(SERVER)
        late = []
        for number, (who, random, settled) in enumerate(plan):
            with Ledger.open(path, "f", who) as ledger:
                chosen = [k for k in range(len(who)) if random.random() < 0.5]
                excluded = [k for k in range(len(who)) if random.random() < 0.2]
                reservation = ledger.reserve("run", number, ids(*chosen), BOTH, ids(*excluded))
                sent = [k for k in chosen if random.random() < 0.7] if settled else chosen
                if settled:
                    late.append((who, reservation, sent))
                wanted[SERVER].update(who[k] for k in sent)
                wanted[OUTSIDER].update(who[k] for k in range(len(who)) if k not in excluded)
        for who, reservation, sent in late:  # after everybody has come
            with Ledger.open(path, "f", who) as ledger:
                ledger.settle(reservation, BOTH, senders=ids(*sent))
        live.refresh()
        with Ledger.open(path, write=False) as fresh:
            known = {name for who, _, _ in plan for name in who}
            for books in (live, fresh):
                books.verify()
                for guarantee, event in ((SERVER, GAUSS), (OUTSIDER, SAMPLED)):
                    book = books.book(guarantee)
                    for name in known:
                        assert spent(books, guarantee, name) == +Counter({event: wanted[guarantee][name]})
                    groups = {frozenset(group.history.items()): group.clients for group in book.groups()}
                    histories = Counter(frozenset(h.items()) for h in book.histories(np.arange(books.population)))
                    assert groups == histories
                    counts = book.sums({event: np.ones(1)})[0] if book.events() else np.zeros(books.population)
                    assert [round(counts[books.number(name)]) for name in known] == [
                        wanted[guarantee][name] for name in known
                    ]


class TestSecrets:
    def everything(self, folder):
        return b"".join(part.read_bytes() for part in sorted(folder.iterdir()) if not part.name.endswith(".key"))

    def test_names_holders_and_fingerprints_are_in_no_file_not_even_as_plain_digests(self, study, tmp_path):
        told = {
            "name": b"anna of ward nine",
            "holders": b"label 1 of anna",
            "mark": b"data digest",
            "bits": b"released",
        }
        with study("anna of ward nine", "bert", holders=told["holders"]) as ledger:
            number = ledger.reserve("one", 1, ids(0), BOTH, fingerprint=told["mark"].decode())
            ledger.settle(number, BOTH, digest=told["bits"].decode())
            stored = self.everything(tmp_path)
        for content in told.values():
            assert content not in stored
            for algorithm in ("sha256", "sha1", "md5", "blake2b", "blake2s", "sha512", "sha3_256"):
                for length in (8, 16):
                    plain = hashlib.new(algorithm, content).digest()[:length]
                    assert plain not in stored
                    assert plain.hex().encode() not in stored
            for size in (16, 32):
                for person in (b"", b"sordino.client", b"sordino.holders", b"sordino.mark"):
                    plain = hashlib.blake2b(content, digest_size=size, person=person).digest()
                    assert plain not in stored
                    assert plain.hex().encode() not in stored

    def test_two_ledgers_digest_one_name_differently(self, tmp_path):
        found = []
        for place in ("one.db", "two.db"):
            Ledger.open(tmp_path / place, "f", ["anna"], create=True).close()
            raw = sqlite3.connect(tmp_path / place)
            found.append(raw.execute("SELECT cohort FROM rows WHERE kind = 'join'").fetchone()[0])
            raw.close()
        assert len(found[0]) == len(found[1]) == 16
        assert found[0] != found[1]

    def test_a_published_head_does_not_answer_guesses_about_its_row(self, study, tmp_path):
        """Who knows every row, all heads and everything but the salt cannot tell which cohort a head stands for."""
        with study("anna", "bert") as ledger:
            ledger.reserve("one", 1, ids(0), BOTH)
        raw = sqlite3.connect(tmp_path / "ledger.db")
        rows = raw.execute("SELECT seq, kind, body, cohort, excluded, hash FROM rows ORDER BY seq").fetchall()
        raw.close()
        published = (tmp_path / "ledger.db.heads.jsonl").read_text()
        assert rows[-1][-1].hex() in published
        for (*_, before), (*content, link) in pairwise(rows):
            for salt in (b"", bytes(32)):
                assert LedgerRow(*content).chained(before, salt) != link


class TestHolders:
    def test_the_same_clients_with_other_holdings_are_refused(self, study):
        study("anna", "bert", holders=b"deal 1").close()
        study("bert", "anna", holders=b"deal 1").close()
        with pytest.raises(LedgerError, match="hold other records"):
            study("anna", "bert", holders=b"deal 2")
        with pytest.raises(LedgerError, match="tell the holders"):
            study("anna", "bert")
        study("anna", "bert", "carl", holders=b"deal 3").close()
        study("anna", "bert", holders=b"deal 1").close()

    def test_positions_dealt_anew_are_refused(self, tmp_path):
        """F5: another seed makes "client 17" somebody else."""
        Ledger.open(tmp_path / "l.db", "f", 333, create=True, holders=b"seed 0").close()
        Ledger.open(tmp_path / "l.db", "f", 333, create=True, holders=b"seed 0").close()
        with pytest.raises(LedgerError, match="hold other records"):
            Ledger.open(tmp_path / "l.db", "f", 333, create=True, holders=b"seed 1")

    def test_one_a_client_binds_every_company_it_comes_in(self, study, tmp_path):
        study("anna", "bert", holders=[b"a", b"b"]).close()
        study("carl", "bert", holders=[b"c", b"b"]).close()
        with pytest.raises(LedgerError, match=r"1 of 2 clients hold other records .*client 1 of this run"):
            study("anna", "carl", holders=[b"a", b"moved"])
        with pytest.raises(LedgerError, match="2 of 2"):
            study("anna", "bert", holders=[b"b", b"a"])
        with pytest.raises(LedgerError, match="one a client"):
            study("anna", "bert", holders=[b"a"])
        study("carl", "anna", "bert", holders=[b"c", b"a", b"b"]).close()
        raw = sqlite3.connect(tmp_path / "ledger.db")
        kinds = [kind for (kind,) in raw.execute("SELECT kind FROM rows ORDER BY seq")]
        raw.close()
        assert kinds == ["open", *["join", "hold"] * 3]  # the last run has nobody new, and as many rows

    def test_the_same_people_under_new_names_are_refused(self, study):
        study("anna", "bert", holders=[b"a", b"b"]).close()
        with pytest.raises(LedgerError, match=r"1 clients join under new names \(client 1 of this run"):
            study("bert", "Anna", holders=[b"b", b"a"])
        # who holds what somebody holds who is here too is somebody else
        study("anna", "bert", "twin", holders=[b"a", b"b", b"a"]).close()

    def test_a_refused_run_leaves_nothing(self, study, tmp_path):
        with study("anna", "bert", holders=[b"a", b"b"]) as ledger:
            head = ledger.head
            with pytest.raises(LedgerError):
                study("anna", "carl", "dora", holders=[b"x", b"c", b"d"])
            ledger.refresh()
            assert (ledger.head, ledger.population) == (head, 2)


class TestWords:
    def test_earlier_runs_are_named_with_what_they_took(self, study):
        with study("anna", "bert") as one:
            for number in range(3):
                one.reserve("one", number, ids(0), [Charge(SERVER, GAUSS)])
            assert one.spent_words(SERVER, run="one") == ""
        with study("bert", "carl") as two:
            assert two.spent_by_runs(SERVER) == []  # anna paid, and is not here
            two.reserve("two", 1, ids(0, 1), [Charge(SERVER, GAUSS)])
        with study("anna", "bert") as three:
            cost = {n: price({GAUSS: n}, "pld", "zero_out").epsilon(1e-5) for n in (1, 3)}
            assert three.spent_by_runs(SERVER) == [("one", pytest.approx(cost[3])), ("two", pytest.approx(cost[1]))]
            words = three.spent_words(SERVER, epsilon=4.0)
            assert "one (ε = " in words and "two (ε = " in words and "ε = 4" in words
            assert three.spent_by_runs(RECORD) == [("one", np.inf), ("two", np.inf)]

    def test_promises_that_clash_are_told_before_a_run(self, study):
        with study("anna", "bert") as one:
            assert one.clash([RECORD]) == []
            one.reserve("one", 1, ids(0), [Charge(SERVER, GAUSS)])
            assert one.clash([SERVER]) == []
            assert one.clash([RECORD], run="one") == []
            told = one.clash([RECORD])
        assert len(told) == 2
        assert "promise to a record" in told[0] and "run one" in told[0]
        assert "promise to a client" in told[1] and "becomes ∞" in told[1]


def test_a_hundred_thousand_names_are_found_rightly_in_a_small_file(tmp_path):
    everybody = [f"patient {k}" for k in range(100_000)]
    Ledger.open(tmp_path / "l.db", "f", everybody, create=True).close()
    order = np.random.default_rng(0).permutation(100_000)
    with Ledger.open(tmp_path / "l.db", "f", [everybody[k] for k in order[:50_000]] + ["new"]) as again:
        assert np.array_equal(again.members, [*order[:50_000], 100_000])
        assert again.population == 100_001
    assert (tmp_path / "l.db").stat().st_size < 3e6


def test_digests_that_agree_by_half_are_told_apart():
    from sordino.account.ledger.clients import _matched

    def pair(low, high):
        return low.to_bytes(8, "little") + high.to_bytes(8, "little")

    known = b"".join(pair(*p) for p in [(5, 9), (5, 1), (7, 2), (5, 4), (0, 0)])
    wanted = b"".join(pair(*p) for p in [(5, 4), (5, 5), (9, 9), (0, 0), (5, 9), (7, 2), (0, 1)])
    assert _matched(known, wanted).tolist() == [3, -1, -1, 4, 0, 2, -1]
    assert _matched(b"", wanted).tolist() == [-1] * 7
