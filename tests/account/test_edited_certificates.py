"""Every field of a certificate, edited one at a time: the signature tells, and arithmetic where that was renewed."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

from account.test_certificate_document import COHORTS, GAUSS, OUTSIDER, SERVER, made
from sordino._version import __version__
from sordino.account.certificate.check import check
from sordino.account.certificate.document import CertificateDocument
from sordino.account.certificate.proof import numbers
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError
from sordino.events import Charge

BOTH = (Charge(SERVER, GAUSS), Charge(OUTSIDER, GAUSS, "eligible"))
"""Plain Gaussians: their curves are cheap, and a certificate is computed for every edit."""
WORDS = {
    ("federation",), ("run",), ("releases",), ("budget_epsilon",), ("stopped",), ("simulation",), ("time",),
    ("ledger_head",), ("statement",), ("promises", "basis"), ("promises", "claimed_epsilon"), ("promises", "claim"),
}  # fmt: skip
"""What no event in the file implies: whoever holds the ledger's key can write it, and nobody else."""
KINDS = {
    "capped": {"budget": Budget(2.6, 1e-5)},
    "local": {"trust": "local"},
    "early": {"early_end": 4e-6},
}
PROMISES = {"capped": 0, "local": 1, "early": 1}
"""The promise of each that is edited."""


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    with Ledger.open(tmp_path_factory.mktemp("books") / "ledger.db", "clinics", 100, create=True) as opened:
        for number, cohort in enumerate(COHORTS):
            opened.settle(opened.reserve("run", number, np.array(cohort), BOTH), BOTH)
        yield opened


@pytest.fixture(autouse=True)
def remembered(monkeypatch):
    """Most edits leave a proof as it is: what it comes to is computed once."""
    known = {}

    def once(proof, delta):
        name = repr((proof, delta))
        if name not in known:
            known[name] = numbers(proof, delta)
        return known[name]

    monkeypatch.setattr("sordino.account.certificate.check.numbers", once)


def places(node, way=()):
    """Yields the way to every field, list and leaf."""
    if way:
        yield way
    for key, inside in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(inside, (*way, key))


def edits(value):
    """Yields other values for one field."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value / 3 + 0.1234, value + 1, None)
    elif isinstance(value, str):
        yield from (f"{value}0", "" if value else "another")
    elif value is None:
        yield from (0.25, "another")
    elif isinstance(value, list):
        yield from ([*value, *value[:1]] if value else ["another"], value[1:] if value else [0])
    else:
        yield from (value | {"another": 1}, dict(list(value.items())[1:]))


def edited(told):
    for way in places(told):
        inside = told
        for key in way[:-1]:
            inside = inside[key]
        for other in edits(inside[way[-1]]):
            forged = copy.deepcopy(told)
            place = forged
            for key in way[:-1]:
                place = place[key]
            place[way[-1]] = other
            yield way, forged


def named(way):
    """Returns the field without places in lists: what it is a field of, and its name."""
    way = tuple(part for part in way if isinstance(part, str))
    return way[:1] if way[0] == "statement" else way


@pytest.mark.parametrize("kind", ["capped"])
def test_whatever_field_is_edited_the_signature_tells(kind, books, tmp_path):
    path, tried = tmp_path / "certificate.json", 0
    for way, forged in edited(json.loads(made(books, **KINDS[kind]).to_json())):
        path.write_text(json.dumps(forged))
        with pytest.raises(LedgerError):
            list(check(path))
            pytest.fail(f"{way} was edited, and the check passed")
        tried += 1
    assert tried > 300


@pytest.mark.parametrize("kind", KINDS)
def test_under_a_new_signature_nothing_passes_but_words(kind, books, tmp_path):
    """The forger has the ledger's key: every number still has to follow from the events."""
    path, passed, document = tmp_path / "certificate.json", set(), made(books, **KINDS[kind])
    ours = replace(document.statement, code_version=__version__)  # of another version numbers alone are compared
    document = true = replace(document, promises=(document.promises[PROMISES[kind]],), statement=ours)
    for way, forged in edited(json.loads(document.to_json())):
        further = way[2:3] == ("numbers",) and way[4:5] not in ((), (0,))
        if way[0] in ("statement", "signature") or further:
            continue  # words, and of the points of a curve all but the first
        try:
            document = CertificateDocument.from_json(json.dumps(forged))
        except LedgerError:
            continue
        if document == true:
            continue
        document = replace(document, signature=books.sign(replace(document, signature="").message()))
        path.write_text(document.to_json())
        try:
            list(check(path))
        except LedgerError:
            continue
        passed.add(named(way))
    assert passed <= WORDS, passed - WORDS


def test_an_event_that_is_listed_twice_counts_twice(books, tmp_path):
    """A long list with a short one after it: who read the last alone would price one round of four."""
    document = made(books)
    one = document.promises[0]
    ((event, count),) = one.proof.histories[0]
    proof = replace(one.proof, histories=(((event, count), (event, 1)),))
    cheap = numbers(replace(one.proof, histories=(((event, 1),),)), one.delta)
    for forged in (replace(one, proof=proof), replace(one, proof=proof, numbers=cheap)):
        made_up = replace(document, promises=(forged, *document.promises[1:]), signature="")
        path = tmp_path / "certificate.json"
        path.write_text(replace(made_up, signature=books.sign(made_up.message())).to_json())
        with pytest.raises(LedgerError, match="its events give another"):
            list(check(path))


@pytest.mark.parametrize("chance", [-1e-3, -1.0, 1.0, 7.0])
def test_nothing_is_put_into_delta_instead_of_taken_out(chance, books, tmp_path):
    """Less than nothing taken out of δ is more δ than is told: 2.63 for 3.71 of three Gaussians of multiplier 2."""
    document = made(books, early_end=4e-6)
    one = document.promises[1]
    proof, path = replace(one.proof, taken_out=chance), tmp_path / "certificate.json"
    with pytest.raises(LedgerError, match="out of δ"):
        forged = replace(one, proof=proof, numbers=numbers(proof, one.delta))
        made_up = replace(document, promises=(document.promises[0], forged), signature="")
        path.write_text(replace(made_up, signature=books.sign(made_up.message())).to_json())
        list(check(path))


def resigned(books, document, path):
    """Writes a document under a new signature with the ledger's key."""
    path.write_text(replace(document, signature=books.sign(replace(document, signature="").message())).to_json())


@pytest.mark.parametrize("name", ["curve", "profile"])
def test_no_delta_is_so_small_that_another_may_stand_in_its_place(name, books, tmp_path):
    """Numbers had to agree up to 10⁻⁶, and so had δ: ε = 2.5 at δ = 0 could be told for ε = 2.5 at δ = 10⁻⁹."""
    path, document = tmp_path / "certificate.json", made(books, **KINDS["local"])
    promise = document.promises[0]
    points, tried = getattr(promise.numbers, name), 0
    for place, (at, value) in enumerate(points):
        forged = (0.0, value) if name == "curve" else (at, 0.0)
        if name == "profile" and not 1e-11 < value < 1e-6:
            continue
        if name == "curve" and at > 1e-6:
            continue
        edited = replace(promise.numbers, **{name: (*points[:place], forged, *points[place + 1 :])})
        resigned(books, replace(document, promises=(replace(promise, numbers=edited), *document.promises[1:])), path)
        with pytest.raises(LedgerError, match=f"says {name}"):
            list(check(path))
        tried += 1
    assert tried
