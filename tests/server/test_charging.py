"""What a run keeps between its rounds of what others charged to the same ledger."""

from types import SimpleNamespace

import numpy as np

from sordino.account.ledger.ledger import Ledger
from sordino.events import Charge, GaussianDpEvent, Guarantee
from sordino.server import charging
from sordino.server.charging import Charging

COST = (Charge(Guarantee("client", "server", "zero_out"), GaussianDpEvent(2.0)),)


def test_filters_are_found_anew_when_others_were_charged_or_settled_and_only_then(tmp_path, monkeypatch):
    asked, real = [], charging.held
    monkeypatch.setattr(charging, "held", lambda *args: asked.append(1) or real(*args))
    with Ledger.open(tmp_path / "ledger.db", "hospitals", 4, create=True) as ledger:
        mine = Charging(ledger, "mine", SimpleNamespace(planned=None), 1e-5, 3.0, schedule=[COST] * 5)

        def found():
            before, told = len(asked), mine._held
            assert dict(told) == dict(real(ledger, "mine", {}, mine.schedule, None, 3.0, 1e-5))
            return len(asked) - before, bool(told)

        assert found() == (1, False)
        for round_ in (1, 2):
            ledger.settle(ledger.reserve("mine", round_, np.arange(2), COST), COST)
        assert found() == (1, False)  # a promise was charged for the first time
        ledger.settle(ledger.reserve("mine", 3, np.arange(2), COST), COST)
        assert found() == (0, False)
        number = ledger.reserve("other", 1, np.arange(2), COST, adaptive=True)
        assert found() == (1, True) and found() == (0, True)
        ledger.settle(number, ())
        assert found() == (1, False) and found() == (0, False)
