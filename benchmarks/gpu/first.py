"""Times the first result of each model on a GPU: ours beside torch.compile, from empty caches, and
ours again from full ones; and the memory that each takes there.

Run: python benchmarks/gpu/first.py [--only NAME ...] [--side-by-side 4]

Every figure is a process of its own, with cache folders of its own, that has put the model on the
GPU before the clock begins. What a system imports (of PyTorch, most of it the same for both) is
timed apart, as `imported_s`. Several run beside each other; figures of one row come in the same
order, so that they meet about the same load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SYSTEMS = ("compile", "ours", "ours, warm", "eager")
TRAINING = "gpt2 step b8 s512"


# --------------------------------------------------------------------------------- one process
def one(name: str, system: str) -> dict[str, Any]:
    """Seconds to the first result, with the parts of ours, and bytes on the GPU."""
    import torch

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from gpu.training import stepping
    from gpu.workloads import WORKLOADS

    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    out: dict[str, Any] = {"imported_s": imported(system)}
    if name == TRAINING:
        register()
        step = stepping({"ours, warm": "ours"}.get(system, system))
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        out["first_s"] = round(time.perf_counter() - begin, 2)
        step()
    else:
        work = WORKLOADS[name]
        model, inputs = work.made(work.dtype)
        torch.cuda.synchronize()
        with torch.no_grad():
            if system.startswith("ours"):
                out |= ours(model, inputs)
            else:
                begin = time.perf_counter()
                run = torch.compile(model) if system == "compile" else model
                run(*inputs)
                torch.cuda.synchronize()
                out["first_s"] = round(time.perf_counter() - begin, 2)
                run(*inputs)
    torch.cuda.synchronize()
    out["torch_peak_mb"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    out["torch_held_mb"] = round(torch.cuda.memory_allocated() / 2**20, 1)
    return out


def imported(system: str) -> float:
    """Seconds of importing what a system needs to begin."""
    begin = time.perf_counter()
    if system == "compile":
        import torch._dynamo
        import torch._inductor.compile_fx
    elif system.startswith("ours"):
        import torch.export._trace  # noqa: F401

        import glasshouse.backend.cuda.backend
        import glasshouse.frontend.torch
        import glasshouse.runtime.compiler  # noqa: F401
    return round(time.perf_counter() - begin, 2)


def register() -> None:
    import torch

    from glasshouse.frontend import dynamo

    if "glasshouse" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(dynamo.backend, name="glasshouse")


def ours(model: Any, inputs: Any) -> dict[str, Any]:
    import torch

    import glasshouse as gh
    from glasshouse.backend.cuda import build
    from glasshouse.backend.cuda.device import Gpu

    spent: dict[str, float] = {}
    counts: dict[str, int] = {}

    def timed(where: Any, name: str, title: str) -> None:
        inner = getattr(where, name)

        def wrapped(*args: Any, **keywords: Any) -> Any:
            start = time.perf_counter()
            try:
                return inner(*args, **keywords)
            finally:
                spent[title] = spent.get(title, 0.0) + time.perf_counter() - start
                counts[title] = counts.get(title, 0) + 1

        setattr(where, name, wrapped)

    held = {"now": 0, "most": 0}
    sizes: dict[int, int] = {}
    allocate, free = Gpu.allocate, Gpu.free

    def allocated(self: Gpu, count: int) -> int:
        made = allocate(self, count)
        sizes[made] = count
        held["now"] += count
        held["most"] = max(held["most"], held["now"])
        return made

    def freed(self: Gpu, address: int) -> None:
        held["now"] -= sizes.pop(address, 0)
        free(self, address)

    Gpu.allocate, Gpu.free = allocated, freed  # type: ignore[method-assign]  # counted around
    from glasshouse.backend.cuda import backend as cuda_backend
    from glasshouse.backend.cuda import measure as cuda_measure

    timed(build, "compile_cubin", "nvrtc, all threads")
    timed(cuda_backend, "prepare", "candidates built")
    timed(cuda_backend, "measure", "candidates measured")
    timed(cuda_backend, "build", "program built")
    for name in ("__init__", "result", "turn"):  # of a variant; the rest is the wait for NVRTC
        timed(cuda_measure._Probe, name, f"probes {name.strip('_')}")
    begin = time.perf_counter()
    graph = gh.trace(model, *inputs, freeze=False)
    traced = time.perf_counter()
    module = gh.compile(graph, target="cuda", progress=False)
    compiled = time.perf_counter()
    del graph
    module(*inputs)
    torch.cuda.synchronize()
    end = time.perf_counter()
    module(*inputs)
    torch.cuda.synchronize()
    return {
        "first_s": round(end - begin, 2),
        "trace_s": round(traced - begin, 2),
        "compile_s": round(compiled - traced, 2),
        "first_run_s": round(end - compiled, 2),
        "own_held_mb": round(held["now"] / 2**20, 1),
        "own_peak_mb": round(held["most"] / 2**20, 1),
        **{f"{k} s": round(v, 2) for k, v in spent.items()},
        **{f"{k} n": v for k, v in counts.items()},
    }


# --------------------------------------------------------------------------------- all of them
def row(name: str, systems: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        caches = {
            "GLASSHOUSE_CACHE": f"{folder}/ours",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "TRITON_CACHE_DIR": f"{folder}/triton",
            "CUDA_CACHE_PATH": f"{folder}/driver",
        }
        Path(caches["GLASSHOUSE_CACHE"]).mkdir()
        for system in systems:
            command = [sys.executable, __file__, "--one", name, system]
            done = subprocess.run(
                command, check=False, env={**os.environ, **caches}, capture_output=True, text=True
            )
            tail = done.stdout.strip().splitlines()[-1:] or ["{}"]
            made = json.loads(tail[0]) if done.returncode == 0 else {"failed": done.stderr[-1500:]}
            found.append({"workload": name, "system": system, **made})
            found[-1]["load"] = round(os.getloadavg()[0], 1)
            print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", nargs="*", default=[])
    arguments.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=SYSTEMS)
    arguments.add_argument("--side-by-side", type=int, default=4)
    arguments.add_argument("--one", nargs=2, metavar=("NAME", "SYSTEM"))
    given = arguments.parse_args()
    if given.one:
        print(json.dumps(one(*given.one)))
        return
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from gpu.workloads import WORKLOADS

    names = [
        n for n in (*WORKLOADS, TRAINING) if not given.only or any(word in n for word in given.only)
    ]
    with ThreadPoolExecutor(given.side_by_side) as pool:
        rows = [r for found in pool.map(lambda n: row(n, given.systems), names) for r in found]
    print("| workload | torch.compile | ours | after tracing, warm | ours over its half |")
    print("|---|---|---|---|---|")
    for name in names:
        of = {r["system"]: r for r in rows if r["workload"] == name}
        theirs, mine, warm = (of.get(s, {}) for s in ("compile", "ours", "ours, warm"))
        after = round(warm.get("first_s", 0) - warm.get("trace_s", 0), 2) if warm else "-"
        share = (
            round(mine["first_s"] / theirs["first_s"] * 2, 2)
            if "first_s" in mine and "first_s" in theirs
            else "-"
        )
        figures = [theirs.get("first_s", "-"), mine.get("first_s", "-"), after, share]
        print(f"| {name} | {' | '.join(map(str, figures))} |")


if __name__ == "__main__":
    main()
