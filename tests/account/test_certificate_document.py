"""The certificate as a document: complete, signed, recomputable by a stranger, and free of anything private."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from account.schema import complaints
from sordino.account.accountants.accountant import price
from sordino.account.accountants.exact import epsilon_of
from sordino.account.accountants.filter import GaussianFilter
from sordino.account.certificate.certificate import certify
from sordino.account.certificate.check import check
from sordino.account.certificate.document import CertificateDocument, Statement
from sordino.account.certificate.proof import Proof, curve_of, doubled, numbers
from sordino.account.certificate.publish import publish
from sordino.account.certificate.registry import entry, registry
from sordino.account.certificate.text import markdown
from sordino.account.certificate.view import View
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.keys import LedgerKey
from sordino.account.ledger.ledger import Ledger
from sordino.cli.app import app, register
from sordino.errors import LedgerError, LedgerTampered
from sordino.events import (
    Charge,
    CorrelatedGaussian,
    DiscreteGaussian,
    GaussianDpEvent,
    Guarantee,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    Skellam,
    Unbounded,
    encode,
)

SERVER = Guarantee("client", "server", "zero_out")
OUTSIDER = Guarantee("client", "outsider", "add_remove")
GAUSS = GaussianDpEvent(3.0)
SAMPLED = PoissonSampledDpEvent(0.1, GAUSS)
BOTH = (Charge(SERVER, GAUSS), Charge(OUTSIDER, SAMPLED, "eligible"))
COHORTS = [[60, 61, 62], [60], [60, 7], [3]]


def seen(observer, **more):
    fields = {"messages": "none", "bare": False, "revealed": False, "cohort": False} | more
    return View(observer, **fields)


def statement(trust="distributed", outsider=None):
    views = {"server": seen("server", messages="sums", cohort=True, files=()), "outsider": outsider or seen("outsider")}
    words = dict.fromkeys(
        ("sampling_assumed", "sampling_executed", "denominator", "noise_source", "arithmetic", "secure_sum"), "said"
    )
    lists = {"data_accesses": ("rounds: charged",), "unprotected": (), "assumptions": ("honesty",)}
    return Statement("m", "certified", trust, views, **words, **lists, code_version="1")


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path / "ledger.db", "clinics", 100, create=True) as opened:
        for number, cohort in enumerate(COHORTS):
            opened.settle(opened.reserve("run", number, np.array(cohort), BOTH), BOTH)
        yield opened


def made(ledger, trust="distributed", outsider=None, filters=None, **options):
    certificate = certify(ledger, 1e-5, filters=filters, simulation=True, **options)
    return publish(ledger, certificate, statement(trust, outsider), "run", "rounds", filters=filters)


def saved(document, tmp_path):
    path = tmp_path / "certificate.json"
    path.write_text(document.to_json())
    return path


class TestWhatItSays:
    def test_every_number_has_an_independent_source(self, ledger):
        outsider = made(ledger).promise("client", "outsider")
        assert outsider.epsilon == price({SAMPLED: 4}).epsilon(1e-5)
        assert dict(outsider.numbers.profile)[0.0] == outsider.numbers.advantage == price({SAMPLED: 4}).delta(0.0)
        for epsilon, delta in outsider.numbers.profile:
            assert delta == pytest.approx(price({SAMPLED: 4}).delta(epsilon), abs=1e-12)

    def test_a_gaussian_is_told_by_its_mu(self, ledger):
        server = made(ledger).promise("client", "server")
        assert server.numbers.mu == pytest.approx(2 / 3, rel=1e-4)
        assert server.numbers.regret < 1e-3
        advantage = math.erf(2 / 3 / (2 * math.sqrt(2)))  # 2Φ(μ/2) − 1
        assert server.numbers.advantage == pytest.approx(advantage, rel=1e-6)

    def test_it_survives_being_written_down(self, ledger):
        document = made(ledger)
        assert CertificateDocument.from_json(document.to_json()) == document
        with pytest.raises(LedgerError, match="cannot be read"):
            CertificateDocument.from_json("{}")

    def test_it_reads_as_plain_text_and_says_that_noise_was_seeded(self, ledger):
        text = str(made(ledger))
        assert "certified, for unseeded noise" in text and "its noise comes from a seed" in text
        for word in ("μ =", "whole curve", "false negatives", "sampling executed", "ledger head", "Ed25519", "sees:"):
            assert word in text
        assert max(map(len, text.splitlines())) <= 110
        assert "near their limit" not in text and "median" not in text and "worst" not in text

    @pytest.mark.parametrize("field", ["federation", "run", "time"])
    def test_names_that_strangers_chose_are_no_markup(self, ledger, field):
        """A certificate of somebody else's was put into a page with its tags, its links and its pictures."""
        hostile = "<img src=q onerror=alert(1)>![t](http://e)[l](http://e)\x1b[31m\n# heading"
        document = replace(made(ledger), **{field: hostile})
        shown = markdown(replace(document, statement=replace(document.statement, mechanism=hostile)))
        assert "<img" not in shown and not re.search(r"(?<!\\)\[[tl](?<!\\)\]", shown) and "\x1b" not in shown
        assert "\n# heading" not in shown and "&lt;img" in shown

    def test_markdown_and_registry_tell_the_same(self, ledger):
        document = made(ledger)
        outsider = document.promise("client", "outsider")
        assert f"{outsider.epsilon:.5g}" in markdown(document)
        told = entry(document)["deployment"]
        assert told["privacy_loss"]["privacy_parameters"] == {"epsilon": outsider.epsilon, "delta": 1e-5}
        yaml = pytest.importorskip("yaml")
        assert yaml.safe_load(registry(document)) == json.loads(json.dumps(entry(document)))

    @pytest.mark.parametrize("trust", ["distributed", "local", "central"])
    @pytest.mark.parametrize("proved", [True, False])
    def test_registry_entries_follow_the_registrys_schema(self, ledger, trust, proved):
        if not proved:
            nothing = (Charge(SERVER, Unbounded("nothing was bounded")), Charge(OUTSIDER, Unbounded("nothing")))
            ledger.settle(ledger.reserve("run", 9, np.array([3]), nothing), nothing)
        told = entry(made(ledger, trust))
        assert list(complaints(told)) == []
        assert told["deployment"]["dp_variant"]["variant_name"] == ("Approximate DP" if proved else "Custom")
        assert list(complaints(told | {"surprise": "1"})) == [": surprise is not foreseen"]
        assert list(complaints(told | {"tier": 0})) == ["/tier: 0 is none of [1, 2, 3]"]
        told["deployment"]["basic"]["publication_date"] = "1/1/2026"
        assert list(complaints(told)) == ["/deployment/basic/publication_date: '1/1/2026' is no date"]


