"""Mechanisms side by side: same people, model, seeds and certified budget, and a ranking that knows what chance is."""
