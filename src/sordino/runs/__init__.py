"""A run: set-up, the loop of rounds that plays both sides, and the run folder."""