class TestWhatItKeepsBack:
    def test_no_client_and_no_count_where_sampling_is_credited(self, ledger):
        """F10: client 60 took part three times, which a reader who trusts the outsider's ε must not learn."""
        document = made(ledger)
        server = document.promise("client", "server")
        assert server.proof.histories == (((encode(GAUSS), 4),),)  # of whoever took part in all, not of client 60
        assert (
            server.epsilon == price({GAUSS: 4}).epsilon(1e-5) > certify(ledger, 1e-5).entry("client", "server").epsilon
        )
        for text in (document.to_json(), str(document), markdown(document), registry(document)):
            for noise in (document.ledger_head, document.public_key, document.signature, document.time):
                text = text.replace(noise, "")
            assert not re.search(r"(?<![\d.])(60|61|62)(?![\d.])", text)

    def test_who_took_part_does_not_change_a_word(self, tmp_path):
        """The document is a function of releases, not of coins: other cohorts, the same document."""
        told = []
        for place, cohorts in enumerate((COHORTS, [[1], [2], [], [50, 51, 52, 53]])):
            with Ledger.open(tmp_path / f"{place}.db", "clinics", 100, create=True) as books:
                for number, cohort in enumerate(cohorts):
                    books.settle(books.reserve("run", number, np.array(cohort, np.int64), BOTH), BOTH)
                told.append(made(books, budget=Budget(9.0, 1e-5)))
        same = {"ledger_head": "", "public_key": "", "signature": "", "time": ""}
        assert replace(told[0], **same) == replace(told[1], **same)

    def test_the_budget_is_what_is_told_where_it_is_less(self, ledger):
        server = made(ledger, budget=Budget(2.6, 1e-5)).promise("client", "server")
        assert server.epsilon == pytest.approx(2.6) and "budget" in server.basis
        assert dict(server.numbers.curve)[1e-6] == price({GAUSS: 4}).epsilon(1e-6)

    def test_an_observer_who_sees_the_cohort_gets_no_credit_for_sampling(self, ledger):
        """The promise follows from the view: the same ledger, an outsider who sees who took part."""
        shown = made(ledger, outsider=seen("outsider", cohort=True)).promise("client", "outsider")
        assert shown.epsilon == price({GAUSS: 3}).epsilon(1e-5) > made(ledger).promise("client", "outsider").epsilon
        assert "sampling is not credited" in shown.basis

    def test_an_end_that_shows_who_took_part_gets_no_credit_either(self, ledger):
        told = made(ledger, stopped_by_participation=True).promise("client", "outsider")
        assert told.epsilon == price({GAUSS: 3}).epsilon(1e-5)

    def test_a_chance_of_such_an_end_is_taken_out_of_delta(self, ledger):
        told = made(ledger, early_end=4e-6).promise("client", "outsider")
        assert told.epsilon == pytest.approx(price({SAMPLED: 4}).epsilon(6e-6))

    def test_other_runs_on_the_ledger_are_assumed_not_to_follow_from_each_other(self, ledger):
        """F8: a run that was ended from the keyboard is charged for its path, which no release may have chosen."""
        assert not any("earlier ones released" in words for words in made(ledger).statement.assumptions)
        ledger.settle(ledger.reserve("another", 1, np.array([3]), BOTH), BOTH)
        assert "earlier ones released" in str(made(ledger)).replace("\n", " ").replace("    ", "")


