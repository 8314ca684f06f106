"""Programs that take turns: each round times every one of them once, in changing order, so that all
meet the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glasshouse.runtime.arrays import Array

BLOCK = 2e-3
"""Seconds: shorter calls are repeated until a block takes about this long."""


def take_turns(calls: Sequence[Callable[[], Any]], rounds: int) -> Array:
    """Seconds of one call, by round and program; after one round that nobody counts."""
    repeats = [repeats_of(call) for call in calls]
    out = np.zeros((rounds, len(calls)))
    for i in range(rounds):
        order = list(range(len(calls)))
        if i % 2:
            order.reverse()
        for number in order:
            call, many = calls[number], repeats[number]
            begin = time.perf_counter()
            for _ in range(many):
                call()
            out[i, number] = (time.perf_counter() - begin) / many
    return out


def repeats_of(call: Callable[[], Any]) -> int:
    """How often a call is repeated for one measurement."""
    call()
    begin = time.perf_counter()
    call()
    return max(1, int(BLOCK / max(time.perf_counter() - begin, 1e-7)))
