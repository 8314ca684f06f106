"""The account of a module's time: what a call takes, and what of it each step takes.

Wall time and steps come from the same calls; plain ones run in turn with them. The library reads
its clock when it is entered and after each step, so that no time is lost between steps. What a call
takes besides has names, and is measured in the very same calls: gaps between kernels of a device,
copies of outputs and variables, and the call itself, which is what passes outside of the library
and of copies (arguments, the way in and back, outputs). Calls that run no step do not tell it:
behind steps that went through 2 MB of weights the same Python took 9 us instead of 3, because
nothing of it was left in the caches.

Figures are means over the middle half of the calls, by their wall time: no outlier counts, and
parts add up to the whole, which medians do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.lower.program import Fallback
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.module import KernelTime, Module, step_name


@dataclass(frozen=True)
class Account:
    """Seconds by call: `wall`, `steps` (calls by steps), `gaps` before each on a device, and
    `copies` of those with a clock; `plain` without one."""

    module: Module
    wall: Array
    steps: Array
    gaps: Array
    copies: Array
    plain: Array

    def middle(self, figures: Array) -> Array:
        """The mean over the middle half of the calls."""
        order = np.argsort(self.wall, kind="stable")
        least = len(order) // 4
        return np.asarray(figures[order[least : len(order) - least]].mean(0))

    def kernel_times(self) -> list[KernelTime]:
        """Middle and spread of each step."""
        middles, spreads = self.middle(self.steps), spread(self.steps)
        return [
            KernelTime(step_name(s), s.node, float(t), float(apart))
            for s, t, apart in zip(self.module.program.steps, middles, spreads, strict=True)
        ]

    @property
    def calls(self) -> Array:
        """Seconds of each call outside of steps, gaps between them and copies."""
        return np.asarray(self.wall - self.steps.sum(1) - self.gaps.sum(1) - self.copies)

    def facts(self) -> dict[str, str]:
        """For a recording. The share is as it is."""
        wall, steps = float(self.middle(self.wall)), self.middle(self.steps)
        total = float(steps.sum())
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
        if self.gaps.any():
            out["gap seconds"] = f"{float(self.middle(self.gaps).sum()):.6g}"
        out["copy seconds"] = f"{float(self.middle(self.copies)):.6g}"
        out["call seconds"] = f"{float(self.middle(self.calls)):.6g}"
        out["seconds without clock"] = f"{float(np.median(self.plain)):.6g}"
        return out


def measure_account(module: Module, inputs: Sequence[Any], count: int) -> Account:
    """Call `count` times each way, after twice that warms up; variables are left as they were."""
    arrays = module.arguments(inputs)
    given = list(inputs) if module.backend.elsewhere else arrays
    steps, calls = len(module.program.steps), count + 2
    wall, plain = np.zeros((2, calls))
    clock = np.zeros(steps + 1)
    clocks = np.zeros((calls, steps + 1))
    gaps = np.zeros((calls, steps))
    quick = module.clocked_call(clock)

    def whole(given: Sequence[Any]) -> None:
        # A quick call declines what is not contiguous, as it does without a clock.
        if quick is None or quick(given) is None:
            module.timed(given, clock)

    with module.unchanged():
        for i in range(calls):
            plain[i] = _seconds(module, module.run_flat, given)
            clock[:] = 0
            wall[i] = _seconds(module, whole, arrays)
            clocks[i] = clock
            for step, seconds in module.gaps().items():
                gaps[i, step] = seconds
    return Account(module, wall[2:], clocks[2:, :-1], gaps[2:], clocks[2:, -1], plain[2:])


def _seconds(module: Module, call: Callable[..., Any], given: Sequence[Any]) -> float:
    module.synchronize()
    begin = time.perf_counter()
    call(given)
    module.synchronize()
    return time.perf_counter() - begin


def spread(runs: Array) -> Array:
    """Half of the range in which the middle half of the runs lies."""
    low, high = np.percentile(runs, [25, 75], axis=0)
    return np.asarray((high - low) / 2)
