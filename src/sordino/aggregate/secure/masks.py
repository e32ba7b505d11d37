"""Masks: AES in counter mode as a generator of residues, added to a vector and taken off again."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from sordino.aggregate.integers import UIntArray
from sordino.aggregate.secure.cores import CORES
from sordino.aggregate.secure.keys import derive

Mask = tuple[bytes, int]
"""A 32-byte seed, and the sign with which its stream is added: +1 or −1."""

_PIECE = 1 << 18  # bytes of a vector that stay in the cache while the streams pass over them
_STREAMS = 256
_BLOCK = 16
_CORES = CORES
_WORTH_THREADS = 1 << 26  # bytes of keystream for which threads pay
_NARROW = 1 << 20  # up to so many bytes of a vector, cores share out the masks; beyond, the vector
_ZEROS = memoryview(bytes(_PIECE))


def self_mask(seed: bytes, story: bytes, client: int) -> bytes:
    """Returns the seed of the mask that a client adds for itself."""
    return derive(seed, story, "self mask", client)


def pair_mask(agreed: bytes, story: bytes, client: int, peer: int) -> Mask:
    """Returns the mask that a client adds for a peer: the same stream on both sides, with opposite signs.

    `story` is what the client was told of the roster and of who shared secrets. Two clients that were told different
    things add different streams, which never cancel: nobody can be added up with somebody who knows another story.
    """
    low, high = sorted((client, peer))
    return derive(agreed, story, "pair mask", low, high), 1 if client == low else -1


def opposite(mask: Mask) -> Mask:
    """Returns the mask that takes another one off."""
    seed, sign = mask
    return seed, -sign


def add_masks(vector: UIntArray, masks: Sequence[Mask]) -> None:
    """Adds masks to a vector in place, modulo its word.

    **Formal guarantees**: a seed gives AES-128 its key and its first counter block, so a stream is pseudo-random to
    whoever lacks the 256-bit seed, and no two seeds share a keystream by a collision of keys alone. A residue modulo
    2^word is uniform, hence so is its residue modulo any smaller power of two.
    """
    if len(masks) * vector.nbytes < _WORTH_THREADS:
        return _add_all(vector, masks, 0)
    # the cipher and numpy let go of the interpreter, so each core takes a part
    with ThreadPoolExecutor(_CORES) as pool:
        if vector.nbytes > _NARROW:
            unit = _PIECE // vector.itemsize
            cuts = [unit * round(len(vector) * core / (unit * _CORES)) for core in range(_CORES)] + [len(vector)]
            parts = [(vector[a:b], masks, a * vector.itemsize // _BLOCK) for a, b in pairwise(cuts) if a < b]
            list(pool.map(lambda part: _add_all(*part), parts))
        else:
            sums = pool.map(lambda core: _sum(vector, masks[core::_CORES]), range(_CORES))
            for part in sums:
                np.add(vector, part, out=vector)
    return None


def _sum(like: UIntArray, masks: Sequence[Mask]) -> UIntArray:
    """Returns the sum of masks."""
    total = np.zeros_like(like)
    _add_all(total, masks, 0)
    return total


def _add_all(vector: UIntArray, masks: Sequence[Mask], block: int) -> None:
    """Adds the masks' streams from a block of the cipher onwards."""
    for start in range(0, len(masks), _STREAMS):
        _add(vector, masks[start : start + _STREAMS], block)


def _add(vector: UIntArray, masks: Sequence[Mask], block: int) -> None:
    streams = [(_stream(seed, block), np.add if sign > 0 else np.subtract) for seed, sign in masks]
    step, room = _PIECE // vector.itemsize, bytearray(_PIECE + 15)
    little = vector.dtype.newbyteorder("<")
    for start in range(0, len(vector), step):
        piece = vector[start : start + step]
        zeros, stream_piece = _ZEROS[: piece.nbytes], np.frombuffer(room, little, len(piece))
        for stream, apply in streams:
            stream.update_into(zeros, room)
            apply(piece, stream_piece, out=piece)


def _stream(seed: bytes, block: int = 0) -> CipherContext:
    counter = (int.from_bytes(seed[_BLOCK:], "big") + block) % (1 << 8 * _BLOCK)
    return Cipher(AES(seed[:_BLOCK]), CTR(counter.to_bytes(_BLOCK, "big"))).encryptor()
