"""A certificate that says less than was spent, signed with the ledger's own key: whoever has the ledger finds it."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from sordino import run
from sordino.account.accountants.filter import GaussianFilter
from sordino.account.certificate.certificate import Certificate, certify
from sordino.account.certificate.check import check
from sordino.account.certificate.document import CertificateDocument
from sordino.account.certificate.proof import numbers
from sordino.account.certificate.verify import verify
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.entry import RunLimit
from sordino.account.ledger.keys import LedgerKey
from sordino.account.ledger.ledger import Ledger
from sordino.cli.ledger import ledger as ledger_command
from sordino.errors import LedgerTampered
from sordino.events import Charge, GaussianDpEvent, Guarantee
from sordino.report import page as pages
from sordino.report.reading import read
from sordino.runs.folder import RunFolder

SETTINGS = {
    "mechanism": {"name": "fed_ldp", "noise_multiplier": 4.0},
    "partition": {"clients": 12},
    "budget": {"epsilon": 8},
    "run": {"rounds": 3},
    "progress": False,
}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return run(out=tmp_path_factory.mktemp("run") / "1", **SETTINGS)


@pytest.fixture
def folder(played):
    """The run's folder, whose certificates a test may change."""
    place = RunFolder(played.folder)
    yield place
    place.save_certificate(played.certificate, played.document)


def republished(folder: RunFolder, document: CertificateDocument) -> None:
    """Signs a document with the ledger's key, and puts it in place of the run's."""
    key = LedgerKey.load(folder.private / "ledger.db.key")
    document = replace(document, signature=key.sign(document.message()))
    folder.certificate_file.write_text(document.to_json())


def fewer(document: CertificateDocument) -> CertificateDocument:
    """A document in which every event was charged once."""
    once = []
    for promise in document.promises:
        histories = tuple(tuple((event, 1) for event, _ in history) for history in promise.proof.histories)
        proof = replace(promise.proof, histories=histories)
        once.append(replace(promise, proof=proof, numbers=numbers(proof, promise.delta)))
    return replace(document, promises=tuple(once))


def test_what_a_run_published_follows_from_its_ledger(folder, capsys):
    ledger_command(folder.path, verify=True)
    assert "published: so do all 4 promises" in capsys.readouterr().out


def test_fewer_releases_in_the_public_certificate_are_found(folder, played):
    """`certificate --check` follows the events that a document lists, and `ledger --verify` never read the document."""
    cheap = fewer(played.document)
    assert cheap.promises[0].epsilon < played.document.promises[0].epsilon * 0.6
    republished(folder, cheap)
    assert len(list(check(folder.certificate_file))) == 2 + len(cheap.promises)  # it cannot know better
    with pytest.raises(LedgerTampered, match="does not prove it"):
        ledger_command(folder.path, verify=True)


def test_a_certificate_that_is_older_than_the_published_heads_is_told_apart(folder, played):
    """Its head was published, and so were later ones: a reader of the public folder alone could not see that."""
    assert "later" not in "".join(check(folder.certificate_file))
    early = json.loads(folder.heads.read_text().splitlines()[2])["head"]
    republished(folder, replace(played.document, ledger_head=early))
    later = len(folder.heads.read_text().splitlines()) - 3
    assert f"and {later} later ones: what its ledger was charged since" in "".join(check(folder.certificate_file))


EDITS = {
    "stamped as a deployment": ({"simulation": False}, "says simulation = False"),
    "fewer releases": ({"releases": 1}, "says releases = 1"),
    "another run": ({"run": "another"}, "lies in the folder of run"),
    "another budget": ({"budget_epsilon": 4.0}, "says budget_epsilon = 4.0"),
    "an older head": ({"ledger_head": "00" * 32}, "says ledger_head"),
}


