"""Certificates: what is certified, what is only claimed, for whom, and that it survives being written down."""

import json
import math

import numpy as np
import pytest

from sordino.account.accountants.accountant import price
from sordino.account.accountants.filter import GaussianFilter, RdpFilter
from sordino.account.certificate.certificate import CURVE_DELTAS, Certificate, ClaimedEpsilon, certify
from sordino.account.certificate.verify import verify
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.coverage import implies
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError, LedgerTampered
from sordino.events import Charge, GaussianDpEvent, Guarantee, PoissonSampledDpEvent, Unbounded

SERVER = Guarantee("client", "server", "zero_out")
OUTSIDER = Guarantee("client", "outsider", "add_remove")
RECORD = Guarantee("record", "server", "add_remove")
GAUSS = GaussianDpEvent(3.0)
SAMPLED = PoissonSampledDpEvent(0.1, GaussianDpEvent(3.0))
BOTH = (Charge(SERVER, GAUSS), Charge(OUTSIDER, SAMPLED, "eligible"))


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path / "ledger.db", "clinics", 10, create=True) as opened:
        for number in range(4):
            cohort = np.array([0] if number else [0, 1, 2, 3, 4, 5])
            opened.settle(opened.reserve("run", number, cohort, BOTH), BOTH)
        yield opened


def test_numbers_follow_from_histories(ledger):
    certificate = certify(ledger, 1e-5, budget=Budget(4.0, 1e-5))
    server, outsider = certificate.entry("client", "server"), certificate.entry("client", "outsider")
    assert server.epsilon == price({GAUSS: 4}).epsilon(1e-5)
    assert (server.worst.client, server.worst.participations) == (0, 4)
    assert server.median_epsilon == pytest.approx(price({GAUSS: 1}).epsilon(1e-5))
    assert outsider.epsilon == outsider.median_epsilon == price({SAMPLED: 4}).epsilon(1e-5)
    assert (server.accountant, outsider.accountant) == ("exact", "pld")
    assert (server.status, server.adjacency, server.delta) == ("certified", "zero_out", 1e-5)
    assert [delta for delta, _ in server.curve] == list(CURVE_DELTAS)
    assert (CURVE_DELTAS[0], CURVE_DELTAS[-1]) == (1e-9, 1e-3)
    assert all(found == price({GAUSS: 4}).epsilon(delta) for delta, found in server.curve)
    assert certificate.releases == 4
    assert certificate.ledger_head == ledger.head


def test_who_is_near_the_limit(ledger):
    spent = price({GAUSS: 4}).epsilon(1e-5)
    for epsilon, near in ((spent * 1.05, 1), (spent * 1.2, 0), (price({GAUSS: 1}).epsilon(1e-5), 6)):
        assert certify(ledger, 1e-5, budget=Budget(epsilon, 1e-5)).entry("client", "server").near_limit == near
    assert certify(ledger, 1e-5).entry("client", "server").near_limit is None


def test_claimed_only_and_unprotected(ledger):
    lost = (
        Charge(SERVER, Unbounded("the threshold follows private weights")),
        Charge(RECORD, Unbounded("raw gradients")),
    )
    ledger.reserve("run", 9, np.array([3]), (*lost, BOTH[1]))
    claims = {SERVER: ClaimedEpsilon(2.72, "Eq. (12)"), OUTSIDER: ClaimedEpsilon(1.5)}
    certificate = certify(ledger, 1e-5, claims=claims)
    server = certificate.entry("client", "server")
    assert (server.epsilon, server.status, server.claimed_epsilon) == (None, "claimed-only", 2.72)
    assert server.reason == "the threshold follows private weights"
    assert server.worst.client == 3
    assert all(value is None for _, value in server.curve)
    assert certificate.entry("record", "server").status == "unprotected"
    outsider = certificate.entry("client", "outsider")
    assert (outsider.status, outsider.claimed_epsilon) == ("certified", 1.5)


def test_json_round_trip_and_bad_files(ledger):
    ledger.reserve("run", 9, np.array([3]), (Charge(RECORD, Unbounded("raw")),))
    certificate = certify(ledger, 1e-5, budget=Budget(4.0, 1e-5), simulation=True)
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert json.loads(certificate.to_json())["entries"][2]["epsilon"] is None
    for text in ("", "{}", "[]", certificate.to_json().replace('"worst"', '"best"')):
        with pytest.raises(LedgerError, match="cannot be read"):
            Certificate.from_json(text)
    with pytest.raises(LedgerError, match="upgrade"):
        Certificate.from_json(certificate.to_json().replace('"format": 1', '"format": 2'))


