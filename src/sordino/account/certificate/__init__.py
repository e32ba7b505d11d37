"""What a run can promise, computed from its ledger, and how to check it."""