@pytest.mark.parametrize("case", EDITS)
def test_a_document_says_what_the_private_certificate_says(folder, played, case):
    changes, match = EDITS[case]
    republished(folder, replace(played.document, **changes))
    with pytest.raises(LedgerTampered, match=match):
        ledger_command(folder.path, verify=True)


def test_a_document_that_leaves_a_promise_out_or_has_another_key_is_found(folder, played):
    republished(folder, replace(played.document, promises=played.document.promises[1:]))
    with pytest.raises(LedgerTampered, match="says nothing to a client against the server"):
        ledger_command(folder.path, verify=True)
    key = LedgerKey(bytes(32), bytes(32))
    other = replace(played.document, public_key=key.public)
    folder.certificate_file.write_text(replace(other, signature=key.sign(other.message())).to_json())
    with pytest.raises(LedgerTampered, match="not signed with the key of ledger"):
        ledger_command(folder.path, verify=True)


@pytest.mark.parametrize(
    ("changes", "match"),
    [({"simulation": False}, "follows from a seed"), ({"entries": []}, "says nothing to a client")],
)
def test_a_private_certificate_is_held_to_what_the_rows_say(folder, played, changes, match):
    """Both edits passed: seeded noise without its stamp, and a certificate without the promises that look bad."""
    told = json.loads(played.certificate.to_json()) | changes
    (folder.private / "certificate.json").write_text(json.dumps(told))
    with pytest.raises(LedgerTampered, match=match):
        ledger_command(folder.path, verify=True)


def test_a_certificate_from_before_a_runs_last_releases_is_an_old_one(folder, played):
    """It follows from the ledger up to its own head, and was accepted beside a model of later rounds."""
    name = str(folder.facts()["run"])
    for line in folder.heads.read_text().splitlines():
        head = json.loads(line)["head"]
        with Ledger.open(folder.ledger, write=False, until=head) as books:
            if len(books.entries) == 1:
                told = certify(books, 1e-5, budget=Budget(8.0, 1e-5), simulation=True)
                early = replace(told, ledger_head=head)
    assert early.entries[0].epsilon < played.certificate.entries[0].epsilon * 0.6
    assert list(verify(folder.ledger, Certificate.from_json(early.to_json())))  # of some run, which is not told
    with pytest.raises(LedgerTampered, match=r"made before 2 releases of its run"):
        list(verify(folder.ledger, early, run=name))


def test_a_run_whose_releases_name_two_budgets_has_no_certificate(tmp_path, played):
    """A recipe that was edited on the way, with the digest that guards it: either budget was accepted."""
    charges = _charges(played)
    with Ledger.open(tmp_path / "ledger.db", "clinics", 12, create=True) as books:
        for round_, epsilon in enumerate((9.0, 8.0)):
            number = books.reserve("run", round_, np.arange(12), charges, limit=RunLimit(epsilon, 1e-5))
            books.settle(number, charges)
        told = certify(books, 1e-5, budget=Budget(8.0, 1e-5))
    with pytest.raises(LedgerTampered, match=r"was held to ε = 9 at .* or ε = 8"):
        list(verify(tmp_path / "ledger.db", told, run="run"))


def test_a_filters_promise_with_something_taken_out_of_its_delta_follows_from_the_ledger(tmp_path):
    """A run before it could have ended by coins, with a chance of 10⁻⁷: its honest certificate was refused."""
    server, outsider = (Guarantee("client", observer, "zero_out") for observer in ("server", "outsider"))
    charges = (Charge(server, GaussianDpEvent(4.0)), Charge(outsider, GaussianDpEvent(4.0), "eligible"))
    rules = {"limit": RunLimit(8.0, 1e-5), "early_end": 1e-7, "adaptive": True}
    with Ledger.open(tmp_path / "ledger.db", "clinics", 12, create=True) as books:
        for round_ in range(3):
            books.settle(books.reserve("run", round_, np.arange(12), charges, **rules), charges)
        filters = dict.fromkeys((server, outsider), GaussianFilter(8.0, 1e-5))
        told = certify(books, 1e-5, filters=filters, budget=Budget(8.0, 1e-5), early_end=1e-7)
    assert told.entry("client", "outsider").epsilon > told.entry("client", "server").epsilon
    assert list(verify(tmp_path / "ledger.db", told, run="run"))[-1].endswith("follow from the ledger")
    cheap = replace(told, entries=tuple(replace(one, epsilon=one.epsilon * 0.999) for one in told.entries))
    with pytest.raises(LedgerTampered, match=r"below the budget|proves"):
        list(verify(tmp_path / "ledger.db", cheap, run="run"))


