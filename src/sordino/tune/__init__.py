"""Choosing settings honestly: on data that stand in for the private ones, or on these, charged."""
