"""Measures what symbolic sizes cost: one module for all sizes against one compiled for each size.

    python benchmarks/cpu/symbolic.py [-w NAMES] [--seconds 3] [--threads 2]

Both run in this process in short blocks, in turns, into given buffers, so that noise meets both
alike. A row gives medians of single calls, the symbolic one over the static one with the spread of
that ratio from round to round (p10 to p90), and the same ratio in processor time, which a busy
machine disturbs less. Results are checked against PyTorch first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim

from models import Bert, Mlp, ResNet, SelfAttention

Inputs = tuple[torch.Tensor, ...]
ROUNDS = 12


@dataclass(frozen=True)
class Case:
    """A model, its inputs at a size, the axis of each input that has it, and sizes to measure."""

    make: Callable[[], torch.nn.Module]
    inputs: Callable[[int], Inputs]
    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    most: int


def _tokens(length: int) -> Inputs:
    mask = torch.zeros(1, 1, 1, length)
    mask[..., length - length // 4 :] = -1e4
    return torch.randn(1, length, 768), mask


def _images(batch: int) -> Inputs:
    return (torch.rand(batch, 3, 224, 224),)


CASES = {
    "mlp_512": Case(lambda: Mlp(512), lambda n: (torch.randn(n, 512),), (0,), (1, 64, 1024), 2048),
    "attention": Case(SelfAttention, _tokens, (1, 3), (17, 64, 128), 512),
    "bert": Case(Bert, _tokens, (1, 3), (17, 64, 128), 512),
    "resnet18": Case(lambda: ResNet(18), _images, (0,), (1, 2), 8),
}


def compiled(case: Case, model: torch.nn.Module, size: int | None) -> Any:
    """The module for one size, or (None) for all of them."""
    import glasshouse as gh

    if size is not None:
        return gh.compile(model, *case.inputs(size))
    dim = Dim("size", min=1, max=case.most)
    # An example of size 1 would be taken as a constant by torch.export.
    return gh.compile(
        model, *case.inputs(3), dynamic_shapes=tuple({axis: dim} for axis in case.axes)
    )


def call_of(module: Any, inputs: Inputs, like: torch.Tensor) -> Callable[[], torch.Tensor]:
    output = torch.empty_like(like)

    def call() -> torch.Tensor:
        module.run_with_tensors(inputs, [output])
        return output

    return call


def block(call: Callable[[], Any], seconds: float) -> tuple[list[float], float]:
    """Milliseconds of single calls, and of the processor for one."""
    call()  # what the other left in the caches is not this one's fault
    times: list[float] = []
    cpu, end = time.process_time(), time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return times, (time.process_time() - cpu) * 1e3 / len(times)


def measured(static: Callable[[], Any], symbolic: Callable[[], Any], seconds: float) -> str:
    """A row of the table, from the times on."""
    both = (static, symbolic)
    times: tuple[list[float], list[float]] = ([], [])
    ratios: list[float] = []
    cpu: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS):
        medians = [0.0, 0.0]
        for which in (0, 1) if number % 2 else (1, 0):
            wall, used = block(both[which], seconds / ROUNDS / 2)
            times[which].extend(wall)
            cpu[which].append(used)
            medians[which] = statistics.median(wall)
        ratios.append(medians[1] / medians[0])
    ratios.sort()
    one, many = (statistics.median(t) for t in times)
    spread = f"{ratios[ROUNDS // 10]:.2f}..{ratios[-1 - ROUNDS // 10]:.2f}"
    processor = statistics.median(cpu[1]) / statistics.median(cpu[0])
    return f"{one:.4g} | {many:.4g} | {statistics.median(ratios):.3f} ({spread}) | {processor:.3f}"


def rows(name: str, case: Case, seconds: float) -> Iterator[str]:
    torch.manual_seed(0)
    model = case.make().eval().requires_grad_(False)
    every = compiled(case, model, None)
    for size in case.sizes:
        inputs, one = case.inputs(size), compiled(case, model, size)
        like = model(*inputs)
        calls = [call_of(module, inputs, like) for module in (one, every)]
        for call in calls:
            torch.testing.assert_close(call(), like, rtol=1e-4, atol=1e-4 * float(like.abs().max()))
        yield f"| {name} | {size} | {measured(calls[0], calls[1], seconds)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-w", "--workloads", default=",".join(CASES))
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing a size")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    os.environ["GLASSHOUSE_THREADS"] = str(args.threads)
    torch.set_num_threads(args.threads)
    print("| model | size | static, ms | symbolic, ms | ratio (p10..p90) | processor |")
    print("|---|---|---|---|---|---|")
    for name in args.workloads.split(","):
        for row in rows(name, CASES[name], args.seconds):
            print(row, flush=True)


if __name__ == "__main__":
    main()
