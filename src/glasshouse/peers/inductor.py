"""PyTorch's Inductor in the same glass: its kernels with code and times, over the graph that we
trace.

Inductor writes above each call in its generated wrapper which nodes of the captured program, and
which ATen ops, it computes. By these names a kernel finds its ops in our graph of the same model,
as far as both call them alike; facts of the recording say how many found theirs.
"""

from __future__ import annotations

import ast
import re
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.record.reader import Recording
from glasshouse.record.recorder import Recorder
from glasshouse.record.schema import KernelRow, Text, TimeRow
from glasshouse.record.writer import RecordingBuilder

_ABOVE = re.compile(r"Source Nodes: \[([^\]]*)\], Original ATen: \[([^\]]*)\]")
_CALL = re.compile(r"^\s*(?:\w+ = )?((?:extern_kernels|torch\.ops|aten|mkldnn)[\w.]*|cpp_\w+)\(")


@dataclass(frozen=True)
class Call:
    """One call in Inductor's wrapper."""

    name: str  # "cpp_fused_gelu_0", "extern_kernels.addmm"
    sources: tuple[str, ...]  # nodes of the captured program
    ops: tuple[str, ...]  # "aten.gelu"


def calls_in(code: str) -> list[Call]:
    """The kernels that generated code calls, in order, with what stands above each."""
    out: list[Call] = []
    above: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    inside = False
    for line in code.splitlines():
        inside = inside or line.lstrip().startswith("def call(")
        found = _ABOVE.search(line)
        if found:
            above = _names(found[1]), _names(found[2])
        called = _CALL.match(line) if inside else None
        if called:
            out.append(Call(called[1].removesuffix(".default"), *above))
    return out


def kernels_in(code: str) -> dict[str, str]:
    """The source of every kernel that the generated code defines, by its name."""
    out: dict[str, str] = {}
    for node in ast.parse(code).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        target = node.targets[0]
        texts = [a.value for a in node.value.args if isinstance(a, ast.Constant)]
        long = [t for t in texts if isinstance(t, str) and "\n" in t]
        if isinstance(target, ast.Name) and long:
            out[target.id] = long[-1]
    return out


def recording_of(
    model: Any, args: Sequence[Any], keywords: Mapping[str, Any], graph: Graph, count: int = 10
) -> Recording:
    """What Inductor makes of a model, with times; `graph` is our graph of it."""
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    before = config.cpp.enable_kernel_profile
    config.cpp.enable_kernel_profile = True
    torch._dynamo.reset()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = torch.compile(model, backend="inductor")
            _, codes = run_and_get_code(run, *args, **keywords)
            walls, events = _measured(run, args, keywords, count)
    finally:
        config.cpp.enable_kernel_profile = before
    recorder = Recorder(f"{graph.name or 'model'} (inductor {torch.__version__})")
    recorder.begin(graph, "traced")
    builder = RecordingBuilder.of(recorder.finish())
    builder.facts["compiler"] = f"inductor {torch.__version__}"
    builder.facts["wall seconds"] = f"{statistics.median(walls):.6g}"
    builder.facts["runs"] = str(count)
    add_calls(builder, graph, codes, events)
    return builder.finish()


def add_calls(
    builder: RecordingBuilder, graph: Graph, codes: Sequence[str], events: Mapping[str, float]
) -> None:
    """Rows for the kernels of generated code; `events` are seconds by name, of all its calls."""
    owner = builder.graphs[0]
    nodes = [n for n in graph.nodes if n.op.kind is not Kind.SOURCE]
    made = [(call, code) for code in codes for call in calls_in(code)]
    many: dict[str, int] = defaultdict(int)
    for call, _ in made:
        many[_event(call.name, events)] += 1
    placed = 0
    sources = {code: kernels_in(code) for code in codes}
    for number, (call, code) in enumerate(made):
        found = _ops_of(call, nodes)
        placed += bool(found)
        node = found[-1] if found else None
        text = sources[code].get(call.name, f"# {call.name}: a library's")
        module = node.origin.source.path if node is not None else ""
        words = " + ".join(o.removeprefix("aten.") for o in call.ops) or call.name
        owner.add(
            KernelRow(
                number, call.name, node.id if node is not None else -1, [n.id for n in found],
                "cpu", call.name, Text(text), "c++",
                title=f"{module}: {words}" if module else words,
            )
        )  # fmt: skip
        key = _event(call.name, events)
        if key in events:
            seconds = events[key] / many[key]
            owner.add(TimeRow("profile", node.id if node is not None else -1, seconds, number))
    builder.facts["kernels"] = str(len(made))
    builder.facts["kernels with their ops"] = f"{placed} of {len(made)}"


def _measured(
    run: Any, args: Sequence[Any], keywords: Mapping[str, Any], count: int
) -> tuple[list[float], dict[str, float]]:
    """Wall seconds of plain runs; seconds by event of one run, from runs that are profiled."""
    walls = []
    for _ in range(count):
        begin = time.perf_counter()
        run(*args, **keywords)
        walls.append(time.perf_counter() - begin)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(count):
            run(*args, **keywords)
    events = {e.key: e.cpu_time_total * 1e-6 / count for e in profile.key_averages()}
    return walls, events


def _event(name: str, events: Mapping[str, float]) -> str:
    """The event of a call: of a kernel its name, of a library's function that op."""
    last = name.rpartition(".")[2]
    for key in (name, last, f"aten::{last}", f"mkldnn::{last}"):
        if key in events:
            return key
    return next((k for k in events if k.endswith(f"_{last}") or last in k.split("::")), name)


def _ops_of(call: Call, nodes: Sequence[Node]) -> list[Node]:
    """The nodes of our graph that a call computes: by name, and of these the ops that it has."""
    names = set(call.sources)
    return [n for n in nodes if n.origin.name in names]


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
