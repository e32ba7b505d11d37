"""For people who already use Flower: a strategy wrapper, a client mod and an accountant that make their app private.

    from sordino.flower import LedgerAccountant, PrivateStrategy, private_mod

`docs/flower.md` has the ten lines, and says what is certified for whom.
"""

from importlib.util import find_spec

if find_spec("flwr") is None:
    raise ImportError("sordino.flower needs Flower: pip install 'sordino[flower]'")

from sordino.flower.accountant import LedgerAccountant, PrivacyBudgetSpent
from sordino.flower.mod import private_mod
from sordino.flower.settings import FlowerSettings
from sordino.flower.strategy import PrivateStrategy

__all__ = ["FlowerSettings", "LedgerAccountant", "PrivacyBudgetSpent", "PrivateStrategy", "private_mod"]
