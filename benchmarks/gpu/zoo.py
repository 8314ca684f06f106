"""Runs the zoo of `benchmarks/zoo` on a GPU beside PyTorch: where is ours slower, and what has no
kernel?

Run: python -m benchmarks.gpu.zoo [WORD ...] [--systems eager,ours,compile] [--file FILE]
     python -m benchmarks.gpu.zoo --count [WORD ...]     no GPU: only what has no kernel on sm_90

A model is a process of its own, and several build side by side; one at a time is timed. Inference
rows are float16 where the model takes it, training steps go through torch.compile. Systems take
turns; a figure is the median, a ratio that of neighbouring turns, eager over ours: above 1 is
faster than PyTorch. `graph` is eager as a CUDA graph beside `bound`, ours without the Python of a
call. A line of JSON for each model.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
from benchmarks.zoo.measure import _apart, _tensors
from benchmarks.zoo.models import ROWS, Case, Row, rows
from benchmarks.zoo.systems import SYSTEMS, Ours

from glasshouse.frontend import dynamo

BAR, LEAST, ROUNDS = 0.97, 0.003, 7
Call = Callable[[], Any]


# ------------------------------------------------------------------------------------- one model
def on_gpu(row: Row, half: bool) -> Case:
    """A model and inputs of its own."""

    def moved(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(moved(part) for part in x)
        if isinstance(x, dict):
            return {name: moved(part) for name, part in x.items()}
        if not isinstance(x, torch.Tensor):
            return x
        return x.cuda().half() if half and x.dtype is torch.float32 else x.cuda()

    module, inputs = row.case()
    module = module.cuda()
    return module.half() if half else module, moved(inputs)


def runs(row: Row, half: bool) -> bool:
    """Whether plain PyTorch runs a model so, to finite results."""
    module, inputs = on_gpu(row, half)
    try:
        with torch.no_grad():
            found = _tensors(module.eval()(*inputs))
        return all(bool(t.isfinite().all()) for t in found)
    except Exception:
        return False


def settled(row: Row) -> tuple[bool, bool]:
    """Whether a model is float16, and whether its tensors are made on the GPU by default: some
    models name no device for those that they make themselves. That mode costs eager a few us for
    each op, so it is for them alone."""
    half = not row.training and row.dtype is torch.float32
    for default in (False, True):
        torch.set_default_device("cuda" if default else None)
        for kind in (True, False) if half else (False,):
            if runs(row, kind):
                return kind, default
    torch.set_default_device(None)
    return False, False


def eager_graph(row: Row, case: Case) -> Call:
    from benchmarks.gpu.run import graphed

    module, inputs = case
    module.eval()
    with torch.no_grad():
        return graphed(lambda: module(*inputs))


def made(system: str, row: Row, half: bool) -> Call:
    if "glasshouse" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(dynamo.backend, name="glasshouse")
    mine = "backend" if row.training else "glasshouse"
    makers = {**SYSTEMS, "ours": SYSTEMS[mine], "compile": SYSTEMS["inductor"]}
    return makers[system](row, on_gpu(row, half))


def clocked(call: Call, times: int) -> float:
    """Seconds of one call of several, to the end of the last."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / times


def in_turns(calls: dict[str, Call]) -> dict[str, list[float]]:
    times = {n: max(1, min(50, round(LEAST / clocked(c, 1)))) for n, c in calls.items()}
    turns: dict[str, list[float]] = {n: [] for n in calls}
    for _ in range(ROUNDS):
        for n, call in calls.items():
            turns[n].append(clocked(call, times[n]))
    return turns


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(over, under, strict=True)), 3)


def median_us(found: Sequence[float]) -> float:
    return round(statistics.median(found) * 1e6, 1)