def test_it_can_be_read_in_a_terminal(ledger):
    ledger.reserve("run", 9, np.array([3]), (*BOTH, Charge(RECORD, Unbounded("raw gradients"))))
    text = str(certify(ledger, 1e-5, claims={RECORD: ClaimedEpsilon(0.5, "Eq. (6)")}, simulation=True))
    for words in ("clinics", "claimed-only", "certified", "∞", "raw gradients", "Eq. (6)", "simulation", "zero_out"):
        assert words in text


class TestAdaptive:
    def test_the_filter_promises_its_budget_not_the_path(self, ledger):
        chosen = {SERVER: GaussianFilter(5.0, 1e-5)}
        entry = certify(ledger, 1e-5, filters=chosen).entry("client", "server")
        assert entry.epsilon == pytest.approx(5.0)
        assert entry.epsilon > price({GAUSS: 4}).epsilon(1e-5)
        assert entry.accountant == "gaussian-filter"
        assert "filter" in entry.note
        assert entry.median_epsilon == pytest.approx(5.0)

    def test_more_than_the_filter_admits_is_not_certified(self, ledger):
        entry = certify(ledger, 1e-5, filters={SERVER: GaussianFilter(0.5, 1e-5)}).entry("client", "server")
        assert (entry.epsilon, entry.status) == (None, "unprotected")
        assert "more was released" in entry.reason

    def test_sampled_noise_uses_the_renyi_filter(self, ledger):
        chosen = RdpFilter.planned(4.0, 1e-5, SAMPLED, "add_remove")
        entry = certify(ledger, 1e-5, filters={OUTSIDER: chosen}).entry("client", "outsider")
        assert entry.epsilon == pytest.approx(4.0)
        assert entry.accountant == chosen.name


class TestStoppedByParticipation:
    def test_the_outsider_is_promised_what_the_server_is(self, ledger):
        free, coins = certify(ledger, 1e-5), certify(ledger, 1e-5, stopped_by_participation=True)
        server, outsider = coins.entry("client", "server"), coins.entry("client", "outsider")
        assert outsider.epsilon == server.epsilon > free.entry("client", "outsider").epsilon
        assert outsider.adjacency == "zero_out"
        assert "too few clients" in outsider.note
        assert coins.entry("client", "server") == free.entry("client", "server")

    def test_without_a_promise_against_the_server_nothing_is_left(self, tmp_path):
        with Ledger.open(tmp_path / "l.db", "f", 10, create=True) as ledger:
            ledger.reserve("run", 1, np.array([1]), BOTH[1:])
            entry = certify(ledger, 1e-5, stopped_by_participation=True).entry("client", "outsider")
        assert (entry.epsilon, entry.status) == (None, "unprotected")
        assert "too few" in entry.reason


