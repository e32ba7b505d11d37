"""Variants of the review's attacks on ledger and certificate: two runs at once, clients who cannot pay, another key."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sordino.account.certificate.check import check
from sordino.account.certificate.document import CertificateDocument
from sordino.account.certificate.proof import numbers
from sordino.account.ledger.keys import LedgerKey
from sordino.account.ledger.ledger import Ledger
from sordino.data.holdings import holdings
from sordino.errors import BudgetExceeded, LedgerMoved, LedgerTampered
from sordino.events import Charge, GaussianDpEvent, Guarantee
from sordino.recipe import Recipe
from sordino.runs.books import charging_for
from sordino.runs.run import run
from sordino.runs.setup import assemble

SMALL = ("partition.clients=12", "train.steps=1", "run.rounds=2", "run.evaluate_every=2", "budget.epsilon=1.2")


def recipe(*settings: str) -> Recipe:
    return Recipe.load(None, [*SMALL, *settings])


def test_two_runs_at_once_do_not_both_spend_what_is_left(tmp_path: Path) -> None:
    """Both ask who can pay before either reserves: each alone is within the budget, both together are not."""
    context = assemble(recipe("mechanism.name=fed_ldp", "mechanism.noise_multiplier=4", "budget.minimum_clients=12"))
    path, everyone = tmp_path / "ledger.db", np.arange(12)
    present, charges = np.ones(12, bool), context.mechanism.quote(context.mechanism.adapter.start())
    with charging_for(context, path, "a") as one, charging_for(context, path, "b") as other:
        asked, also = one.eligible(1, charges, present), other.eligible(1, charges, present)
        assert asked.allowed.all() and also.allowed.all()
        one.settle(one.reserve(1, everyone, charges, asked), everyone, charges, None)
        with pytest.raises(LedgerMoved, match="another run"):
            other.reserve(1, everyone, charges, also)
        with pytest.raises(BudgetExceeded):
            other.eligible(1, charges, present)
        assert len(other.ledger.entries) == 1


def test_a_run_goes_on_when_others_charge_the_ledger_between_its_rounds(tmp_path: Path) -> None:
    """A round that finds the ledger moved asks again, and is played if all can pay still."""
    asked = recipe("mechanism.name=fed_ldp", "mechanism.noise_multiplier=40", f"ledger.path={tmp_path / 'shared.db'}")
    first = run(asked, out=tmp_path / "first")
    second = run(asked, out=tmp_path / "second")
    assert (first.rounds, second.rounds) == (2, 2) and second.certificate.releases == 4


def test_nobody_who_cannot_pay_takes_part_in_the_opening_release(tmp_path: Path) -> None:
    """L2, one client at a time: eleven can pay for the opening release and one has spent its budget elsewhere."""
    path = tmp_path / "ledger.db"
    asked = recipe("mechanism.name=a_dpfl", "budget.epsilon=4", f"ledger.path={path}")
    context = assemble(asked)
    federation = context.federation
    dear = [Charge(Guarantee("record", who, "add_remove"), GaussianDpEvent(1.05)) for who in ("server", "outsider")]
    names = getattr(federation, "names", None) or federation.population
    with Ledger.open(path, federation.name, names, create=True, holders=holdings(federation)) as ledger:
        ledger.settle(ledger.reserve("elsewhere", 1, np.array([5]), dear), dear)
    with pytest.raises(BudgetExceeded, match="1 clients cannot pay for the opening release"):
        run(asked, out=tmp_path / "run")
    with Ledger.open(path, federation.name, names, holders=holdings(federation)) as ledger:
        assert [entry.run for entry in ledger.entries] == ["elsewhere"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outcome = run(recipe("mechanism.name=fed_ldp"), out=tmp_path_factory.mktemp("run") / "a")
    return outcome.folder / "public" / "certificate.json"


def forged(path: Path, into: Path) -> Path:
    """A certificate with half of the events, all numbers recomputed, signed by a key of the forger's own."""
    document, key = CertificateDocument.from_json(path.read_text()), LedgerKey.make(into / "own.key")
    promises = []
    for one in document.promises:
        halves = tuple(
            tuple((event, max(1, count // 2)) for event, count in history) for history in one.proof.histories
        )
        proof = replace(one.proof, histories=halves)
        promises.append(replace(one, proof=proof, numbers=numbers(proof, one.delta)))
    changed = replace(document, promises=tuple(promises), public_key=key.public, signature="")
    signed = replace(changed, signature=key.sign(changed.message()))
    made = into / "certificate.json"
    made.write_text(signed.to_json())
    return made


def test_a_certificate_signed_anew_by_another_key_is_found(certificate: Path, tmp_path: Path) -> None:
    fake = forged(certificate, tmp_path)
    real = json.loads(certificate.read_text())["public_key"]
    assert list(check(certificate, real))
    with pytest.raises(LedgerTampered, match="not the one that you gave"):
        list(check(fake, real))
    # beside the published heads it is found without the key, too
    (tmp_path / "heads.jsonl").write_bytes(certificate.with_name("heads.jsonl").read_bytes())
    with pytest.raises(LedgerTampered, match="one of them is another's"):
        list(check(fake))


@pytest.mark.parametrize("settings", [("select.kind=poisson", "select.rate=0.5", "mechanism.name=dp_fedavg")])
def test_where_coins_are_secret_no_word_of_the_certificate_follows_from_them(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    """Two worlds with other cohorts: their public certificates are the same but for time, run, keys and heads."""
    told = []
    for seed in (1, 2):
        outcome = run(recipe(*settings, "run.rounds=4", f"run.seed={seed}"), out=tmp_path / str(seed))
        document = json.loads((outcome.folder / "public" / "certificate.json").read_text())
        for name in ("time", "run", "ledger_head", "public_key", "signature"):
            document.pop(name)
        told.append((document, tuple(outcome.certificate.entry("client", "outsider").worst.__dict__.values())))
        assert not document["statement"]["views"]["outsider"]["most_asked"]
    assert told[0][0] == told[1][0]


_SPEND = """
import sys
from pathlib import Path
import numpy as np
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerError
from sordino.events import Charge, GaussianDpEvent, Guarantee

charges = (Charge(Guarantee("client", "server", "zero_out"), GaussianDpEvent(2.0)),)
path, name, other = *map(str, sys.argv[1:3]), sys.argv[3:]
try:
    with Ledger.open(Path(path), "clinics", 5) as books:
        for round_ in range(1, 9):
            if books.affordable(charges, Budget(3.0, 1e-5)).allowed.all():
                books.settle(books.reserve(name, round_, np.arange(5), charges), charges, np.arange(5), "seen")
                print("released")
        if other:  # while this one is open
            import subprocess
            print(subprocess.run([sys.executable, __file__, *other], capture_output=True, text=True).stdout)
except LedgerError as error:
    print(f"refused: {error}")
"""


def test_a_ledger_of_two_names_is_not_written_under_both(tmp_path):
    """SQLite's log goes by the file's name: under a hard link nobody saw what was spent, four releases left under a
    budget for two, and both names verified with two."""
    script, here, there = tmp_path / "spend.py", tmp_path / "here", tmp_path / "there"
    script.write_text(_SPEND)
    here.mkdir(), there.mkdir()
    Ledger.open(here / "ledger.db", "clinics", 5, create=True).close()
    (there / "ledger.db").hardlink_to(here / "ledger.db")
    for ending in (".key", ".heads.jsonl"):
        shutil.copy(here / f"ledger.db{ending}", there / f"ledger.db{ending}")
    command = [sys.executable, str(script), str(here / "ledger.db"), "one", str(there / "ledger.db"), "two"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert told.count("released") <= 2 and "has 2 names (hard links)" in told
    with Ledger.open(here / "ledger.db", write=False) as books:  # which may be read
        assert not books.entries
    (there / "ledger.db").unlink()
    told = subprocess.run(command[:4], capture_output=True, text=True, timeout=120, check=True).stdout
    assert told.count("released") == 2
