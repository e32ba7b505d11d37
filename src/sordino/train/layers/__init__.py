"""Layers whose passes are written by hand, for many clients with their own weights at once.

Tensors are `[clients, examples, …]`. Where all clients share one set of weights, its leading dimension is 1.
"""
