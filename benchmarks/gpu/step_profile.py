"""Where a training step spends its time and PyTorch's memory, kernel by kernel, for one system.

Run: python benchmarks/gpu/step_profile.py ours|compile|eager [--steps 3] [--top 45] [--lock FILE]

Kernels are timed by PyTorch's profiler, which sees those of every system alike, inside graphs too;
ours are named by what they compute. With `--lock`, what is timed runs while this process holds it.
"""

from __future__ import annotations

import argparse
import fcntl
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpu.training import stepping

GIB = 1 << 30


@contextmanager
def held(path: str) -> Iterator[None]:
    if not path:
        yield
        return
    with Path(path).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kernels(step: Any, steps: int) -> list[tuple[str, float]]:
    """Name and microseconds of every launch, in order."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    found = [e for e in seen.events() if str(e.device_type).endswith("CUDA")]
    found.sort(key=lambda e: e.time_range.start)
    return [(e.name, e.time_range.elapsed_us()) for e in found]


def timed(step: Any) -> str:
    """A step as it is called, and how long the host takes for it."""
    times, hosts = [], []
    for _ in range(15):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin = time.perf_counter()
        first.record()
        for _ in range(4):
            step()
        last.record()
        hosts.append((time.perf_counter() - begin) / 4e-3)
        last.synchronize()
        times.append(first.elapsed_time(last) / 4)
    return (
        f"step {statistics.median(times):.2f} ms (least {min(times):.2f}), "
        f"the host is done after {statistics.median(hosts):.2f}"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("system", choices=("ours", "compile", "eager"))
    arguments.add_argument("--steps", type=int, default=3)
    arguments.add_argument("--top", type=int, default=45)
    arguments.add_argument("--lock", default="")
    given = arguments.parse_args()
    from glasshouse.frontend import dynamo

    if "glasshouse" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(dynamo.backend, name="glasshouse")
    begin = time.perf_counter()
    step = stepping(given.system)
    losses = [float(step()) for _ in range(4)]
    first = time.perf_counter() - begin
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    print(
        f"## {given.system}: first {first:.1f} s, losses {[round(x, 4) for x in losses]}; PyTorch "
        f"holds at most {torch.cuda.max_memory_allocated() / GIB:.2f} GiB, "
        f"{torch.cuda.max_memory_reserved() / GIB:.2f} reserved"
    )
    with held(given.lock):
        print(timed(step))
        found = kernels(step, given.steps)
    if given.system == "ours":
        found = named(found)
    each: dict[str, list[float]] = defaultdict(list)
    for name, took in found:
        each[name].append(took)
    total = sum(took for _, took in found) / given.steps / 1e3
    print(f"kernels {total:.2f} ms, {len(found) / given.steps:.0f} launches")
    for name, took_all in sorted(each.items(), key=lambda x: -sum(x[1]))[: given.top]:
        together, count = sum(took_all) / given.steps, len(took_all) / given.steps
        print(f"{together:9.1f} us {count:6.1f} x {together / count:8.1f}  {name[:260]}")


def named(found: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Launches by what they compute: those of ours come in the order of their programs."""
    launches = described()
    ours, order = {name for name, _ in launches}, [name for name, _ in launches]
    seen = [name for name, _ in found if name in ours]
    if not order or seen != order * (len(seen) // len(order)):
        print(f"the {len(seen)} launches are not those of the programs, {len(order)} a step")
        return found
    out, at = [], 0
    for name, took in found:
        if name in ours:
            out.append((launches[at % len(order)][1], took))
            at += 1
        else:
            out.append((name, took))
    return out


def described() -> list[tuple[str, str]]:
    """Every launch of the compiled programs, in order: its function, and what it computes."""
    from glasshouse.frontend import dynamo
    from glasshouse.lower.program import Call

    out: list[tuple[str, str]] = []
    for made in dynamo.compiled_graphs():
        module = made.runner.module
        work = [w for w in module.plan.workspaces if isinstance(w, int)]
        arena = max(module.plan.arena_bytes, module.plan.work_offset + max(work, default=0))
        print(f"{made.phase}: {len(module.program.steps)} steps, arena {arena / GIB:.3f} GiB")
        plan = module._executable.plan
        for step in module.program.steps:
            if not isinstance(step, Call):
                continue
            kernel, values = step.kernel, (*step.inputs, *step.outputs)
            shapes = ["x".join(map(str, v.type.shape)) for v in values if hasattr(v, "type")]
            for launch in plan["kernels"][kernel.name]["launches"]:
                if launch.get("clock") or "library" in launch:  # of a library, under its own name
                    continue
                what = f"{launch['function'][-24:]} {launch['grid']} {kernel.variant}"
                ops = f"{','.join(kernel.ops)[:90]} [{' '.join(shapes)[:120]}]"
                out.append((launch["function"], f"{made.phase[:3]} {what} {ops}"))
    return out


if __name__ == "__main__":
    main()