class TestOtherPromises:
    """A release is never forgotten because it was charged under another promise."""

    def test_a_run_that_promised_nothing_of_the_kind_leaves_it_unprotected(self, ledger):
        ledger.reserve("sgd", 1, np.array([4, 5]), [Charge(RECORD, SAMPLED)])
        certificate = certify(ledger, 1e-5, budget=Budget(4.0, 1e-5))
        for observer in ("server", "outsider"):
            entry = certificate.entry("client", observer)
            assert (entry.epsilon, entry.status, entry.worst.client) == (None, "unprotected", 4)
            assert f"run sgd promised nothing to a client against the {observer}" in entry.reason
            assert entry.near_limit == 2
        assert certificate.entry("record", "server").epsilon is None

    def test_a_stronger_promise_is_counted_under_a_weaker_one(self, ledger):
        strong = Guarantee("client", "server", "replace")
        before = certify(ledger, 1e-5).entry("client", "server").epsilon
        ledger.reserve("local", 1, np.array([0]), [Charge(strong, GAUSS)])
        found = {entry.adjacency: entry for entry in certify(ledger, 1e-5).entries if entry.observer == "server"}
        assert found["zero_out"].epsilon == price({GAUSS: 5}).epsilon(1e-5) > before
        assert found["replace"].epsilon is None
        assert not ledger.affordable(BOTH[:1], Budget(price({GAUSS: 5}).epsilon(1e-5), 1e-5)).allowed[0]

    @pytest.mark.parametrize(
        ("given", "wanted", "follows"),
        [
            (("client", "server", "replace"), ("client", "server", "zero_out"), True),
            (("client", "server", "replace"), ("client", "outsider", "replace"), True),
            (("client", "server", "replace"), ("record", "outsider", "add_remove"), True),
            (("client", "server", "zero_out"), ("client", "outsider", "zero_out"), True),
            (("client", "server", "zero_out"), ("client", "server", "replace"), False),
            (("client", "server", "zero_out"), ("client", "outsider", "add_remove"), False),
            (("client", "server", "zero_out"), ("record", "server", "zero_out"), False),
            (("client", "outsider", "add_remove"), ("client", "server", "add_remove"), False),
            (("record", "server", "replace"), ("client", "server", "replace"), False),
        ],
    )
    def test_what_follows_from_what(self, given, wanted, follows):
        assert implies(Guarantee(*given), Guarantee(*wanted)) is follows


class TestEarlyEnd:
    def test_its_chance_is_taken_out_of_delta(self, ledger):
        entry = certify(ledger, 1e-5, early_end=4e-6).entry("client", "outsider")
        assert entry.epsilon == price({SAMPLED: 4}).epsilon(6e-6)
        assert dict(entry.curve)[1e-6] is None
        assert "4e-06 of δ" in entry.note
        assert certify(ledger, 1e-5, early_end=4e-6).entry("client", "server") == certify(ledger, 1e-5).entry(
            "client", "server"
        )

    def test_too_likely_means_no_amplification(self, ledger):
        likely = certify(ledger, 1e-5, early_end=1e-5)
        assert likely.entry("client", "outsider").epsilon == likely.entry("client", "server").epsilon


class TestVerify:
    def test_a_true_certificate_holds(self, ledger, tmp_path):
        for options in ({}, {"stopped_by_participation": True}, {"filters": {SERVER: GaussianFilter(5.0, 1e-5)}}):
            told = list(verify(tmp_path / "ledger.db", certify(ledger, 1e-5, **options)))
            assert [line.split(":")[0] for line in told] == ["chain", "costs", "heads", "certificate"]

    def test_a_certificate_of_an_earlier_state_still_holds(self, ledger, tmp_path):
        before = certify(ledger, 1e-5)
        ledger.reserve("run", 9, np.array([0]), BOTH)
        assert len(list(verify(tmp_path / "ledger.db", before))) == 4

    @pytest.mark.parametrize("edit", [('"epsilon": 2.', '"epsilon": 1.'), ('"releases": 4', '"releases": 3')])
    def test_an_edited_certificate_is_found(self, ledger, tmp_path, edit):
        text = certify(ledger, 1e-5).to_json()
        assert edit[0] in text
        with pytest.raises(LedgerTampered):
            list(verify(tmp_path / "ledger.db", Certificate.from_json(text.replace(*edit))))

    def test_a_certificate_of_another_ledger_is_found(self, ledger, tmp_path):
        certificate = certify(ledger, 1e-5)
        with Ledger.open(tmp_path / "other.db", "clinics", 10, create=True) as other:
            other.reserve("run", 1, np.array([1]), BOTH)
        with pytest.raises(LedgerTampered, match="never had"):
            list(verify(tmp_path / "other.db", certificate))


def test_promises_never_asked_for_before(ledger, tmp_path):
    certificate = certify(ledger, 1e-5, guarantees=[Guarantee("client", "outsider", "zero_out")])
    assert certificate.entry("client", "outsider").epsilon == price({GAUSS: 4}).epsilon(1e-5)
    with Ledger.open(tmp_path / "new.db", "new", 5, create=True) as new:
        entry = certify(new, 1e-5, guarantees=[RECORD]).entry("record", "server")
    assert (entry.epsilon, entry.status) == (0.0, "certified")
    with pytest.raises(LedgerError):
        certify(ledger, 1e-5, guarantees=[RECORD]).entry("client", "server")
    assert math.isclose(entry.median_epsilon, 0.0)
