"""Which random numbers there are: those of element i are a hash of the seed and i alone.

The hash is Philox-4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw 2011), the generator that Triton,
cuRAND and PyTorch use too. All arithmetic is on 32-bit unsigned integers that wrap:

    key     = (seed mod 2^32, seed div 2^32), the seed's 64 bits taken as unsigned
    counter = (i mod 2^32, i div 2^32, 0, 0), i the row-major index of the element
    ten times:
        p0 = 0xD2511F53 * counter[0],  p1 = 0xCD9E8D57 * counter[2]      as 64-bit products
        counter = (hi(p1) ^ counter[1] ^ key[0], lo(p1), hi(p0) ^ counter[3] ^ key[1], lo(p0))
        key = (key[0] + 0x9E3779B9, key[1] + 0xBB67AE85)
    words = counter

No state: elements can be computed in any order, on any machine, and again in the backward pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def words(seed: int, count: int) -> tuple[Array, Array, Array, Array]:
    """The four 32-bit words of elements 0 to `count` - 1, as uint64 arrays."""
    index = np.arange(count, dtype=np.uint64)
    c0, c1, c2, c3 = index & _LOW, index >> _HALF, np.zeros_like(index), np.zeros_like(index)
    bits = seed % 2**64
    k0, k1 = bits % 2**32, bits >> 32
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (p1 >> _HALF) ^ c1 ^ np.uint64(k0), p1 & _LOW,
            (p0 >> _HALF) ^ c3 ^ np.uint64(k1), p0 & _LOW,
        )  # fmt: skip
        k0, k1 = (k0 + _WEYL[0]) % 2**32, (k1 + _WEYL[1]) % 2**32
    return c0, c1, c2, c3


def top_bits(word: Array) -> Array:
    """The upper 24 of 32 bits: an integer below 2^24, exact in float32."""
    out: Array = word >> np.uint64(8)
    return out
