"""PyTorch's Inductor in the same glass: its kernels with code and times, over the graph that we
trace.

Inductor's wrapper tells the ATen ops of a library's function in a comment above its call, and those
of a generated kernel in the kernel's name. Both graphs compute the same in the same order, so the
n-th GELU of Inductor's kernels is the n-th of ours; facts of the recording say how many kernels
found their ops that way.
"""

from __future__ import annotations

import ast
import re
import statistics
import time
import warnings
from collections import defaultdict, deque
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

_ABOVE = re.compile(r"Original ATen: \[([^\]]*)\]")
_GENERATED = re.compile(r"cpp_(?:fused_)?(.*?)_\d+$")
_CALL = re.compile(r"^\s*(?:\w+ = )?((?:extern_kernels|torch\.ops|aten|mkldnn)[\w.]*|cpp_\w+)\(")


@dataclass(frozen=True)
class InductorCall:
    """One call in Inductor's wrapper."""

    name: str  # "cpp_fused_gelu_0", "extern_kernels.addmm"
    ops: tuple[str, ...]  # "gelu"


def calls_in(code: str) -> list[InductorCall]:
    """The kernels that generated code calls, in order, with their ops."""
    listed = [_names(found) for found in _ABOVE.findall(code)]
    known = sorted({op for ops in listed for op in ops}, key=lambda op: -len(op))
    out: list[InductorCall] = []
    inside = False
    for line in code.splitlines():
        inside = inside or line.lstrip().startswith("def call(")
        called = _CALL.match(line) if inside else None
        if called:
            name = called[1].removesuffix(".default")
            generated = _GENERATED.match(name)
            ops = _words(generated[1], known) if generated else (name.rpartition(".")[2],)
            out.append(InductorCall(name, ops))
    return out


def _words(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """The ops in the name of a kernel: `gelu_native_layer_norm` are two."""
    out: list[str] = []
    while text:
        found = next((op for op in known if text == op or text.startswith(f"{op}_")), "")
        word = found or text.partition("_")[0]
        out.append(word)
        text = text[len(word) :].lstrip("_")
    return tuple(out)


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
    waiting = _by_op(graph)
    made = [(call, code) for code in codes for call in calls_in(code)]
    many: dict[str, int] = defaultdict(int)
    for call, _ in made:
        many[_event(call.name, events)] += 1
    placed = 0
    sources = {code: kernels_in(code) for code in codes}
    for number, (call, code) in enumerate(made):
        found = [queue.popleft() for op in call.ops if (queue := waiting.get(_same(op)))]
        placed += bool(found)
        node = found[-1] if found else None
        text = sources[code].get(call.name, f"# {call.name}: a library's")
        module = node.origin.source.path if node is not None else ""
        words = " + ".join(call.ops) or call.name
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
    if any(count > 1 for count in many.values()):
        builder.facts["times"] = "calls of one function are shown with the mean of all of them"
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


_ALIKE = {"addmm": "product", "mm": "product", "bmm": "product", "linear": "product",
          "matmul": "product", "_linear_pointwise": "product", "convolution": "conv",
          "_convolution_pointwise": "conv"}  # fmt: skip


def _same(op: str) -> str:
    """One word for what Inductor and the traced program call differently."""
    plain = op.removeprefix("native_").removeprefix("_")
    if plain.startswith("conv") or op in _ALIKE:
        return _ALIKE.get(op, "conv")
    return plain


def _by_op(graph: Graph) -> dict[str, deque[Node]]:
    """The nodes of a traced graph, in order, by the ATen op that they come from."""
    out: dict[str, deque[Node]] = defaultdict(deque)
    last: dict[str, str] = {}
    for node in graph.nodes:
        label = node.origin.label("torch op")
        if node.op.kind is Kind.SOURCE or not label:
            continue
        key = _same(label.removeprefix("aten.").partition(".")[0])
        if last.get(key) == node.origin.name:
            out[key][-1] = node  # several nodes of one op: the last has its result
        else:
            out[key].append(node)
        last[key] = node.origin.name
    return out


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip().removeprefix("aten.") for part in text.split(",") if part.strip())
