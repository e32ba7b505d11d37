"""Secure sums: the server learns the total and nothing else, whoever drops out."""
