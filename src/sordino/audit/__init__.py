"""Attacks on our own guarantees: the distinguishing game, canaries, membership inference, gradient inversion."""