def measure(name: str, systems: Sequence[str], lock: str, tell: Callable[[Any], None]) -> None:
    """Tells what is known of a model so far, twice: after calls, and after graphs."""
    row = ROWS[name]
    half, default = settled(row)
    kind = "float16" if half else "as it is"
    out: dict[str, Any] = {"name": name, "dtype": kind, "us": {}, "error": {}, "first_s": {}}
    if default:
        out["default device"] = True
    calls: dict[str, Call] = {}
    expected: Any = None
    for system in systems:
        begin = time.perf_counter()
        try:
            call = made(system, row, half)
            found = _tensors(call())
            torch.cuda.synchronize()
            out["first_s"][system] = round(time.perf_counter() - begin, 2)
            call()
        except Exception as error:
            first = (str(error).splitlines() or [""])[0][:200]
            out["error"][system] = f"{type(error).__name__}: {first}"
            continue
        expected = found if expected is None else expected
        out["error"][system] = round(_apart(found, expected), 5)
        calls[system] = call
    ours = calls.get("ours")
    if isinstance(ours, Ours):
        out |= steps_of([ours.module])
    elif ours is not None:
        out |= steps_of([g.runner.module for g in dynamo.compiled_graphs()])
    with Path(lock).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        turns = in_turns(calls)
        out["us"] = {n: median_us(found) for n, found in turns.items()}
        if "eager" in turns:
            out["ratio"] = {n: ratio(turns["eager"], f) for n, f in turns.items() if n != "eager"}
        tell(out)
        if row.training:
            return
        graphs: dict[str, Call] = {}
        if isinstance(ours, Ours) and hasattr(ours.module, "bound"):
            try:
                result = ours()
                results = list(result) if isinstance(result, (list, tuple)) else [result]
                graphs["bound"] = ours.module.bound(list(ours.inputs), results)
            except Exception as error:
                out["not bound"] = str(error)[:120]
        try:
            graphs["graph"] = eager_graph(row, on_gpu(row, half))
            turns = in_turns(graphs)
        except Exception as error:
            out["not graphed"] = str(error)[:120]
            turns = in_turns(graphs) if "graph" not in graphs else {}
        out["us"] |= {n: median_us(found) for n, found in turns.items()}
        if len(turns) == 2:
            out["graph ratio"] = ratio(turns["graph"], turns["bound"])
    tell(out)


def steps_of(modules: Sequence[Any]) -> dict[str, Any]:
    """Kernels, and steps without one by op and by who runs them, with what is copied for them."""
    from glasshouse.lower.program import Fallback

    if not all(hasattr(module, "program") for module in modules):
        return {"parts": True}
    steps = [(module, s) for module in modules for s in module.program.steps]
    fell = Counter(
        f"{s.node.op.name} by {m.runner_of(s.node)}" for m, s in steps if isinstance(s, Fallback)
    )
    copies = [pair for module in modules for pair in module.host_copies().values()]
    found: dict[str, Any] = {"kernels": len(steps) - sum(fell.values())}
    copied = sum(c.bytes for pair in copies for c in pair)
    return {**found, "fallbacks": dict(fell), "host bytes": copied}


def count(name: str, systems: Sequence[str], lock: str, tell: Callable[[Any], None]) -> None:
    """Kernels and steps without one, for an architecture that need not be here."""
    del systems, lock
    import glasshouse as gh
    from glasshouse.backend.base import target_named
    from glasshouse.lower.program import Fallback
    from glasshouse.passes import PassContext
    from glasshouse.passes.pipeline import optimize_program

    row = ROWS[name]
    module, inputs = row.case()
    if row.training:
        from benchmarks.zoo.systems import Loss

        loss = Loss(module.train())
        graph = gh.trace_training(loss, None, torch.optim.SGD(loss.parameters(), lr=1e-4), *inputs)
    else:
        graph = gh.trace(module.eval(), *inputs)
    ctx = PassContext(target=target_named("cuda:sm_90"))
    steps = optimize_program(graph, ctx).steps
    fell = Counter(s.node.op.name for s in steps if isinstance(s, Fallback))
    kernels = len(steps) - sum(fell.values())
    tell({"name": name, "kernels": kernels, "fallbacks": dict(fell)})


# ----------------------------------------------------------------------------------- all of them
def child(work: Any, name: str, systems: Sequence[str], lock: str, out: Connection) -> None:
    warnings.simplefilter("ignore")
    with Path(os.devnull).open("w") as nowhere:
        sys.stdout = sys.stderr = nowhere  # what compilers say
        try:
            work(name, systems, lock, out.send)
        except Exception as error:
            out.send({"name": name, "failed": repr(error)[:300]})


