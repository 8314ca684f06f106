"""Single functions of PyTorch, compiled and eager in turns: eager's processor time over ours.

    .venv/bin/python benchmarks/functions.py [WORD...] [--sizes tiny,usual,large] [--below 0.97]

Each function is a module of its own, at three sizes, on one thread. A ratio is the median over
neighbouring turns. Words choose functions by parts of their names. The last column is the largest
difference from eager, relative to the largest element.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from benchmarks.function_rows import FUNCTIONS

import glasshouse as gh

SIZES = ("tiny", "usual", "large")
LEAST = 0.01
"""Seconds of one measurement: shorter calls are repeated."""


class Function(torch.nn.Module):
    """A model that is one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def measured(name: str, size: int, rounds: int) -> tuple[float, float, float, float]:
    """Microseconds of eager and of ours, the ratio, and the largest difference."""
    function, make = FUNCTIONS[name]
    torch.manual_seed(0)
    inputs = make(size)
    model = Function(function)
    with torch.no_grad():
        module = gh.compile(model, *inputs, threads=1)
        expected, found = tensors(model(*inputs)), tensors(module(*inputs))
        calls = (lambda: model.function(*inputs)), (lambda: module(*inputs))
        for call in calls:
            call()
        times = [max(1, round(LEAST / max(clocked(c, 3), 1e-7))) for c in calls]
        turns = [[clocked(c, n) for c, n in zip(calls, times, strict=True)] for _ in range(rounds)]
    eager, ours = (min(t[i] for t in turns) for i in (0, 1))
    return (
        eager * 1e6,
        ours * 1e6,
        statistics.median(a / b for a, b in turns),
        apart(found, expected),
    )


def clocked(call: Callable[[], Any], times: int) -> float:
    begin = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begin) / times


def tensors(found: Any) -> list[torch.Tensor]:
    if isinstance(found, (list, tuple)):
        return [t for part in found for t in tensors(part)]
    return [torch.as_tensor(found)]


def apart(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    def one(a: torch.Tensor, b: torch.Tensor) -> float:
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if not a.numel():
            return 0.0
        wide = torch.complex128 if a.is_complex() else torch.float64
        a, b = (t.to(wide).nan_to_num(1e30, 1e30, -1e30) for t in (a, b))
        return float((a - b).abs().max() / b.abs().max().clamp(min=1e-30))

    if len(found) != len(expected):
        return float("inf")
    return max((one(a, b) for a, b in zip(found, expected, strict=True)), default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--sizes", default="tiny,usual,large")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--below", type=float, default=float("inf"), help="only such ratios")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th function, from the I-th")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    chosen = [n for n in FUNCTIONS if not given.words or any(w in n for w in given.words)]
    part, parts = map(int, given.part.split("/"))
    for name in chosen[part::parts]:
        for size in given.sizes.split(","):
            try:
                eager, ours, ratio, error = measured(name, SIZES.index(size), given.rounds)
            except Exception as problem:  # one that cannot be compiled is a line of the table
                said = str(problem).splitlines() or [""]
                print(f"{name:28} {size:6} {type(problem).__name__}: {said[0][:120]}", flush=True)
                continue
            if ratio < given.below:
                print(
                    f"{name:28} {size:6} {eager:11.1f} {ours:11.1f} us {ratio:6.2f} {error:8.1e}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
