"""Bounds on what one unit can contribute."""
