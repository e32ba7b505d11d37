"""Privacy accounting: accountants, ledger, certificates and the planner. No torch and no terminal in here."""
