"""The five papers' tables and figures, run again: what is printed beside what comes out, and why they differ."""