def _charges(played):
    with Ledger.open(RunFolder(played.folder).ledger, write=False) as books:
        return books.entries[0].charges


def test_a_filter_in_a_document_holds_the_budget_that_the_document_names(tmp_path):
    """A filter's promise is its own ε, whatever budget stands beside it: 7.95 under a budget of 8 passed the check."""
    adaptive = {"mechanism": {"name": "a_dpfl", "threshold": 1.0, "adjust_every": 1}, "run": {"rounds": 6}}
    outcome = run(out=tmp_path / "1", **SETTINGS | adaptive)
    folder, told = RunFolder(outcome.folder), []
    for promise in outcome.document.promises:
        assert promise.proof.filter and promise.epsilon == pytest.approx(8.0)
        proof = replace(promise.proof, filter_epsilon=7.95)
        told.append(replace(promise, proof=proof, numbers=numbers(proof, promise.delta)))
    assert asdict(told[0])["numbers"]["epsilon"] == pytest.approx(7.95)
    list(check(folder.certificate_file))
    republished(folder, replace(outcome.document, promises=tuple(told)))
    with pytest.raises(LedgerTampered, match="holds another budget"):
        list(check(folder.certificate_file))


def test_every_number_of_a_private_certificate_follows_from_the_ledger(folder, played):
    """The δ of a curve's points were not looked at, nor what the client that paid most is said to have paid."""
    first, rest = played.certificate.entries[0], played.certificate.entries[1:]
    edits = {
        "curve": (*first.curve[:-1], (0.0, first.curve[-1][1])),
        "delta": first.delta / 10,
        "worst": replace(first.worst, participations=0),
        "median_epsilon": 0.1,
    }
    for name, value in edits.items():
        edited = replace(played.certificate, entries=(replace(first, **{name: value}), *rest))
        folder.save_certificate(edited, played.document)
        with pytest.raises(LedgerTampered):
            ledger_command(folder.path, verify=True)


@pytest.mark.parametrize("name", ["curve", "profile", "mu", "advantage", "false_negative_rates"])
def test_no_number_of_the_public_certificate_is_better_than_the_ledger_proves(folder, played, name):
    first, rest = played.document.promises[0], played.document.promises[1:]
    told = getattr(first.numbers, name)
    better = told / 2 if isinstance(told, float) else ((told[0][0] / 2, told[0][1]), *told[1:])
    if name in ("profile", "false_negative_rates"):
        better = ((told[0][0], told[0][1] + (-0.1 if name == "profile" else 1e-3)), *told[1:])
    edited = replace(first, numbers=replace(first.numbers, **{name: better}))
    republished(folder, replace(played.document, promises=(edited, *rest)))
    with pytest.raises(LedgerTampered, match="does not prove it"):
        ledger_command(folder.path, verify=True)


def test_a_page_shows_no_certificate_that_nobody_signed(folder, played):
    """The public page took an edited ε at its word, and named the key that had signed another one."""
    assert pages.page(read(folder.path, public=True), [])
    told = [replace(one, numbers=replace(one.numbers, epsilon=0.5)) for one in played.document.promises]
    folder.certificate_file.write_text(replace(played.document, promises=tuple(told)).to_json())
    for public in (True, False):
        with pytest.raises(LedgerTampered, match="is not signed by its key"):
            read(folder.path, public=public)
