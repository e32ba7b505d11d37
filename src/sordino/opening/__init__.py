"""Releases that are made once, before the first round."""
