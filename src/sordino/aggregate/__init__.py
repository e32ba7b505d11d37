"""Sums of messages, plain and secure."""
