"""The planner: what noise, rounds or budget a run would need, before it is run."""
