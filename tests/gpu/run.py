"""Runs ops, models and random graphs on the GPU of this machine against the reference, then what
users do there (`parts.py`).

Run: make test-gpu   (or python tests/gpu/run.py [OUT_FOLDER]); it goes on after a failure and ends
with one summary, which is written to OUT_FOLDER/test-gpu.txt too.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
if "hypothesis" not in sys.modules:
    try:
        import hypothesis  # noqa: F401
    except ImportError:  # random graphs need its name alone
        stub: Any = ModuleType("hypothesis")
        stub.strategies = ModuleType("hypothesis.strategies")
        stub.strategies.SearchStrategy = Any
        sys.modules.update({"hypothesis": stub, "hypothesis.strategies": stub.strategies})

import glasshouse as gh
from glasshouse.backend.cuda.device import gpu
from glasshouse.ir import GraphBuilder, Kind, op_named
from glasshouse.ir.dtype import to_storage
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run
from glasshouse.passes import PassContext
from glasshouse.runtime.account import measure_account
from glasshouse.runtime.compiler import compile_graph
from ops.harness import assert_close, attrs_of, typed_inputs, types_of
from ops.samples import SAMPLES

OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build")
LOOSER = {"float64": 100.0, "float32": 20.0, "float16": 4.0, "bfloat16": 4.0}
AT_A_TIME = 14
"""Parts that run beside each other: most of their time is tracing, on the host."""
FAILED: list[str] = []
LINES: list[str] = []


def say(line: str) -> None:
    LINES.append(line)
    print(line, flush=True)


def checked(title: str, check: Callable[[], str]) -> None:
    """One line of the summary; a failure is noted and does not end the run."""
    begin = time.perf_counter()
    try:
        result = check()
    except Exception as error:
        FAILED.append(f"{title}: {type(error).__name__}: {error}\n{traceback.format_exc(limit=-6)}")
        say(f"FAILED {title}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
        return
    say(f"ok     {title}: {result} ({time.perf_counter() - begin:.1f} s)")


def on_gpu() -> PassContext:
    ctx = PassContext(options={"resolve_variant": {"measure": "none"}})
    ctx.target = gh.backend.base.target_named("cuda")
    return ctx


# --------------------------------------------------------------------------------------- registry
def families() -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = defaultdict(list)
    for name, samples in SAMPLES.items():
        op = op_named(name)
        if op.kind is not Kind.SOURCE:
            for position, sample in enumerate(samples):
                types = sample.dtypes if position == 0 else sample.dtypes[:2]
                out[op.family] += [(name, sample, dtype) for dtype in types]
    return out


def family(cases: list[Any]) -> str:
    builder = GraphBuilder()
    arrays: list[Any] = []
    outputs = []
    names = []
    for name, sample, dtype in cases:
        op = op_named(name)
        inputs = typed_inputs(sample, dtype)
        operands = [builder.input(t.dtype, t.shape) for t in types_of(inputs, {})]
        builder.apply(op, *operands, **attrs_of(op, sample, {}))
        node = builder.graph.nodes[-1]
        outputs += [builder.wrap(v) for v in node.outputs]
        names += [(name, dtype, sample.tol)] * len(node.outputs)
        arrays += [to_storage(a, d) for d, a in inputs]
    graph = builder.finish(*outputs)
    module = compile_graph(graph, on_gpu())
    made = module(*arrays)
    made = made if isinstance(made, tuple) else (made,)
    wrong: list[str] = []
    for (name, dtype, tol), ours, theirs, value in zip(
        names, made, run(graph, arrays), graph.outputs, strict=True
    ):
        kind = value.type.dtype.name
        looser = tol * LOOSER.get(kind, 1.0) * (1e5 if (name, kind) == ("normal", "float64") else 1)
        try:
            assert_close(ours, theirs, kind, looser, f"{name} {dtype}")
        except AssertionError as error:
            wrong.append(" ".join(str(error).split())[:300])
    fell = {s.node.op.name for s in module.program.steps if isinstance(s, Fallback)}
    if wrong:
        raise AssertionError(f"{len(wrong)} of {len(names)} wrong: " + "; ".join(wrong[:6]))
    host = f", on the host: {', '.join(sorted(fell))}" if fell else ""
    return f"{len(names)} results, {len(module.program.kernels)} kernels{host}"


# ----------------------------------------------------------------------------------------- models
def primitive(graph: Any) -> str:
    random = np.random.default_rng(0)
    arrays = [
        random.standard_normal(v.type.shape).astype(v.type.dtype.carrier)
        if v.type.dtype.is_float
        else random.integers(0, 8, v.type.shape).astype(v.type.dtype.carrier)
        for v in graph.inputs
    ]
    module = gh.compile(graph, target="cuda", progress=False)
    made = module(*arrays)
    made = made if isinstance(made, tuple) else (made,)
    worst = 0.0
    for mine, theirs in zip(made, run(graph, arrays), strict=True):
        exact = np.asarray(theirs, np.float64)
        worst = max(
            worst, float(np.abs(np.asarray(mine, np.float64) - exact).max() / np.abs(exact).max())
        )
    if not worst < 2e-4:
        raise AssertionError(f"error {worst:.2e}")
    return f"error {worst:.1e} of the largest result"


_AS_EAGER = 1.4
"""How much of eager's error ours may be where both round, to half floats or to TF32."""


