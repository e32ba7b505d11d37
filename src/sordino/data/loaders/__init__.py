"""Readers of the formats that people have on disk. None of them downloads anything, or executes what it reads.

Every encoding and scale here is a public constant: nothing is fitted to the data, which would leak it.
"""
