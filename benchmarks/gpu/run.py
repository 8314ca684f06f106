"""Times models on a GPU: ours beside PyTorch's eager mode and torch.compile, all as CUDA graphs,
and JAX where it is installed.

Run: python benchmarks/gpu/run.py [--only NAME ...] [--peers eager compile] [--out FOLDER]

Systems take turns inside of one run, each turn ten replays between two events; the figure is the
median of the turns. JAX has streams of its own, so its turns are ten calls by the host's clock, to
the end of the last. One row as JSON for each workload, and a table at the end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import glasshouse as gh
from gpu.training import stepping
from gpu.workloads import WORKLOADS

PEERS = ("eager", "compile", "autotune", "jax")
TURNS, REPLAYS = 30, 10
TRAINING = "gpt2 step b8 s512"


def graphed(function: Callable[[], Any]) -> Callable[[], None]:
    """A function as a CUDA graph, captured after three runs."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    replay: Callable[[], None] = graph.replay
    return replay


def turn(replay: Callable[[], None]) -> float:
    """Microseconds of one replay."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(REPLAYS):
        replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / REPLAYS


def peer(name: str, model: Any, inputs: Any) -> Callable[[], None]:
    if name == "eager":
        return graphed(lambda: model(*inputs))
    torch._dynamo.reset()
    mode = {"autotune": "max-autotune-no-cudagraphs"}.get(name)
    compiled = torch.compile(model, mode=mode)
    compiled(*inputs)
    return graphed(lambda: compiled(*inputs))


def jax_turn(call: Callable[[], Any]) -> float:
    """Microseconds of one call of many."""
    begin = time.perf_counter()
    for _ in range(REPLAYS):
        made = call()
    made.block_until_ready()
    return (time.perf_counter() - begin) * 1e6 / REPLAYS


def row(name: str, peers: list[str]) -> dict[str, Any]:
    torch.manual_seed(0)
    work = WORKLOADS[name]
    out: dict[str, Any] = {"workload": name, "floor": work.floor}
    model, inputs = work.made(work.dtype)
    systems: dict[str, Callable[[], None]] = {}
    with torch.no_grad():
        wanted = model(*inputs)
        begin = time.perf_counter()
        module = gh.compile(model, *inputs, progress=False)
        made = module(*inputs)
        torch.cuda.synchronize()
        out["ours first_s"] = round(time.perf_counter() - begin, 2)
        error = float((made - wanted).abs().max() / wanted.abs().max())
        out["differs"] = round(error, 5)
        begin = time.perf_counter()
        gh.compile(model, *inputs, progress=False)
        out["ours again_s"] = round(time.perf_counter() - begin, 2)
        try:
            systems["ours"] = module.bound(inputs, [made])
        except gh.errors.ExecutionError as refused:  # it changes variables, say
            out["ours is called"] = str(refused)[:200]
            systems["ours"] = lambda: module(*inputs)
        for other in peers:
            try:
                begin = time.perf_counter()
                if other == "jax":
                    from gpu.in_jax import in_jax

                    systems[other] = in_jax(model, inputs)
                    out["jax differs"] = jax_error(systems[other], wanted)
                else:
                    systems[other] = peer(other, model, inputs)
                out[f"{other} first_s"] = round(time.perf_counter() - begin, 2)
            except Exception as failure:
                out[f"{other} failed"] = repr(failure)[:200]
        clocks = {n: jax_turn if n == "jax" else turn for n in systems}
        for n, replay in systems.items():
            clocks[n](replay)
        times: dict[str, list[float]] = {n: [] for n in systems}
        for _ in range(TURNS):
            for n, replay in systems.items():
                times[n].append(clocks[n](replay))
            torch.cuda.synchronize()
        profiled = module.profile(*inputs, count=5)
    for n, found in times.items():
        out[n] = round(statistics.median(found), 2)
    best = min((out[n] for n in systems if n != "ours"), default=None)
    if best is not None:
        out["best peer over ours"] = round(best / out["ours"], 3)
    slowest = sorted(profiled, key=lambda t: -t.seconds)[:6]
    out["steps"] = len(profiled)
    out["slowest"] = [[t.name, round(t.seconds * 1e6, 2)] for t in slowest]
    out["settled"] = dict(module.settled())
    out["variants"] = sorted(
        {s.kernel.variant for s in module.program.steps if hasattr(s, "kernel")}
    )
    return out


def jax_error(call: Callable[[], Any], wanted: torch.Tensor) -> float:
    import numpy as np

    made = torch.from_numpy(np.asarray(call().astype("float32")))
    expected = wanted.cpu().float()
    return round(float((made - expected).abs().max() / expected.abs().max()), 5)


def training_row(peers: list[str]) -> dict[str, Any]:
    """Steps as they are called, without CUDA graphs around them, and the loss after some."""
    from glasshouse.frontend import dynamo

    if "glasshouse" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(dynamo.backend, name="glasshouse")
    out: dict[str, Any] = {"workload": TRAINING, "floor": 2740}
    systems: dict[str, Callable[[], Any]] = {}
    for name in ("ours", *(p for p in peers if p in ("eager", "compile"))):
        torch._dynamo.reset()
        begin = time.perf_counter()
        systems[name] = stepping(name)
        losses = [float(systems[name]()) for _ in range(3)]
        out[f"{name} first_s"] = round(time.perf_counter() - begin, 2)
        out[f"{name} losses"] = [round(x, 4) for x in losses]
    times: dict[str, list[float]] = {n: [] for n in systems}
    for _ in range(5):
        for n, step in systems.items():
            times[n].append(turn(step))
    for n, found in times.items():
        out[n] = round(statistics.median(found), 1)
    best = min((out[n] for n in systems if n != "ours"), default=None)
    if best is not None:
        out["best peer over ours"] = round(best / out["ours"], 3)
    return out


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", nargs="*", default=[])
    here = [p for p in PEERS if p != "jax" or find_spec("jax") is not None]
    arguments.add_argument("--peers", nargs="*", default=here, choices=PEERS)
    arguments.add_argument("--out", default="build")
    given = arguments.parse_args()
    rows: list[dict[str, Any]] = []
    folder = Path(given.out)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*WORKLOADS, TRAINING):
        if given.only and not any(word in name for word in given.only):
            continue
        try:
            measured = training_row if name == TRAINING else partial(row, name)
            rows.append(measured(given.peers))
        except Exception as failure:
            rows.append({"workload": name, "failed": repr(failure)[:500]})
        print(json.dumps(rows[-1]), flush=True)
        (folder / "bench-gpu.json").write_text(json.dumps(rows, indent=1))
        torch.cuda.empty_cache()
    print(table(rows, given.peers))


def table(rows: list[dict[str, Any]], peers: list[str]) -> str:
    names = ["ours", *peers, "floor", "best peer over ours"]
    lines = [f"| workload (us) | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for r in rows:
        cells = " | ".join(str(r.get(n, "-")) for n in names)
        lines.append(f"| {r['workload']} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