class TestLocalTrust:
    def test_replace_is_printed_beside_zero_out(self, ledger):
        document = made(ledger, trust="local")
        both = [one.adjacency for one in document.promises if one.observer == "server"]
        assert both == ["zero_out", "replace"]
        assert document.promise("client", "server", "replace").epsilon == price({GaussianDpEvent(1.5): 4}).epsilon(1e-5)

    @pytest.mark.parametrize(("zero_out", "replaced"), [(1.0, 2.16), (4.0, 9.09), (8.0, 19.1)])
    def test_the_reviews_numbers(self, zero_out, replaced):
        from sordino.account.accountants.exact import separation_for

        mu = separation_for(zero_out, 1e-5)
        event = doubled(GaussianDpEvent(1 / mu))
        assert price({event: 1}).epsilon(1e-5) == pytest.approx(replaced, rel=5e-3)
        assert price({event: 1}).epsilon(1e-5) == pytest.approx(epsilon_of(2 * mu, 1e-5))

    @pytest.mark.parametrize(
        ("event", "twice"),
        [
            (LaplaceDpEvent(2.0), LaplaceDpEvent(1.0)),
            (CorrelatedGaussian(2.0), CorrelatedGaussian(1.0)),
            (Skellam(50.0, 2.0, 3.0), Skellam(50.0, 4.0, 6.0)),
            (DiscreteGaussian(5.0, 1.0), DiscreteGaussian(5.0, 2.0)),
            (SAMPLED, None),
        ],
    )
    def test_twice_as_far(self, event, twice):
        assert doubled(event) == twice

    def test_group_privacy_is_never_below_the_truth(self):
        proof = Proof((((encode(GAUSS), 2),),), "pld", "zero_out")
        for delta in (1e-7, 1e-5, 1e-3):
            group = curve_of(replace(proof, group=2)).epsilon(delta)
            true = price({GaussianDpEvent(1.5): 2}).epsilon(delta)
            assert true <= group <= 2 * true

    def test_a_filter_promises_its_own_and_is_doubled_by_groups(self, ledger):
        chosen = {SERVER: GaussianFilter(5.0, 1e-5)}
        document = made(ledger, trust="local", filters=chosen)
        assert document.promise("client", "server").epsilon == pytest.approx(5.0)
        assert document.promise("client", "server", "replace").proof.group == 2
        assert document.promise("client", "server", "replace").epsilon > 10


