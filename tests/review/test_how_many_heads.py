"""What published heads count: their places and their number must not tell whether somebody new took part."""

import json

import pytest

from review.test_what_is_published import QUIET, named
from sordino import run
from sordino.account.ledger.clients import ClientRegister, join_row
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError

PEOPLE = [f"p{number:02}" for number in range(20)]


def places(log):
    return [json.loads(line)["seq"] for line in log.read_text().splitlines()]


@pytest.mark.parametrize("name", ["dp_fedavg", "dropout_robust", "dp_sgd"])
def test_the_heads_of_a_second_run_do_not_tell_whether_somebody_joined(tmp_path, name):
    """Who joined had rows of its own: 7 heads up to row 10 without the client, 8 up to row 12 with it."""
    told = []
    for second in (PEOPLE[:19], PEOPLE):
        folder = tmp_path / str(len(second))
        folder.mkdir()
        settings = {"mechanism": {"name": name, "noise_multiplier": 4.0}, "run": {"rounds": 2}, **QUIET}
        settings |= {"ledger": {"path": str(folder / "ledger.db")}}
        run(federation=named(PEOPLE[:19]), out=folder / "1", **settings)
        outcome = run(federation=named(second), out=folder / "2", **settings)
        (promise,) = [one for one in outcome.certificate.entries if one.observer == "outsider"]
        assert promise.epsilon is not None and promise.adjacency == "add_remove"
        told.append(places(folder / "ledger.db.heads.jsonl"))
    assert told[0] == told[1]


def test_a_run_that_goes_on_writes_nothing_about_who_is_there(tmp_path):
    with Ledger.open(tmp_path / "ledger.db", "clinics", PEOPLE, create=True) as ledger:
        head = ledger.head
    with Ledger.open(tmp_path / "ledger.db", "clinics", PEOPLE) as ledger:
        assert ledger.head == head
    with Ledger.open(tmp_path / "ledger.db", "clinics", PEOPLE, create=True) as ledger:
        assert ledger.head != head and ledger.population == 20


@pytest.mark.parametrize("body", [{"first": 0, "count": 0, "names": "names"}, {"first": 0, "count": 0, "names": ""}])
def test_nobody_is_no_first_client(body):
    with pytest.raises(LedgerError, match="out of turn"):
        ClientRegister().replay(join_row(1, body, b""))
