"""Every error that sordino raises on purpose, as one tree.

    SordinoError
    ├── RecipeError        a setting is wrong                (field + remedy)
    ├── CompositionError   parts of a mechanism do not fit together
    ├── DataError          data is missing or malformed
    ├── ModelError         a model cannot be trained this way
    ├── AccountingError    an event or parameter that no accountant can price
    │   └── UnknownEvent   an event that the chosen accountant refuses
    ├── StorageError       a run's folder cannot be written
    ├── BudgetExceeded     a release would cost more than is left
    ├── LedgerError        the books cannot be opened, written or trusted
    │   └── LedgerTampered a row was edited, removed or moved
    ├── ProtocolError      a message of the secure sum was refused, or too few clients are left
    └── FederationError    a folder, key, registry, policy or process of a federation is not what it must be
        └── NodeRefused    a node will not take part: its own policy, registry or ledger says no

The command line prints the message (one sentence that names the field and the remedy) and exits with code 2.
"""

from __future__ import annotations


class SordinoError(Exception):
    """Root of all errors that carry a sentence for the user."""


class SordinoWarning(UserWarning):
    """Something that is allowed and that the user should know before it happens."""


class RecipeError(SordinoError):
    """A setting is missing, misspelt or impossible."""


class CompositionError(SordinoError):
    """Parts of a mechanism do not fit together: its noise could not hide what its bounder lets through."""


class DataError(SordinoError):
    """Data is missing, malformed, empty or not finite."""


class ModelError(SordinoError):
    """A model cannot be trained per client or per example as it is."""


class AccountingError(SordinoError):
    """A privacy parameter is out of range, or an event cannot be priced."""


class UnknownEvent(AccountingError):
    """The accountant does not know this event, and refuses to guess."""


class StorageError(SordinoError):
    """A file of a run cannot be written: the disk is full, or the folder is not ours."""


class BudgetExceeded(SordinoError):
    """The next release would cost more than the budget has left."""


class LedgerError(SordinoError):
    """The ledger cannot be opened, written, or belongs to another federation."""


class LedgerMoved(LedgerError):
    """Somebody else charged the ledger after it was asked who can pay: ask again, nothing was written."""


class LedgerTampered(LedgerError):
    """The ledger's chain does not verify: a row was edited, removed or moved."""


class ProtocolError(SordinoError):
    """A message of the secure aggregation protocol was refused, or too few clients are left."""


class FederationError(SordinoError):
    """A folder, key, registry, policy or process of a federation is not what it must be."""


class NodeRefused(FederationError):
    """A node does not take part: what was asked of it is outside its own policy, registry or budget."""