def torch_model(name: str, dtype: Any, bound: float) -> str:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from gpu.workloads import WORKLOADS

    torch.manual_seed(0)
    work = WORKLOADS[name]
    model, inputs = work.made(dtype)
    with torch.no_grad():
        exact = model.double()(*[x.double() for x in inputs]).float()
        model = model.to(dtype)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        eager = model(*inputs).float()
        working = torch.cuda.max_memory_allocated() - before
        weights = sum(x.nbytes for x in (*model.parameters(), *model.buffers()))
        module = gh.compile(model, *inputs, progress=False)
        ours = module(*inputs)
        assert ours.is_cuda, str(ours.device)
        assert ours.dtype is dtype, str(ours.dtype)
        again = module(*inputs)
        torch.cuda.synchronize()
        assert torch.equal(ours, again), "two runs differ"
    scale = exact.abs().max()
    mine, theirs = (float((y.float() - exact).abs().max() / scale) for y in (ours, eager))
    steps = module.program.steps
    fell = [s.node.op.name for s in steps if isinstance(s, Fallback)]
    # What is deployed: weights and working memory of each, without outputs and inputs.
    held = module._device.blocks.bytes
    said = f"error {mine:.1e}, eager's {theirs:.1e}, {len(steps)} steps" + (
        f", host: {fell}" if fell else ""
    )
    said += f", memory {held / 2**20:.1f} MB, eager's {(weights + working) / 2**20:.1f}"
    if not mine < max(bound, _AS_EAGER * theirs):
        raise AssertionError(said)
    return said


def random_graphs(count: int) -> str:
    from generators import case_of

    done = kernels = 0
    for seed in range(count):
        case = case_of(seed, 12, "float32")
        module = gh.compile(case.graph, target="cuda", progress=False, tune=False)
        made = module(*case.inputs)
        made = made if isinstance(made, tuple) else (made,)
        for mine, theirs in zip(made, run(case.graph, case.inputs), strict=True):
            kind = mine.dtype.name
            np.testing.assert_allclose(
                np.asarray(mine, np.float64), np.asarray(theirs, np.float64), 2e-3, 2e-3,
                err_msg=f"seed {seed} {kind}",
            )  # fmt: skip
        done += 1
        kernels += len(module.program.kernels)
    return f"{done} graphs, {kernels} kernels"


