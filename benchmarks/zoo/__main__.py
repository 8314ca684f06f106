"""Compare compiled models with plain PyTorch over the zoo: `python -m benchmarks.zoo [NAME...]`.

Processor time on one thread, both sides in turn, the median of the ratios eager over compiled:
above 1 is faster than PyTorch. On a busy machine only ratios mean something; the load is printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLASSHOUSE_THREADS", "1")

import torch
from benchmarks.zoo import layers  # noqa: F401  # adds its rows
from benchmarks.zoo.models import MODELS, TRAINED

import glasshouse as gh

ROUNDS = 9
LEAST = 0.02
"""Seconds of one measurement: shorter calls are repeated."""


def _seconds(call: Callable[[], Any], times: int) -> float:
    begin = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begin) / times


def compare(eager: Callable[[], Any], ours: Callable[[], Any]) -> tuple[float, float, float]:
    """Seconds of both, and the median of the ratios of neighbouring measurements."""
    times = []
    for call in (eager, ours):
        call()
        times.append(max(1, round(LEAST / max(_seconds(call, 1), 1e-7))))
    pairs = [(_seconds(eager, times[0]), _seconds(ours, times[1])) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in pairs)
    return min(a for a, _ in pairs), min(b for _, b in pairs), ratio


class _Loss(torch.nn.Module):
    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any) -> torch.Tensor:
        return self.module(*inputs).pow(2).mean()


def _training(module: torch.nn.Module, inputs: Any) -> tuple[Callable[[], Any], Any]:
    """A step in PyTorch, and the same step compiled."""
    loss = _Loss(module.train())
    optimizer = torch.optim.SGD(loss.parameters(), lr=1e-4)
    compiled = gh.compile(gh.trace_training(loss, None, optimizer, *inputs))

    def eager() -> None:
        optimizer.zero_grad()
        loss(*inputs).backward()
        optimizer.step()

    return eager, compiled


def _inference(module: torch.nn.Module, inputs: Any) -> tuple[Callable[[], Any], Any]:
    module.eval()
    compiled = gh.compile(module, *inputs)

    def eager() -> Any:
        with torch.no_grad():
            return module(*inputs)

    return eager, compiled


def _row(name: str) -> float:
    torch.manual_seed(0)
    module, inputs = MODELS[name]()
    eager, compiled = (_training if name in TRAINED else _inference)(module, inputs)
    a, b, ratio = compare(eager, lambda: compiled(*inputs))
    print(f"{name:32} {a * 1e3:10.3f} {b * 1e3:10.3f} {ratio:8.2f}", flush=True)
    return ratio


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each model, then how the ratios are distributed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="words that a model's name contains")
    words = parser.parse_args(arguments).names
    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f}; processor time in ms, one thread")
    print(f"{'model':32} {'eager':>10} {'ours':>10} {'ratio':>8}")
    chosen = [n for n in MODELS if not words or any(w in n for w in words)]
    ratios = [_row(name) for name in chosen]
    if ratios:
        low = sum(r < 0.97 for r in ratios)
        mean = statistics.geometric_mean(ratios)
        print(
            f"{len(ratios)} models, slower by more than 3 %: {low}; least {min(ratios):.2f}, "
            f"median {statistics.median(ratios):.2f}, geometric mean {mean:.2f}"
        )


if __name__ == "__main__":
    main()
