"""Private files that somebody edited without a key: what `ledger --verify` asks of them may not hang on their word."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from sordino import run
from sordino.account.certificate.certificate import Certificate, certify
from sordino.account.certificate.verify import verify
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.ledger import Ledger
from sordino.cli.ledger import ledger as ledger_command
from sordino.errors import LedgerError, LedgerTampered
from sordino.events import Charge, GaussianDpEvent, Guarantee, PoissonSampledDpEvent, Unbounded
from sordino.runs.folder import RunFolder

SETTINGS = {
    "mechanism": {"name": "fed_ldp", "noise_multiplier": 4.0},
    "partition": {"clients": 12},
    "budget": {"epsilon": 8},
    "run": {"rounds": 3},
    "progress": False,
}
SERVER, OUTSIDER = Guarantee("client", "server", "zero_out"), Guarantee("client", "outsider", "add_remove")


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return run(out=tmp_path_factory.mktemp("run") / "1", **SETTINGS)


@pytest.fixture
def folder(played):
    """The run's folder without what it published, whose private files a test may change."""
    place = RunFolder(played.folder)
    facts = (place.private / "run.json").read_text()
    place.certificate_file.unlink()
    yield place
    (place.private / "run.json").write_text(facts)
    place.save_certificate(played.certificate, played.document)


def put(folder: RunFolder, certificate: Certificate) -> None:
    (folder.private / "certificate.json").write_text(certificate.to_json())


@pytest.fixture
def early(folder):
    """The certificate after the first of three rounds."""
    for line in folder.heads.read_text().splitlines():
        head = json.loads(line)["head"]
        with Ledger.open(folder.ledger, write=False, until=head) as books:
            if len(books.entries) == 1:
                return replace(certify(books, 1e-5, budget=Budget(8.0, 1e-5), simulation=True), ledger_head=head)
    raise AssertionError


@pytest.mark.parametrize(
    ("name", "stamp", "match"),
    [
        (None, True, "does not name the run"),
        (7, True, "does not name the run"),
        ("another", False, "has no release of"),
    ],
)
def test_an_old_certificate_does_not_pass_where_the_runs_name_is_gone(folder, early, name, stamp, match):
    """Whatever rows say of a run was asked for by a name in private/run.json: without it, or under one that no row
    has, a certificate from before two of three releases passed, and so did one without the stamp of a simulation."""
    put(folder, early)
    with pytest.raises(LedgerTampered, match="made before 2 releases"):
        ledger_command(folder.path, verify=True)
    facts = folder.facts()
    del facts["run"]
    (folder.private / "run.json").write_text(json.dumps(facts | ({} if name is None else {"run": name})))
    put(folder, replace(early, simulation=stamp))
    with pytest.raises(LedgerError, match=match):
        ledger_command(folder.path, verify=True)


def test_a_chance_that_is_no_number_is_not_taken_for_a_small_one(tmp_path):
    """NaN is not below what the rows say was taken out of δ, and nothing was taken out for it: coins that an end had
    shown were credited again, and the check passed."""
    event = GaussianDpEvent(4.0)
    charges = (Charge(SERVER, event), Charge(OUTSIDER, PoissonSampledDpEvent(0.5, event), "eligible"))
    with Ledger.open(tmp_path / "ledger.db", "clinics", 12, create=True) as books:
        for round_ in range(3):
            number = books.reserve("run", round_, np.arange(6), charges, early_end=1.0)
            books.settle(number, charges)
        honest, forged = (certify(books, 1e-5, early_end=chance) for chance in (1.0, math.nan))
    assert forged.entry("client", "outsider").epsilon < honest.entry("client", "outsider").epsilon * 0.8
    assert list(verify(tmp_path / "ledger.db", Certificate.from_json(honest.to_json()), run="run"))
    text = replace(forged, early_end=-7.5).to_json().replace("-7.5", "NaN")
    with pytest.raises(LedgerError, match="NaN is no finite number"):
        Certificate.from_json(text)
    with pytest.raises(LedgerError):
        list(verify(tmp_path / "ledger.db", forged, run="run"))


@pytest.mark.parametrize(
    ("field", "value"),
    [("early_end", "none"), ("ledger_head", None), ("delta", [1e-5]), ("stopped_by_participation", 2)],
)
def test_fields_of_another_kind_are_no_certificate(played, field, value):
    """They were tracebacks, or true because they were not empty."""
    told = json.loads(played.certificate.to_json()) | {field: value}
    with pytest.raises(LedgerError, match=f"cannot be read \\({field}"):
        Certificate.from_json(json.dumps(told))


def test_a_promise_of_nothing_tells_no_numbers(tmp_path):
    """Beside an ε of ∞ the curve, the dearest client and the median could be anything, and its status "certified"."""
    charges = (Charge(SERVER, Unbounded("no noise is added")),)
    with Ledger.open(tmp_path / "ledger.db", "clinics", 12, create=True) as books:
        books.settle(books.reserve("run", 1, np.arange(12), charges), charges)
        honest = certify(books, 1e-5)
    (one,) = honest.entries
    assert one.epsilon is None and list(verify(tmp_path / "ledger.db", honest, run="run"))
    for edit in (
        {"curve": tuple((delta, 0.1) for delta, _ in one.curve)},
        {"worst": replace(one.worst, epsilon=0.1)},
        {"median_epsilon": 0.1},
        {"status": "certified"},
    ):
        forged = replace(honest, entries=(replace(one, **edit),))
        with pytest.raises(LedgerTampered, match="make the certificate anew"):
            list(verify(tmp_path / "ledger.db", forged, run="run"))