def profile_adds_up() -> str:
    """Times inside the graph against the graph's own time."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from gpu.workloads import WORKLOADS

    model, inputs = WORKLOADS["bert-base b1 s128"].made(torch.float16)
    with torch.no_grad():
        module = gh.compile(model, *inputs, progress=False)
        out = module(*inputs)
        again = module.bound(inputs, [out])
        account = measure_account(module, inputs, 5)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        again()
        begin.record()
        for _ in range(20):
            again()
        end.record()
        end.synchronize()
    whole = begin.elapsed_time(end) / 20 * 1e3
    kernels, gaps = (float(account.middle(x).sum()) * 1e6 for x in (account.steps, account.gaps))
    assert abs(kernels + gaps - whole) <= 0.05 * whole, f"{kernels} + {gaps} is not {whole}"
    recording = module.recording(*inputs, count=3)
    OUT.mkdir(parents=True, exist_ok=True)
    recording.save(OUT / "bert-gpu.glass") if hasattr(recording, "save") else None
    steps = len(module.program.steps)
    return f"kernels {kernels:.1f} us, gaps {gaps:.1f} us, graph {whole:.1f} us, {steps} steps"


def run_parts() -> None:
    """Every part as a process, some at a time; their lines are those of the summary. So is every
    family of ops: a fault leaves nothing of a process's GPU to those that follow."""
    from parts import ALONE, OPS, PARTS

    file = Path(__file__).with_name("parts.py")

    def one(part: str) -> tuple[str, subprocess.CompletedProcess[str]]:
        line = [sys.executable, str(file), part]
        try:
            return part, subprocess.run(
                line, check=False, capture_output=True, text=True, timeout=300
            )
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"").decode()
            return part, subprocess.CompletedProcess(line, 1, said, "no end after 300 s")

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        parts = [f"{OPS}{name}" for name in sorted(families())]
        together = pool.map(one, [*parts, *(part for part in PARTS if part not in ALONE)])
        for part, done in itertools.chain(together, map(one, ALONE)):
            lines = [x for x in done.stdout.splitlines() if x[:7] in ("ok     ", "FAILED ")]
            for line in lines:
                say(line[:300])
            FAILED.extend(line for line in lines if line.startswith("FAILED"))
            if done.returncode:
                said = f"FAILED part {part}: exit {done.returncode}: {done.stderr[-1500:]}"
                say(said[:300].replace("\n", " "))
                FAILED.append(said)


def main() -> int:
    device = gpu()
    chip = f"{device.name}, {device.arch}, driver {device.driver_version}"
    say(f"{time.strftime('%Y-%m-%d')}, {chip}, torch {torch.__version__}")
    from primitive_models import bert, gpt2, llama, resnet_block, vit

    for name, make in (
        ("bert", bert),
        ("gpt2", gpt2),
        ("llama", llama),
        ("vit", vit),
        ("resnet block", resnet_block),
    ):
        checked(f"model {name}", lambda make=make: primitive(make()))
    for name in (
        "mlp b1024 h512",
        "mlp b1 h1024",
        "attn b1 s128 h768",
        "resnet18 b1",
        "bert-base b1 s128",
        "attn b16 s512 h768",
    ):
        checked(f"{name} float16", lambda name=name: torch_model(name, torch.float16, 2e-2))
    checked("mlp b512 h1024 bfloat16", lambda: torch_model("mlp b512 h1024", torch.bfloat16, 6e-2))
    checked("mlp b512 h1024 float32", lambda: torch_model("mlp b512 h1024", torch.float32, 1e-4))
    checked("resnet18 b1 tf32", lambda: torch_model("resnet18 b1", torch.float32, 1e-4))
    torch.backends.cudnn.allow_tf32 = False
    checked("resnet18 b1 float32", lambda: torch_model("resnet18 b1", torch.float32, 1e-4))
    torch.backends.cudnn.allow_tf32 = True
    checked("profile", profile_adds_up)
    checked("random graphs", lambda: random_graphs(12))
    run_parts()
    say(f"{len(FAILED)} failed of {len(LINES) - 1}")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "test-gpu.txt").write_text("\n".join(LINES) + "\n\n" + "\n".join(FAILED) + "\n")
    (OUT / "test-gpu.json").write_text(json.dumps({"lines": LINES, "failed": FAILED}))
    return int(bool(FAILED))


if __name__ == "__main__":
    sys.exit(main())
