"""What a filter was held to stands in the ledger: a certificate cannot name another budget afterwards."""

import json

import pytest

from sordino import run
from sordino.account.accountants.filter import named
from sordino.account.certificate.certificate import certify
from sordino.account.certificate.verify import verify
from sordino.account.ledger.budget import Budget
from sordino.account.ledger.ledger import Ledger
from sordino.cli.ledger import ledger as ledger_command
from sordino.errors import LedgerTampered
from sordino.events import Guarantee
from sordino.server import charging

ADAPTIVE = {
    "mechanism": {"name": "a_dpfl", "threshold": 1.0, "adjust_every": 1},
    "partition": {"clients": 12},
    "budget": {"epsilon": 8},
    "progress": False,
}


def under_another_budget(outcome, ledger, epsilon):
    """The certificate that a run would have had with another budget, had it taken the same path."""
    said = outcome.certificate
    filters = {
        Guarantee(one.unit, one.observer, one.adjacency): named(one.accountant, epsilon, said.delta)
        for one in said.entries
    }
    with Ledger.open(ledger, write=False, until=said.ledger_head) as books:
        budget = Budget(epsilon, said.delta)
        return certify(books, said.delta, filters=filters, budget=budget, early_end=said.early_end)


def test_a_certificate_with_another_budget_does_not_follow_from_its_ledger(tmp_path):
    """`ledger --verify` took the certificate's own word for what its filter held: any budget that admits the path."""
    ledger = tmp_path / "ledger.db"
    settings = ADAPTIVE | {"run": {"rounds": 6}, "ledger": {"path": str(ledger)}}
    first = run(out=tmp_path / "1", **settings)
    assert list(verify(ledger, first.certificate))[-1].endswith("promises follow from the ledger")
    better = under_another_budget(first, ledger, 7.95)
    assert all(one.epsilon == pytest.approx(7.95) for one in better.entries)
    with pytest.raises(LedgerTampered, match=r"names the budget ε = 7.95 at δ = 1e-05, .* was held to ε = 8 at"):
        list(verify(ledger, better))
    plain = {"mechanism": {"name": "local_dp_sgd", "noise_multiplier": 60.0}, "budget": {"epsilon": 9}}
    second = run(out=tmp_path / "2", **settings | plain | {"run": {"rounds": 1}})
    name = json.loads((tmp_path / "2" / "private" / "run.json").read_text())["run"]
    list(verify(ledger, second.certificate, run=name))
    with pytest.raises(LedgerTampered, match="was held to ε = 9 at"):  # the other run's budget is not this one's
        list(verify(ledger, under_another_budget(second, ledger, 8.0), run=name))


def test_a_ledger_that_does_not_name_budgets_is_verified_and_that_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(charging, "RunLimit", lambda *_: None)  # what earlier versions wrote
    run(out=tmp_path / "1", **ADAPTIVE | {"run": {"rounds": 2}})
    ledger_command(tmp_path / "1", verify=True)
    assert "certificate's own word" in capsys.readouterr().out