class TestCheck:
    def test_a_stranger_recomputes_all_of_it(self, ledger, tmp_path):
        path = saved(made(ledger, trust="local", budget=Budget(2.6, 1e-5)), tmp_path / "..")
        told = list(check(path))
        assert len(told) == 4 and "signature" in told[0] and "ε = " in told[1]
        list(check(path, ledger.public_key))
        with pytest.raises(LedgerTampered, match="not the one that you gave"):
            list(check(path, "00" * 32))

    @pytest.mark.parametrize(
        "edit",
        [
            lambda d: d["promises"][0]["numbers"].update(epsilon=0.1),
            lambda d: d["promises"][1]["numbers"]["profile"][0].__setitem__(1, 0.0),
            lambda d: d["promises"][1]["numbers"].update(mu=0.01),
            lambda d: d["promises"][1]["proof"]["histories"][0][0].__setitem__(1, 1),
            lambda d: d["promises"][1]["proof"].update(taken_out=0.0, budget=0.01, budget_delta=1e-9),
            lambda d: d["promises"][1].update(adjacency="replace"),
            lambda d: d["promises"].pop(),
            lambda d: d["statement"].update(noise_source="the operating system's entropy"),
            lambda d: d["statement"]["views"]["outsider"].update(cohort=True),
            lambda d: d.update(simulation=False),
            lambda d: d.update(ledger_head="00" * 32),
            lambda d: d.update(signature="00" * 64),
            lambda d: d.update(remark="certified ε = 0.01"),
        ],
    )
    def test_whatever_is_edited_is_found(self, edit, ledger, tmp_path):
        path = saved(made(ledger), tmp_path)
        told = json.loads(path.read_text())
        edit(told)
        path.write_text(json.dumps(told))
        with pytest.raises(LedgerError):
            list(check(path))

    @pytest.mark.parametrize(
        "edit",
        [
            lambda text: text.replace(
                '"epsilon"', '"epsilon": 0.001, "epsilon"', 1
            ),  # readers take the last, people not
            lambda text: text.replace('"releases"', '"budget_epsilon": 0.01, "releases"', 1),
            lambda text: text.replace('"delta": 1e-05', '"delta": NaN', 1),
            lambda text: text.replace('"delta": 1e-05', '"delta": 1e999', 1),
            lambda text: text.replace('"trust": "central"', '"trust": "whatever"', 1),
        ],
    )
    def test_whatever_has_two_meanings_or_none_is_found(self, edit, ledger, tmp_path):
        path = saved(made(ledger, trust="central"), tmp_path)
        before = path.read_text()
        path.write_text(edit(before))
        assert path.read_text() != before
        with pytest.raises(LedgerError):
            list(check(path))
        with pytest.raises(LedgerError):
            CertificateDocument.from_json(path.read_text())

    def test_names_cannot_steer_a_terminal_or_add_lines(self, ledger):
        document = replace(made(ledger), federation="clinics\x1b[2J\nclient against the server: ε = 0.01")
        assert "\x1b" not in str(document)
        assert str(document).splitlines()[0].endswith("ε = 0.01")
        # some of a registry's entry stands there as it is, line by line
        told = replace(
            document.statement, noise_source="a seed\x1b[2J\x9b2J\nsecure sum: the whole protocol was played"
        )
        shown = registry(replace(document, statement=told))
        assert not {"\x1b", "\x9b"} & set(shown)
        assert [line for line in shown.splitlines() if line.strip().startswith("secure sum: the whole")] == []

    @pytest.mark.parametrize(
        "edit",
        [
            lambda one: replace(one, numbers=replace(one.numbers, epsilon=one.numbers.epsilon / 2)),
            lambda one: replace(one, numbers=replace(one.numbers, advantage=0.0)),
            lambda one: replace(one, numbers=replace(one.numbers, curve=one.numbers.curve[:-1])),
            lambda one: replace(
                one,
                proof=replace(
                    one.proof,
                    histories=((one.proof.histories[0][0][0], 1),),
                ),
            ),
            lambda one: replace(one, proof=replace(one.proof, histories=())),
            lambda one: replace(
                one, proof=replace(one.proof, filter="gaussian-filter", filter_epsilon=0.1, filter_delta=1e-5)
            ),
            lambda one: replace(one, delta=1e-3),
            lambda one: replace(one, status="unprotected"),
        ],
    )
    def test_numbers_that_do_not_follow_are_found_under_a_good_signature(self, edit, ledger, tmp_path):
        """Signed by the ledger's own key: only recomputing helps."""
        document = made(ledger)
        try:
            forged = replace(document, promises=tuple(map(edit, document.promises)), signature="")
            forged = replace(forged, signature=ledger.sign(forged.message()))
            path = saved(forged, tmp_path)
        except (TypeError, ValueError):
            pytest.fail("the forgery could not be written")
        with pytest.raises(LedgerError):
            list(check(path))

    def test_another_key_is_told_from_the_published_heads(self, ledger, tmp_path):
        document, other = made(ledger), LedgerKey(b"1" * 32, b"2" * 32)
        forged = replace(document, public_key=other.public, signature="")
        forged = replace(forged, signature=other.sign(forged.message()))
        path = saved(forged, tmp_path)
        list(check(path))  # nothing but the key itself is wrong
        (tmp_path / "heads.jsonl").write_bytes((tmp_path / "ledger.db.heads.jsonl").read_bytes())
        with pytest.raises(LedgerTampered, match="not signed by the key"):
            list(check(path))

    def test_nothing_proved_is_checked_too(self, tmp_path):
        why = Charge(SERVER, Unbounded("no noise"))
        with Ledger.open(tmp_path / "ledger.db", "clinics", 4, create=True) as books:
            books.settle(books.reserve("run", 1, np.array([1]), [why]), [why])
            document = made(books)
        assert document.promise("client", "server").status == "unprotected"
        assert "no noise" in str(document)
        assert len(list(check(saved(document, tmp_path)))) == 2

    def test_the_command(self, ledger, tmp_path):
        if not app.registered_commands:
            register()
        path = saved(made(ledger), tmp_path)
        call = CliRunner().invoke
        assert "Privacy certificate of clinics" in call(app, ["certificate", str(path)]).stdout
        assert json.loads(call(app, ["certificate", str(path), "--json"]).stdout)["run"] == "run"
        assert call(app, ["certificate", str(path), "--registry"]).stdout.startswith("url_slug:")
        assert "follow from the events" in call(app, ["certificate", "--check", str(path)]).stdout
        path.write_text(path.read_text().replace('"releases": 4', '"releases": 3'))
        assert isinstance(call(app, ["certificate", "--check", str(path)]).exception, LedgerTampered)

    @pytest.mark.parametrize("way", [[], ["--json"], ["--markdown"], ["--registry"]])
    def test_what_nobody_signed_is_not_shown_as_signed(self, way, ledger, tmp_path):
        """Edited without any key, ε = 0.5 was printed above "signed by Ed25519 key …", and went into registries."""
        document = made(ledger)
        told = [replace(one, numbers=replace(one.numbers, epsilon=0.5)) for one in document.promises]
        path = saved(replace(document, promises=tuple(told)), tmp_path)
        if not app.registered_commands:
            register()
        done = CliRunner().invoke(app, ["certificate", str(path), *way])
        assert isinstance(done.exception, LedgerTampered) and "0.5" not in done.stdout


def test_numbers_of_nothing():
    told = numbers(Proof(((),), "pld", "add_remove"), 1e-5)
    assert (told.epsilon, told.mu, told.advantage) == (0.0, 0.0, 0.0)
