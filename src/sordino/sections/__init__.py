"""The tables of a recipe, one class each: what can be set, within which limits, and what it means."""
