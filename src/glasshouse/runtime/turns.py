"""Programs that take turns: each round times every one of them once, in changing order, so that all
meet the same machine.

A program that runs after a long one finds threads awake and another cache: the order is drawn anew
for each two rounds, the second of which goes backwards, so that nobody has the same neighbours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glasshouse.runtime.arrays import Array

BLOCK = 2e-3
"""Seconds: shorter calls are repeated until a block takes about this long."""


class Turns:
    """Seconds of one call by round and program, by two clocks; rounds can be added.

    The wall clock counts what a user waits for; the processor's clock leaves out the time in which
    other programs had the processor.
    """

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self._calls = calls
        self._repeats = [repeats_of(call) for call in calls]
        self.wall: Array = np.zeros((0, len(calls)))
        self.processor: Array = np.zeros((0, len(calls)))

    def take(self, rounds: int) -> None:
        """Run so many rounds more."""
        made = np.zeros((2, rounds, len(self._calls)))
        for i in range(rounds):
            for number in order_of(len(self.wall) + i, len(self._calls)):
                call, many = self._calls[number], self._repeats[number]
                used, begin = time.process_time(), time.perf_counter()
                for _ in range(many):
                    call()
                made[:, i, number] = (time.perf_counter() - begin, time.process_time() - used)
        made /= self._repeats
        self.wall = np.concatenate([self.wall, made[0]])
        self.processor = np.concatenate([self.processor, made[1]])


def take_turns(calls: Sequence[Callable[[], Any]], rounds: int) -> Array:
    """Seconds of one call by the wall clock, by round and program."""
    turns = Turns(calls)
    turns.take(rounds)
    return turns.wall


def order_of(turn: int, count: int) -> list[int]:
    """In which order so many programs run in a round."""
    pair, backwards = divmod(turn, 2)
    order: list[int] = np.random.default_rng(pair).permutation(count).tolist()
    return order[::-1] if backwards else order


def repeats_of(call: Callable[[], Any]) -> int:
    """How often a call is repeated for one measurement; it is called four times to find out."""
    call()
    best = np.inf
    for _ in range(3):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return max(1, int(BLOCK / max(best, 1e-7)))
