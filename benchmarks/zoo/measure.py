"""One row of the zoo measured: all systems in turns, wall and processor time, results compared."""

from __future__ import annotations

import os
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from benchmarks.zoo.models import ROWS
from benchmarks.zoo.systems import Ours, make

LEAST = 0.01
"""Seconds of one measurement: shorter calls are repeated."""

Clock = tuple[float, float]


def measured(name: str, systems: Sequence[str], rounds: int) -> dict[str, Any]:
    """Milliseconds of each system, ratios of the first one's to it, and where ours goes to.

    A ratio is the median over neighbouring turns, so that what else the machine does falls on both.
    `error` is the largest difference from the first system's outputs, relative to their largest
    element; `made` the processor seconds until the second result.
    """
    row = ROWS[name]
    out: dict[str, Any] = {"name": name, "ms": {}, "wall": {}, "ratio": {}, "error": {}, "made": {}}
    calls: dict[str, Callable[[], Any]] = {}
    expected: Any = None
    for system in systems:
        begin = _spent()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call = make(system, row)
                found = _tensors(call())
                call()
        except Exception as error:  # a peer that cannot; ours counts as a row below the bar
            out["error"][system] = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
            continue
        out["made"][system] = round(_spent() - begin, 2)
        calls[system] = call
        expected = found if expected is None else expected
        out["error"][system] = _apart(found, expected)
    times = {s: _repeats(c) for s, c in calls.items()}
    turns: dict[str, list[Clock]] = {s: [] for s in calls}
    for _ in range(rounds):
        for system, call in calls.items():
            turns[system].append(_clocked(call, times[system]))
    for system, found in turns.items():
        out["ms"][system] = min(cpu for cpu, _ in found) * 1e3
        out["wall"][system] = min(wall for _, wall in found) * 1e3
        pairs = zip(turns[systems[0]], found, strict=True)
        out["ratio"][system] = statistics.median(a[0] / b[0] for a, b in pairs)
    ours = calls.get("glasshouse")
    if isinstance(ours, Ours) and out["ratio"]["glasshouse"] < 0.97:
        out["kernels"] = [(round(s * 1e3, 3), n) for s, n in ours.profile()[:4]]
    return out


def _repeats(call: Callable[[], Any]) -> int:
    return max(1, round(LEAST / max(_clocked(call, 1)[0], 1e-6)))


def _clocked(call: Callable[[], Any], times: int) -> Clock:
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(times):
        call()
    return (time.process_time() - cpu) / times, (time.perf_counter() - wall) / times


def _spent() -> float:
    """Processor seconds so far, those of compilers that were called included."""
    return sum(os.times()[:4])


def _tensors(found: Any) -> list[torch.Tensor]:
    """All tensors of a result, kept as they are now."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, (list, tuple)):
        return [t for part in found for t in _tensors(part)]
    return [found.detach().clone() if isinstance(found, torch.Tensor) else torch.as_tensor(found)]


def _apart(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest difference of an element, relative to the largest element of its tensor."""
    return max((_differ(a, b) for a, b in zip(found, expected, strict=True)), default=0.0)


def _differ(a: torch.Tensor, b: torch.Tensor) -> float:
    a, b = (t.to(torch.complex128).flatten() for t in (a, b))
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-30)) if b.numel() else 0.0