def all_rows(work: Any, names: Sequence[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Each in a process of its own, that is ended when its time is over."""
    context = multiprocessing.get_context("fork")  # what is imported is there at once
    systems, end = options.systems.split(","), time.monotonic() + options.limit
    rows: dict[str, dict[str, Any]] = {}
    running: dict[Connection, tuple[str, Any, float]] = {}
    left = list(names)[::-1]
    with tempfile.NamedTemporaryFile() as lock:
        while left or running:
            while left and len(running) < options.jobs and time.monotonic() < end:
                name = left.pop()
                near, far = context.Pipe(duplex=False)
                process = context.Process(target=child, args=(work, name, systems, lock.name, far))
                process.start()
                far.close()
                running[near] = name, process, min(time.monotonic() + options.budget, end)
            if not running:
                break
            for near in wait(list(running), 0.2):
                assert isinstance(near, Connection)
                try:
                    found = near.recv()
                    rows[found["name"]] = found
                except EOFError:
                    _done(*running.pop(near)[:2], "ended by itself", rows, options)
            for near, (name, process, until) in list(running.items()):
                if time.monotonic() > until:
                    del running[near]
                    _done(name, process, "ran out of time", rows, options)
    for name in left:
        rows[name] = {"name": name, "failed": "not begun"}
    return [rows[n] for n in names]


def _done(
    name: str, process: Any, why: str, rows: dict[str, dict[str, Any]], options: argparse.Namespace
) -> None:
    process.kill()
    process.join()
    row = rows.setdefault(name, {"name": name, "failed": why})
    print(line(row), flush=True)
    if options.file:
        with options.file.open("a") as file:
            file.write(json.dumps(row) + "\n")


def line(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['name']:34} {row['failed']}"
    fell = ", ".join(f"{n} {op}" for op, n in row.get("fallbacks", {}).items())
    figures = " ".join(f"{s} {t:.0f}" for s, t in row.get("us", {}).items())
    ratios = " ".join(f"{s} x{t:.2f}" for s, t in row.get("ratio", {}).items())
    graph = f" graph x{row['graph ratio']:.2f}" if "graph ratio" in row else ""
    return f"{row['name']:34} {figures}  {ratios}{graph}  kernels {row.get('kernels')} {fell}"


def summary(rows: Sequence[dict[str, Any]]) -> None:
    """How ratios are distributed, the worst rows, and what has no kernel."""
    kinds: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
        ("calls, eager over ours", lambda r: r.get("ratio", {}).get("ours")),
        ("calls, eager over torch.compile", lambda r: r.get("ratio", {}).get("compile")),
        ("graphs, eager over ours", lambda r: r.get("graph ratio")),
    ]
    for title, of in kinds:
        found = sorted((of(r), r["name"]) for r in rows if of(r) is not None)
        if len(found) < 2:
            continue
        ratios = [x for x, _ in found]
        quarters = statistics.quantiles(ratios, n=4)
        print(
            f"\n{title}: {len(found)} of {len(rows)} models, median "
            f"{statistics.median(ratios):.2f} (middle half {quarters[0]:.2f} to "
            f"{quarters[2]:.2f}), below {BAR}: {sum(x < BAR for x in ratios)}"
        )
        for x, name in found:
            if x < BAR:
                print(f"  {x:6.2f}  {name}")
    ops: Counter[str] = Counter()
    models: Counter[str] = Counter()
    for row in rows:
        ops.update(row.get("fallbacks", {}))
        models.update(row.get("fallbacks", {}).keys())
    print("\nsteps without a kernel (steps, models):")
    for op, number in ops.most_common():
        print(f"  {number:5} {models[op]:4}  {op}")
    wrong = [r for r in rows if "failed" in r or any(
        isinstance(e, str) or e > 0.05 or e != e for e in r.get("error", {}).values())]  # fmt: skip
    for row in wrong:
        print(f"  wrong: {row['name']}: {row.get('failed') or row['error']}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("words", nargs="*", help="words that a model's name contains (any of them)")
    add("--exact", action="store_true", help="the words are whole names, in this order")
    add("--systems", default="eager,ours", help="of eager, ours, compile, backend")
    add("--training", action=argparse.BooleanOptionalAction, help="only training steps, or none")
    add("--count", action="store_true", help="only count what has no kernel; needs no GPU")
    add("--jobs", type=int, default=4, help="models that are built side by side")
    add("--budget", type=float, default=90, help="seconds that a model may take")
    add("--limit", type=float, default=1e9, help="seconds that all of them may take")
    add("--file", type=Path, help="where the lines of JSON go")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    rows()
    import glasshouse.frontend.torch  # once, for all processes
    import glasshouse.runtime.compiler  # noqa: F401

    if options.exact:
        names = [n for n in options.words if n in ROWS]
    else:
        named = [n for n in ROWS if not options.words or any(w in n for w in options.words)]
        names = [n for n in named if options.training in (None, ROWS[n].training)]
    summary(all_rows(count if options.count else measure, names, options))


if __name__ == "__main__":
    main()
