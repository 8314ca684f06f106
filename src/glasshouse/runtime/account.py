"""The account of a module's time: what a call takes, and what of it each step takes.

Plain calls and calls with a clock take turns, so that both see the same machine. What the steps do
not explain has names: copies of outputs and variables, and the call itself (arguments, outputs, the
way into the library).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.lower.program import Fallback
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.module import KernelTime, Module, step_name


@dataclass(frozen=True)
class Account:
    """Seconds: `wall` of plain calls, `steps` (runs by steps) and `copies` of the clocked ones."""

    module: Module
    wall: Array
    steps: Array
    copies: Array

    def kernel_times(self) -> list[KernelTime]:
        """Median and spread of each step."""
        middles, spreads = np.median(self.steps, 0), spread(self.steps)
        return [
            KernelTime(step_name(s), s.node, float(t), float(apart))
            for s, t, apart in zip(self.module.program.steps, middles, spreads, strict=True)
        ]

    def facts(self) -> dict[str, str]:
        """For a recording. The share is as it is: above 1 where clocked runs were slower."""
        wall = float(np.median(self.wall))
        steps = np.median(self.steps, 0)
        total, copies = float(steps.sum()), float(np.median(self.copies))
        slow = [isinstance(s, Fallback) for s in self.module.program.steps]
        out = {
            "wall seconds": f"{wall:.6g}",
            "wall spread": f"{float(spread(self.wall)):.3g}",
            "kernel seconds": f"{total:.6g}",
            "share attributed": f"{total / wall:.3f}" if wall else "1",
            "runs": str(len(self.wall)),
        }
        if any(slow):
            out["fallback seconds"] = f"{float(steps[np.array(slow)].sum()):.6g}"
        out["copy seconds"] = f"{copies:.6g}"
        out["call seconds"] = f"{wall - total - copies:.6g}"
        return out


def measure_account(module: Module, inputs: Sequence[Any], count: int) -> Account:
    """Run `count` times each way, after once that warms up; variables are left as they were."""
    arrays = module.arguments(inputs)
    given = list(inputs) if module.backend.elsewhere else arrays
    places = len(module.program.steps) + 1
    clocked = np.zeros((count + 1, places))
    wall = np.zeros(count + 1)
    with module.unchanged():
        for i in range(count + 1):
            module.synchronize()
            begin = time.perf_counter()
            module.run_flat(given)
            module.synchronize()
            wall[i] = time.perf_counter() - begin
            module.timed(arrays, clocked[i])
    return Account(module, wall[1:], clocked[1:, :-1], clocked[1:, -1])


def spread(runs: Array) -> Array:
    """Half of the range in which the middle half of the runs lies."""
    low, high = np.percentile(runs, [25, 75], axis=0)
    return np.asarray((high - low) / 2)
