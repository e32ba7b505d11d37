"""The books: accountants, calibration, privacy filters, the ledger, certificates and the planner. No torch in here."""
